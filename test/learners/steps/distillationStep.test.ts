/**
 * Distillation: the loss of a step is that of `DistillationLoss` on the log-probabilities of both
 * models.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, it } from 'vitest'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { DistillationLoss, type DistillationMetrics } from '../../../src/objectives/distillationLoss.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { describeStep, gradientOf, SMALL_DECODER, type StepSubject, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { distillationStep, type TaughtRows } from '../../kit/stepsOf.js'
import { paddedTensor, rowsOf as randomRows } from '../../kit/trainingRows.js'

useEngine({ threads: 1 })

const config = tinyConfig(SMALL_DECODER)

const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))

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
    const { prompts, completions } = rows
    const logProbs = scorer.score(params(), { prompts, completions, temperature: 0.8, shared: 1 })
    scorer.release()
    const expected = scope(() => {
      const { lossDistillation, kl, teacherZeros } = loss.apply(
        { logProbs: paddedTensor(logProbs) },
        { teacherLogProbs: paddedTensor(rows.teacherLogProbs), mask: paddedTensor(rows.masks) },
      )
      return [lossDistillation, kl, teacherZeros].map((x) => x.dataSync()[0]!)
    })
    const { metrics } = gradientOf(subject, rows)
    expectClose([metrics.loss, metrics.kl, metrics.teacherZeros], expected, { absolute: 1e-5, relative: 1e-4 })
  })

  describeStep(subject)
})
