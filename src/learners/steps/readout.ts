/** Readouts of a decoder's states for losses. */
import { tokenScores } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { logitsOf } from '../../modules/transformer/forward.js'
import { type HeadScores, headScores } from '../../modules/transformer/headScores.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import { stateValues } from '../../modules/valueHead.js'
import type { AnyLoss, ModelOutputs } from '../../objectives/loss.js'
import type { RowTensors } from './tokenRows.js'

type Tokens = Pick<RowTensors, 'batch' | 'inverseTemperature' | 'mask'>

/**
 * Computes logits divided by the temperature, `[B * T, V]`. Their log-softmax is the sampler's
 * distribution.
 */
const rowLogits = (
  config: DecoderConfig,
  { states, weights }: Readout,
  { inverseTemperature }: Pick<Tokens, 'inverseTemperature'>,
): tf.Tensor => tf.mul(logitsOf(weights, config, states), inverseTemperature)

/** Returns the tokens of the completions, `[B * T]`. */
const rowIds = ({ batch }: Pick<Tokens, 'batch'>): tf.Tensor => tf.reshape(batch.completionIds, [-1])

/** The needs of a loss that reads only log-probabilities. */
export const NO_NEEDS = { entropy: 'none', noise: 'none', head: 'none' } as const

/**
 * Returns the outputs of a model for a micro-batch. Each is computed when it is read, and once.
 *
 * Errors   throws RangeError, when it is read, for an output that the loss did not declare.
 */
export const modelOutputs = (
  config: DecoderConfig,
  { name, needs }: Pick<AnyLoss, 'name' | 'needs'>,
  { readout, rows }: { readonly readout: Readout; readonly rows: Tokens },
): ModelOutputs => {
  const made = new Map<string, unknown>()
  const once = <X>(name: string, compute: () => X): X => {
    if (!made.has(name)) made.set(name, compute())
    return made.get(name) as X // made under this name
  }
  const shaped = (x: tf.Tensor): tf.Tensor => tf.reshape(x, rows.mask.shape)
  const logits = (): tf.Tensor => once('logits', () => rowLogits(config, readout, rows))
  const { entropy } = needs
  const scores = (): Omit<HeadScores, 'greedy'> =>
    entropy === 'differentiable'
      ? once('scores', () => tokenScores(logits(), rowIds(rows), { entropy }))
      : headOutputs(entropy)
  const headOutputs = (entropy: 'none' | 'metric'): HeadScores =>
    once('head', () => {
      const { states, weights } = readout
      const scored = { states, ids: rowIds(rows), inverseTemperature: rows.inverseTemperature, entropy, logits }
      return headScores(weights, config, scored)
    })
  return {
    get logits() {
      return logits()
    },
    get logProbs() {
      return once('logProbs', () => shaped(scores().logProbs))
    },
    get entropy() {
      if (entropy === 'none')
        throw new RangeError(`${name}: it reads \`entropy\`: set needs.entropy to 'metric' or 'differentiable'`)
      return once('entropy', () => shaped(scores().entropy!)) // because the loss needs it
    },
    get greedy() {
      return once('greedy', () =>
        shaped(
          entropy === 'differentiable'
            ? tf.cast(tf.equal(tf.argMax(logits(), -1), rowIds(rows)), 'float32')
            : headOutputs(entropy).greedy,
        ),
      )
    },
    get values() {
      return once('values', () => shaped(stateValues(readout.weights, readout.states)))
    },
  }
}
