/**
 * Supervised fine-tuning: its loss is the pure one on the model's log-probabilities, and it learns.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import type { SFTRows } from '../../../src/learners/steps/sftRows.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { SFTLoss, type SFTMetrics } from '../../../src/objectives/sftLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { describeStep, gradientOf, SMALL_DECODER, type StepSubject, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { sftStep } from '../../kit/stepsOf.js'
import { paddedTensor, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

const config = tinyConfig(SMALL_DECODER)

const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))

/** Rows with holes in their masks; the last one has nothing to learn. */
const rowsOf = (seed: number): Required<SFTRows> => {
  const { prompts, completions, refLogProbs } = randomRows(config.vocabularySize, [2, 1, 1], seed)
  const masks = completions.map((row, i) => Array.from(row, (_, t) => (i < 3 && t % 3 !== 1 ? 1 : 0)))
  return { prompts, completions, masks, refLogProbs: refLogProbs! }
}

const subjectOf = (loss?: SFTLoss): StepSubject<SFTRows, SFTMetrics> => ({
  step: (changes) => sftStep({ config, ...(loss && { loss }), ...changes }),
  params,
  rows: rowsOf,
  broken: (rows) => ({ ...rows, refLogProbs: rows.completions.map((row) => Array.from(row, () => Number.NaN)) }),
})

describe('sftStep', () => {
  const losses = {
    'of all tokens': undefined,
    'of completions': SFTLoss({ klToRefCoefficient: 0.2 }),
    minor_sft: SFTLoss({ lossFunction: 'minor_sft', beta: 0.3, reduction: 'sum' }),
  }

  it.each(Object.entries(losses))('has the loss of the log-probabilities of its rows (%s)', (_, loss) => {
    const rows = rowsOf(7)
    const scorer = makeScorer(config)
    const logProbs = scorer.score(params(), {
      prompts: rows.prompts,
      shared: 1,
      completions: rows.completions,
      temperature: 1,
    })
    scorer.release()
    const expected = scope(() => {
      const { lossSft, lossKlToRef, klToRef } = (loss ?? SFTLoss({ reduction: 'token-mean' })).apply(
        { logProbs: paddedTensor(logProbs) },
        { refLogProbs: paddedTensor(rows.refLogProbs), mask: paddedTensor(rows.masks) },
      )
      return [lossKlToRef ? tf.add(lossSft, lossKlToRef) : lossSft, klToRef!].map((x) => x.dataSync()[0]!)
    })
    const { metrics } = gradientOf(subjectOf(loss), rows)
    expectClose([metrics.loss, metrics.klToRef!], expected, { absolute: 1e-6, relative: 1e-5 })
  })

  it.each([{ normalizeBySeqLength: 'yes' } as const, { lossFunction: 'minor_sft' } as const])(
    'its mean over all tokens is refused with %j, which divides otherwise',
    (options) => {
      expect(() => SFTLoss({ ...options, reduction: 'token-mean' })).toThrow('token-mean is a reduction of sft')
    },
  )

  it('measures means over the tokens that are learned, whatever stands under the mask', () => {
    const rows = rowsOf(2)
    const other = {
      ...rows,
      refLogProbs: rows.refLogProbs.map((row, i) =>
        Array.from(row, (x, t) => (rows.masks[i]![t] === 1 ? x : Number.NaN)),
      ),
    }
    const [{ metrics }, same] = [gradientOf(subjectOf(), rows), gradientOf(subjectOf(), other)]
    expect(same.metrics).toEqual(metrics)
    expect(metrics.tokens).toBe(rows.masks.flatMap((row) => Array.from(row)).filter((on) => on === 1).length)
    expectClose([metrics.nll], [metrics.loss], { relative: 1e-6 })
  })

  it('learns by heart what it is shown, and measures it', () => {
    const step = sftStep({ config, optimizer: adamW({ weightDecay: 0 }) })
    const rows: SFTRows = {
      prompts: [[3], [3], [4]],
      completions: [
        [5, 6, 7],
        [5, 6, 7],
        [8, 9],
      ],
    }
    let state = own(scope(() => step.init(params())))
    const seen: SFTMetrics[] = []
    for (let i = 0; i < 60; i++) {
      const { state: next, metrics } = step.update(state.value, rows, 0.03)
      state.release()
      state = next
      seen.push(metrics)
    }
    state.release()
    step.release()
    expect(seen[0]!.nll).toBeGreaterThan(1)
    expect(seen.at(-1)!.nll).toBeLessThan(0.1)
    expect(seen.at(-1)!).toMatchObject({ accuracy: 1, tokens: 8, klToRef: null })
  })

  it('refuses, all at once, rows that do not fit', () => {
    const step = sftStep({ config, optimizer: adamW() })
    using state = own(scope(() => step.init(params())))
    const update = (rows: SFTRows) => () => step.update(state.value, rows, 0.1)
    expect(update({ prompts: [], completions: [] })).toThrow('SFTLoss: there are no rows to train on')
    expect(
      update({ prompts: [[1]], completions: [[99], [2]], masks: [[0.5], [1]], refLogProbs: [[0], [0, 0]] }),
    ).toThrow(
      'SFTLoss: 2 completions but 1 prompts; row 1 has 1 tokens but 2 refLogProbs; ' +
        `token 99 is not in the vocabulary of ${config.vocabularySize}; row 0 has 0.5 in its mask, not 0 or 1`,
    )
    const other = sftStep({ config, optimizer: adamW(), loss: SFTLoss({ lossFunction: 'minor_sft' }) })
    expect(() => other.update(state.value, { prompts: [[1]], completions: [[2]] }, 0.1)).toThrow('refLogProbs')
    for (const used of [step, other]) used.release()
  })

  describeStep(subjectOf(losses['of completions']))
})
