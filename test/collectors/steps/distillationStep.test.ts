/** Distillation: the loss is the pure one on what both models say, and the student becomes the teacher. */
import { describe, expect, it } from 'vitest'
import {
  type DistillationMetrics,
  type DistilledRows,
  type GKDMetrics,
  gkdStep,
  type TaughtRows,
} from '../../../src/collectors/steps/distillationStep.js'
import { keyFromSeed } from '../../../src/core/key.js'
import { own, scope } from '../../../src/engine/scope.js'
import { completionBatch, packCompletions } from '../../../src/modules/transformer/pack.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { completionLogits } from '../../../src/modules/transformer/score.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { DistillationLoss, vocabularyDivergence } from '../../../src/objectives/distillationLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { describeStep, gradientOf, SMALL_DECODER, type StepSubject, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { distillationStep } from '../../kit/stepsOf.js'
import { paddedTensor, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

const config = tinyConfig(SMALL_DECODER)
const teacherConfig = tinyConfig({ ...SMALL_DECODER, intermediateSize: 12 })

const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))
const teacher = useParams(() => initialParams(teacherConfig, keyFromSeed(2), 0.5))

const rowsOf = (seed: number): Required<TaughtRows> => {
  const { prompts, completions, refLogProbs } = randomRows(config.vocabularySize, [2, 1, 1], seed)
  const masks = completions.map((row) => Array.from(row, (_, t) => (t === 1 ? 0 : 1)))
  return { prompts, completions, masks, temperature: 0.8, teacherLogProbs: refLogProbs! }
}

describe('distillationStep', () => {
  const loss = DistillationLoss({ klDirection: 'forward' })
  const subject: StepSubject<TaughtRows, DistillationMetrics> = {
    step: (changes) => distillationStep({ config, loss, ...changes }),
    params,
    rows: rowsOf,
    broken: (rows) => ({ ...rows, teacherLogProbs: rows.completions.map((row) => Array.from(row, () => Number.NaN)) }),
  }

  it('has the loss of the log-probabilities of its rows, at their temperature', () => {
    const rows = rowsOf(7)
    const scorer = makeScorer(config)
    const groups = { prompts: rows.prompts, group: 1 }
    const logProbs = scorer.score(params(), { groups, completions: rows.completions, temperature: 0.8 })
    scorer.release()
    const expected = scope(() => {
      const { lossDistillation, kl, teacherZeros } = loss.apply({
        logProbs: paddedTensor(logProbs),
        teacherLogProbs: paddedTensor(rows.teacherLogProbs),
        mask: paddedTensor(rows.masks),
      })
      return [lossDistillation, kl, teacherZeros].map((x) => x.dataSync()[0]!)
    })
    const { metrics } = gradientOf(subject, rows)
    expectClose([metrics.loss, metrics.kl, metrics.teacherZeros], expected, { absolute: 1e-5, relative: 1e-4 })
  })

  describeStep(subject)
})

describe('gkdStep', () => {
  const subject: StepSubject<DistilledRows, GKDMetrics> = {
    step: (changes) =>
      gkdStep({
        config,
        teacher: { config: teacherConfig, params: teacher() },
        divergence: { teacherShare: 0.3 },
        ...changes,
      }),
    params,
    rows: rowsOf,
    broken: (rows) => ({ ...rows, temperature: 1e-45 }),
  }

  it('has the mean divergence of the distributions of both models', () => {
    const { prompts, completions } = rowsOf(7)
    const expected = scope(() => {
      const logits = ([params(), teacher()] as const).map((weights, i) => {
        const of = [config, teacherConfig][i]!
        return completionLogits(weights, of, completionBatch(packCompletions({ prompts, group: 1 }, completions), of))
      })
      const each = Array.from(vocabularyDivergence(logits[0]!, logits[1]!, { teacherShare: 0.3 }).dataSync())
      const width = each.length / completions.length
      const counted = completions.flatMap((row, i) => each.slice(i * width, i * width + row.length))
      return counted.reduce((a, b) => a + b, 0) / counted.length
    })
    const { metrics } = gradientOf(subject, { prompts, completions })
    expectClose([metrics.loss, metrics.divergence], [expected, expected], { relative: 1e-5 })
  })

  it('makes the student say what the teacher says', () => {
    const step = gkdStep({
      config,
      teacher: { config: teacherConfig, params: teacher() },
      optimizer: adamW({ weightDecay: 0 }),
    })
    const { prompts, completions } = rowsOf(3)
    let state = own(scope(() => step.init(params())))
    const seen: number[] = []
    for (let i = 0; i < 80; i++) {
      const { state: next, metrics } = step.update(state.value, { prompts, completions }, 0.03)
      state.release()
      state = next
      seen.push(metrics.divergence)
    }
    for (const used of [state, step]) used.release()
    expect(seen[0]).toBeGreaterThan(0.3)
    expect(seen.at(-1)).toBeLessThan(seen[0]! / 10)
  })

  it('refuses a teacher of another vocabulary and a divergence that is none', () => {
    const other = tinyConfig({ ...SMALL_DECODER, vocabularySize: config.vocabularySize + 1 })
    const made = (changes: object) => () =>
      gkdStep({ config, optimizer: adamW(), teacher: { config: teacherConfig, params: teacher() }, ...changes })
    expect(made({ teacher: { config: other, params: {} } })).toThrow('gkdStep: the teacher has')
    expect(made({ divergence: { teacherShare: 1 } })).toThrow('teacherShare')
    expect(made({ aggregation: { mode: 'seq-mean-token-sum-norm', length: 0 } })).toThrow('length')
  })

  describeStep(subject)
})
