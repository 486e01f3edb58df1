/**
 * Losses and gradients of the steps against those of TRL's trainers on a golden model:
 * `test/golden/generate/steps.py`.
 */
import { readFileSync } from 'node:fs'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadWeights, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../../src/modules/transformer/config.js'
import { completionBatch } from '../../../src/modules/transformer/pack.js'
import type { Params } from '../../../src/modules/transformer/params.js'
import { completionLogits } from '../../../src/modules/transformer/score.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { makeValuer } from '../../../src/modules/valueHead.js'
import { vocabularyDivergence } from '../../../src/objectives/distillationLoss.js'
import { dpoLoss } from '../../../src/objectives/dpoLoss.js'
import type { LossMetrics } from '../../../src/objectives/loss.js'
import { valueLoss } from '../../../src/objectives/valueLoss.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { gradientOf } from '../../kit/lossSteps.js'
import { rightOf } from '../../kit/results.js'
import { dpoStep, type RowStep, sftStep, valueStep, withReference } from '../../kit/stepsOf.js'
import { descent } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

type Rows = readonly (readonly number[])[]

interface Measured {
  readonly loss: number
  /** Norm, and the product with cos(0), cos(1), ... */
  readonly gradients: Readonly<Record<string, readonly [number, number]>>
}

interface Golden {
  readonly model: string
  readonly teacher: string
  readonly prompts: Rows
  readonly chosen: Rows
  readonly rejected: Rows
  readonly sft: Measured
  readonly dpo: Readonly<
    Record<'sigmoid' | 'ipo', Measured & Readonly<Record<'chosen' | 'rejected' | 'accuracy', number>>>
  >
  readonly distillation: Readonly<Record<'forward' | 'reverse' | '0.3', Measured>>
  readonly value: Measured & {
    readonly head: readonly number[]
    readonly bias: number
    readonly returns: Rows
    readonly oldValues: Rows
    readonly values: readonly number[]
  }
}

const golden = JSON.parse(readFileSync('test/golden/steps.json', 'utf8')) as Golden // written by the generator

interface Model {
  readonly config: DecoderConfig
  readonly params: Params
}

const models: Owned<Model>[] = []
const load = async (name: string): Promise<Model> => {
  const { config, arrays } = await rightOf(loadWeights(`test/golden/models/${name}`))
  const model = own(scope(() => ({ config, params: makeParams(arrays) })))
  models.push(model)
  return model.value
}

let model: Model
let teacher: Model
beforeAll(async () => {
  model = await load(golden.model)
  teacher = await load(golden.teacher)
})
afterAll(() => {
  for (const each of models) each.release()
})

/** Loss and gradients of a step at the golden model, compared with TRL's. */
const expectAsGolden = <R, M extends LossMetrics>(
  step: RowStep<ReturnType<typeof descent.init>, R, M>,
  rows: R,
  { expected, params = model.params }: { readonly expected: Measured; readonly params?: Params },
): M => {
  const subject = { step: () => step, params: () => params, rows: () => rows, broken: () => rows }
  const { gradients, metrics } = gradientOf(subject, rows)
  expectClose([metrics.loss], [expected.loss], { absolute: 1e-5, relative: 1e-5 })
  const scale = Math.hypot(...Object.values(expected.gradients).map(([norm]) => norm))
  for (const [name, [norm, product]] of Object.entries(expected.gradients)) {
    const ours = gradients[name]!
    expectClose([Math.hypot(...ours)], [norm], { absolute: 1e-5 * scale })
    expectClose([ours.reduce((sum, g, i) => sum + g * Math.cos(i), 0)], [product], { absolute: 1e-5 * scale })
  }
  return metrics
}

const options = () => ({ config: model.config, optimizer: descent, maxGradNorm: 1e9 })

describe('on the model and the rows of TRL, loss and gradients are its own', () => {
  it('of supervised fine-tuning', () => {
    const { prompts, chosen: completions } = golden
    expectAsGolden(sftStep(options()), { prompts, completions }, { expected: golden.sft })
  })

  it.each(['sigmoid', 'ipo'] as const)('of direct preference optimization (%s), with its rewards', (form) => {
    const { prompts, chosen, rejected } = golden
    const expected = golden.dpo[form]
    const scorer = makeScorer(teacher.config)
    const rows = withReference({ prompts, chosen, rejected }, { scorer, params: teacher.params })
    scorer.release()
    const metrics = expectAsGolden(dpoStep({ ...options(), loss: dpoLoss({ form, beta: 0.3 }) }), rows, { expected })
    const { chosenReward, rejectedReward, accuracy } = metrics
    expectClose([chosenReward, rejectedReward, accuracy], [expected.chosen, expected.rejected, expected.accuracy], {
      absolute: 1e-5,
      relative: 1e-5,
    })
  })

  it.each([
    ['forward', 'forward'],
    ['reverse', 'reverse'],
    ['0.3', { teacherShare: 0.3 }],
  ] as const)('of distillation from whole distributions (%s), of which the loss alone', (name, divergence) => {
    const { prompts, chosen: completions } = golden
    const each = scope(() => {
      const logits = ({ config, params }: typeof teacher): tf.Tensor =>
        completionLogits(params, config, completionBatch({ prompts, completions }, config))
      return Array.from(vocabularyDivergence(logits(model), logits(teacher), divergence).dataSync())
    })
    const width = each.length / completions.length // rows are padded
    const counted = completions.flatMap((row, i) => each.slice(i * width, i * width + row.length))
    const loss = counted.reduce((sum, x) => sum + x, 0) / counted.length
    expectClose([loss], [golden.distillation[name].loss], { absolute: 2e-5, relative: 1e-5 })
  })

  it('of a value head with its range, and the values are those of the same places', () => {
    const { prompts, chosen: completions } = golden
    const { head, bias, returns, oldValues, values } = golden.value
    using params = own(
      scope(() => ({
        ...model.params,
        'value_head.weight': tf.tensor2d([[...head]]),
        'value_head.bias': tf.tensor1d([bias]),
      })),
    )
    const valuer = makeValuer(model.config)
    const ours = valuer.values(params.value, { prompts, completions }).flatMap((row) => Array.from(row))
    valuer.release()
    expectClose(ours, values, { absolute: 2e-5, relative: 1e-5 })
    const step = valueStep({ ...options(), loss: valueLoss({ clipEpsilon: 0.4 }) })
    const rows = { prompts, completions, returns, oldValues }
    const metrics = expectAsGolden(step, rows, { expected: golden.value, params: params.value })
    const [old, targets] = [oldValues.flat(), returns.flat()]
    const cut = values.filter((v, i) => {
      const near = Math.min(Math.max(v, old[i]! - 0.4), old[i]! + 0.4)
      return (near - targets[i]!) ** 2 > (v - targets[i]!) ** 2
    })
    expect(cut.length).toBeGreaterThan(0)
    expectClose([metrics.valueCutFraction], [cut.length / values.length], { absolute: 1e-6 })
  })
})
