/**
 * Further values of the golden case of TorchRL's losses (float64, version 0.14.1,
 * test/golden/generate/torchrlLosses.py): losses of single tokens, CISPO as it is there, diluted
 * metrics and divergences both ways, returns of dense rewards.
 *
 * TorchRL divides metrics and divergences by all `B T` places, ours are means over the tokens that
 * count: theirs is ours times
 * `tokens / (B T)`, and our coefficient of a divergence is theirs times the same.
 */
import { orThrow } from '@tandem-rl/base'
import { gatherLogProbs } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { groupAdvantage } from '../../src/objectives/advantages/groupAdvantage.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { AdaptiveKLController } from '../../src/objectives/klControl.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { cispo } from '../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../src/objectives/tokenLosses/clippedSurrogate.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { type LossRows, lossNumbers } from '../kit/policyLoss.js'
import { lossOracle } from '../kit/policyLossOracle.js'

useEngine()

const LOGITS = [
  [0, 0, 0],
  [1, 0, -1],
  [0.5, 0.2, 0.1],
  [0, 2, 0],
  [0, 0, 0],
  [0, 0, 0],
  [2, 0, 0],
  [0, 0, 1],
]
const TOKENS = [0, 1, 2, 1, 0, 2, 0, 2]

const logSoftmax = (logits: readonly number[], token: number): number =>
  logits[token]! - Math.log(logits.reduce((sum, x) => sum + Math.exp(x), 0))

const flatLogProbs = LOGITS.map((logits, i) => logSoftmax(logits, TOKENS[i]!))

const ROWS: LossRows & { readonly reference: LossRows['mask'] } = {
  logProbs: [flatLogProbs.slice(0, 4), flatLogProbs.slice(4)],
  old: [
    [0, 0, -1, -0.5],
    [0, -1.3, -0.9, -0.4],
  ],
  reference: [
    [0, 0, -1.2, -0.3],
    [0, -1, -0.3, -0.6],
  ],
  mask: [
    [0, 0, 1, 1],
    [0, 1, 1, 1],
  ],
  advantages: [[1], [-0.5]],
}
const PLACES = 8

const FLOAT32 = { absolute: 2e-7, relative: 2e-6 }
const SIX = { absolute: 1e-6 }

describe('the golden case of TorchRL', () => {
  it('has its log-probabilities', () => {
    const expected = [-1.0986, -1.4076, -1.280099, -0.239545, -1.0986, -1.098612, -0.239545, -0.551445]
    expectClose(flatLogProbs, expected, { absolute: 5e-5 })
    scope(() => {
      const logProbs = gatherLogProbs(tf.tensor2d(LOGITS.flat(), [8, 3]), tf.tensor1d(TOKENS, 'int32'))
      expectClose(valuesOf(logProbs), flatLogProbs, FLOAT32)
      return []
    })
  })

  it('has its loss of each token: what TorchRL gives without aggregation', () => {
    const expected = [0, 0, -0.75570896, -1.2, 0, 0.61154944, 0.96783666, 0.4297327]
    const weight = (i: number) => [0, 1].map((b) => [0, 1, 2, 3].map((t) => (4 * b + t === i ? 1 : 0)))
    const objective = { name: 'clippedSurrogate', clip: [0.2, 0.2] } as const
    const oracle = expected.map((_, i) =>
      lossOracle({ objective, aggregation: 'token-sum' }, { ...ROWS, weights: weight(i) }, ROWS.logProbs),
    )
    expectClose(oracle, expected, { absolute: 1e-8 })
    const loss = policyLoss({ objective: clippedSurrogate(), aggregation: 'token-sum' })
    const engine = expected.map((_, i) => lossNumbers(loss, { ...ROWS, weights: weight(i) }).value)
    expectClose(engine, expected, FLOAT32)
  })

  it("of CISPO: TorchRL's value, which the paper's has not, is the sum of the gradients that the paper has", () => {
    const { value, gradient } = lossNumbers(policyLoss({ objective: cispo() }), ROWS)
    const theirs = -0.07405345844
    expectClose([gradient.flat().reduce((a, b) => a + b, 0)], [theirs], FLOAT32)
    expect(Math.abs(value - theirs)).toBeGreaterThan(0.01)
  })
})

