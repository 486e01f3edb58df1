/**
 * Direct preference optimization: its loss is the pure one on the model's log-probabilities, and it
 * learns what is preferred.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { initialLora, loraScalings } from '../../../src/modules/lora/adapter.js'
import { loraConfig } from '../../../src/modules/lora/config.js'
import { makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { type DPOLoss, type DPOMetrics, dpoLoss } from '../../../src/objectives/dpoLoss.js'
import { interleaved } from '../../../src/objectives/lossRows.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { describeStep, gradientOf, SMALL_DECODER, type StepSubject, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { dpoStep, type PreferenceRows, withReference } from '../../kit/stepsOf.js'
import { paddedTensor, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

const config = tinyConfig(SMALL_DECODER)

const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))

/** Three pairs; the last token of a chosen completion does not count. */
const rowsOf = (seed: number): Required<PreferenceRows> => {
  const { prompts, completions, refLogProbs } = randomRows(config.vocabularySize, [2, 2, 2], seed)
  const side = <T>(list: readonly T[], which: 0 | 1): readonly T[] => list.filter((_, i) => i % 2 === which)
  const sides = <T>(list: readonly T[]) => ({ chosen: side(list, 0), rejected: side(list, 1) })
  const masks = completions.map((row, i) =>
    Array.from(row, (_, t) => (i % 2 === 0 && t > 0 && t === row.length - 1 ? 0 : 1)),
  )
  return { prompts: side(prompts, 0), ...sides(completions), refLogProbs: sides(refLogProbs!), masks: sides(masks) }
}

const subjectOf = (loss?: DPOLoss): StepSubject<PreferenceRows, DPOMetrics> => ({
  step: (changes) => dpoStep({ config, ...(loss && { loss }), ...changes }),
  params,
  rows: rowsOf,
  broken: (rows) => ({
    ...rows,
    refLogProbs: { ...rows.refLogProbs!, rejected: rows.rejected.map((row) => Array.from(row, () => Number.NaN)) },
  }),
})

describe('dpoStep', () => {
  const losses = {
    sigmoid: undefined,
    'smoothed, by tokens': dpoLoss({ beta: 0.7, labelSmoothing: 0.2, normalizeBySeqLength: 'yes' }),
    ipo: dpoLoss({ form: 'ipo', beta: 0.5 }),
    'without a reference': dpoLoss({ reference: 'none', beta: 0.3 }),
  }

  it.each(Object.entries(losses))(
    'has the loss and the rewards of the log-probabilities of its rows (%s)',
    (_, loss) => {
      const rows = rowsOf(7)
      const scorer = makeScorer(config)
      const scored = withReference(rows, { scorer, params: params() }).refLogProbs!
      scorer.release()
      const expected = scope(() => {
        const logProbs = paddedTensor(interleaved(scored))
        const refLogProbs = paddedTensor(interleaved(rows.refLogProbs))
        const output = (loss ?? dpoLoss()).apply(
          { logProbs },
          { refLogProbs, mask: paddedTensor(interleaved(rows.masks)) },
        )
        const mean = (xs: ArrayLike<number>): number => Array.from(xs).reduce((a, b) => a + b, 0) / xs.length
        const { lossDpo, chosenRewards, rejectedRewards, accuracy } = output
        return [lossDpo, chosenRewards, rejectedRewards, accuracy].map((x) => mean(x.dataSync()))
      })
      const { metrics } = gradientOf(subjectOf(loss), rows)
      const { chosenReward, rejectedReward, accuracy } = metrics
      expectClose([metrics.loss, chosenReward, rejectedReward, accuracy], expected, { absolute: 1e-5, relative: 1e-5 })
      expectClose([metrics.margin], [chosenReward - rejectedReward], { absolute: 1e-6 })
    },
  )

  it('begins at log 2 with no margin, and makes an adapter prefer what is chosen to what its base had', () => {
    const fresh = requireRight(initialLora(config, loraConfig({ rank: 2 }), keyFromSeed(3)))
    const rows: PreferenceRows = {
      prompts: [[3], [4, 5]],
      chosen: [[5, 6, 7], [8]],
      rejected: [
        [7, 6],
        [9, 9, 9],
      ],
    }
    const scorer = makeScorer(config)
    const referred = withReference(rows, { scorer, params: params() })
    scorer.release()
    const lora = own(scope(() => ({ config: fresh.config, tensors: makeParams(fresh.arrays) })))
    const step = scope(() =>
      dpoStep({
        config,
        optimizer: adamW({ weightDecay: 0 }),
        frozen: { ...params(), ...loraScalings(lora.value) },
        loss: dpoLoss({ beta: 0.5 }),
      }),
    )
    let state = own(scope(() => step.init(lora.value.tensors)))
    const seen: DPOMetrics[] = []
    for (let i = 0; i < 40; i++) {
      const { state: next, metrics } = step.update(state.value, referred, 0.05)
      state.release()
      state = next
      seen.push(metrics)
    }
    for (const used of [state, lora, step]) used.release()
    expectClose([seen[0]!.loss, seen[0]!.margin], [Math.log(2), 0], { absolute: 1e-5 })
    expect(seen.at(-1)!.loss).toBeLessThan(0.1)
    expect(seen.at(-1)!.accuracy).toBe(1)
  })

  it('refuses lists that do not fit, and pairs without the reference that they need', () => {
    const step = dpoStep({ config, optimizer: adamW() })
    using state = own(scope(() => step.init(params())))
    const update = (rows: PreferenceRows) => () => step.update(state.value, rows, 0.1)
    const pair = { prompts: [[1]], chosen: [[1, 2]], rejected: [[3]] }
    expect(update({ ...pair, masks: { chosen: [[1]], rejected: [[1]] } })).toThrow('row 0 has 2 tokens but 1 masks')
    expect(update(pair)).toThrow('refLogProbs')
    expect(update({ prompts: [], chosen: [], rejected: [] })).toThrow('there are no rows to train on')
    step.release()
  })

  describeStep(subjectOf(losses['smoothed, by tokens']))
})
