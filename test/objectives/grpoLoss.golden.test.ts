/**
 * The golden case of GRPO: numbers that GRPOLoss of TorchRL 0.14.1 gives in float64
 * (test/golden/generate/torchrlLosses.py). TorchRL divides metrics by all 8 places, 5 of which
 * count: ours are 8/5 of its numbers. Losses with `token_mean` and `prompt_mean` are not diluted
 * there either.
 */
import { entropy as entropyOf, gatherLogProbs } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { essOf } from '../../src/objectives/ess.js'
import { GRPOLoss, type GRPOLossOptions } from '../../src/objectives/grpoLoss.js'
import { scalarsOf } from '../../src/objectives/loss.js'
import type { PolicyLossInput } from '../../src/objectives/policyLoss.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'
import { grpoOracle } from '../kit/grpoOracle.js'

useEngine()

const LOGITS = [0, 0, 0, 1, 0, -1, 0.5, 0.2, 0.1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1]
const TOKENS = [0, 1, 2, 1, 0, 2, 0, 2]
const MASK = [0, 0, 1, 1, 0, 1, 1, 1]
const OLD = [0, 0, -1, -0.5, 0, -1.3, -0.9, -0.4]
const REFERENCE = [0, 0, -1.2, -0.3, 0, -1, -0.3, -0.6]
const ADVANTAGES = [1, -0.5]
const DILUTION = 8 / 5

/** The undiluted outputs as numbers. */
const apply = (options: GRPOLossOptions): Readonly<Record<string, number>> => {
  let result: Record<string, number> = {}
  scope(() => {
    const logits = tf.tensor2d(LOGITS, [8, 3])
    const model = {
      logProbs: tf.reshape(gatherLogProbs(logits, tf.tensor1d(TOKENS, 'int32')), [2, 4]),
      entropy: tf.reshape(entropyOf(logits), [2, 4]),
    }
    const input: PolicyLossInput = {
      oldLogProbs: tf.tensor2d(OLD, [2, 4]),
      refLogProbs: tf.tensor2d(REFERENCE, [2, 4]),
      advantages: tf.tensor2d(ADVANTAGES, [2, 1]),
      mask: tf.tensor2d(MASK, [2, 4]),
    }
    const output = GRPOLoss(options).apply(model, input)
    result = Object.fromEntries(
      Object.entries(scalarsOf(output)).map(([name, tensor]) => [name, tensor.dataSync()[0]!]),
    )
    result.ess = essOf({
      logSumWeights: result.logSumWeights!,
      logSumSquaredWeights: result.logSumSquaredWeights!,
      tokens: result.tokens!,
    })
    return []
  })
  return result
}

const FLOAT32 = { absolute: 1e-7, relative: 2e-6 }

interface Golden {
  readonly name: string
  readonly options: GRPOLossOptions
  readonly expected: Readonly<Record<string, number>>
}

const CASES: readonly Golden[] = [
  {
    name: 'epsilon 0.2, token mean',
    options: { clipEpsilon: 0.2, entropyCoefficient: 0.01 },
    expected: {
      lossObjective: 0.01068196616,
      clipFraction: 0.5 * DILUTION,
      klApprox: -0.08634431489 * DILUTION,
      ess: 0.89514553785,
      entropy: 0.5610703556 * DILUTION,
      lossEntropy: -0.00897712569,
    },
  },
  {
    name: 'epsilon 0.2, prompt mean',
    options: { clipEpsilon: 0.2, aggregation: 'prompt-mean' },
    expected: { lossObjective: -0.15407410915 },
  },
  {
    name: 'epsilon 0.2 and 0.28',
    options: { clipEpsilon: [0.2, 0.28] },
    expected: { lossObjective: -0.00531803075, clipFraction: 0.375 * DILUTION },
  },
  {
    name: 'divergence to the reference',
    options: { klToRefCoefficient: 0.1 },
    expected: { klToRef: 0.00163294888 * DILUTION, lossKlToRef: 0.000163294884 * DILUTION },
  },
  {
    name: 'divergence to the sampling policy',
    options: { klToInferenceCoefficient: 0.01 },
    expected: { klToInference: 0.03530517071 * DILUTION, lossKlToInference: 0.00035305171 * DILUTION },
  },
  {
    name: 'tokens far from the sampling policy left out',
    options: { clipEpsilon: 0.2, klMaskThreshold: 0.02 },
    expected: { lossObjective: 0.4297326987, ess: 1 },
  },
]

describe('GRPOLoss against TorchRL', () => {
  it.each(CASES)('$name', ({ options, expected }) => {
    const actual = apply(options)
    for (const [name, value] of Object.entries(expected)) {
      expectClose([actual[name]!], [value], FLOAT32)
    }
  })

  it.each(CASES)('$name: the float64 oracle agrees to 8 digits', ({ options, expected }) => {
    const actual = grpoOracle(
      {
        logits: LOGITS,
        tokens: TOKENS,
        mask: MASK,
        old: OLD,
        reference: REFERENCE,
        advantages: ADVANTAGES,
        vocabulary: 3,
      },
      options,
    )
    for (const [name, value] of Object.entries(expected)) {
      // TorchRL keeps the bounds of the clip range in float32 buffers, which shows in the ninth
      // digit.
      expect(Math.abs(actual[name]! - value), name).toBeLessThan(3e-9)
    }
  })
})