describe("TorchRL's diluted numbers", () => {
  const measured = lossNumbers(GRPOLoss(), { ...ROWS, behavior: ROWS.old }).metrics
  const toInference = () => lossNumbers(GRPOLoss({ klToInferenceCoefficient: 0.01 }), ROWS).metrics

  it.each([
    ['clipFraction', 0.5, 0.8],
    ['klApprox', -0.08634431489, -0.138150904],
    ['klToRef', 0.00163294888, 0.00261271821],
    ['klToInference', 0.03530517071, 0.05648827],
  ] as const)(
    '%s: ours is theirs by the share of places that count, and theirs is ours times it',
    (name, theirs, ours) => {
      const metrics = { ...measured, ...toInference() }
      const share = metrics.tokens! / PLACES
      expectClose([metrics[name]!, metrics[name]! * share], [ours, theirs], FLOAT32)
      expectClose([theirs / share], [ours], { absolute: 1e-8 })
    },
  )

  it.each([
    { to: 'reference', option: 'klToRefCoefficient', coefficient: 0.1, loss: 0.000163294884 },
    { to: 'inference', option: 'klToInferenceCoefficient', coefficient: 0.01, loss: 0.00035305171 },
  ] as const)('the divergence to the $to: with their coefficient times the share our loss has their value', (given) => {
    const share = 5 / PLACES
    const plain = lossNumbers(GRPOLoss(), ROWS).value
    const converted = lossNumbers(GRPOLoss({ [given.option]: given.coefficient * share }), ROWS)
    expectClose([converted.value - plain], [given.loss], { absolute: 1e-7 })
    const own = converted.metrics[given.to === 'reference' ? 'lossKlToRef' : 'lossKlToInference']!
    expectClose([own], [given.loss], { absolute: 1e-10, relative: 2e-6 })
  })

  it('padding changes theirs by the share that the conversion says, and leaves ours alone', () => {
    const pad = (rows: LossRows['mask']) => rows.map((row) => [...Array<number>(6).fill(0), ...row])
    const { advantages } = ROWS
    const wide = {
      logProbs: pad(ROWS.logProbs),
      old: pad(ROWS.old),
      reference: pad(ROWS.reference),
      mask: pad(ROWS.mask),
      advantages,
    }
    const { metrics } = lossNumbers(GRPOLoss(), wide)
    for (const name of ['clipFraction', 'klApprox', 'klToRef'] as const)
      expectClose([metrics[name]!], [measured[name]!], FLOAT32)
    expectClose([(metrics.clipFraction! * 5) / 20], [4 / 20], FLOAT32)
  })
})

describe('MCAdvantage of TorchRL over dense rewards', () => {
  it('takes mean and deviation over all tokens: that is groupAdvantage of all rewards one by one', () => {
    const lengths = [1, 2, 3, 4]
    const rewards = [1, 0, 0, 2].flatMap((reward, i) => Array<number>(lengths[i]!).fill(reward))
    const advantages = orThrow(groupAdvantage(rewards))
    const starts = [0, 1, 3, 6]
    expectClose(
      starts.map((at) => advantages[at]!),
      [0.10056, -0.90504, -0.90504, 1.10616],
      { absolute: 5e-6 },
    )
  })
})

describe('the adaptive controller of TorchRL', () => {
  it('is told penalties, minus the coefficient times the divergence, one for each completion', () => {
    const controller = AdaptiveKLController({ initial: 0.1, target: 6, horizon: 10_000 })
    const penalties = Array<number>(256).fill(-0.1 * 9)
    const observed = -(penalties.reduce((a, b) => a + b, 0) / penalties.length) / controller.coefficient
    expectClose([controller.update(observed, penalties.length).coefficient], [0.100512], SIX)
  })
})
