/** Readouts of a decoder's states for losses, and sums of measures over micro-batches. */
import * as tf from '@tensorflow/tfjs-core'
import { gatherLogProbs } from '../../engine/ops/logProbs.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { logitsOf } from '../../modules/transformer/forward.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import type { StepPart } from './stepGradients.js'
import type { RowTensors } from './tokenRows.js'

type Tokens = Pick<RowTensors<string>, 'batch' | 'inverseTemperature' | 'mask'>

/**
 * Computes logits divided by the temperature, `[B * T, V]`. Their log-softmax is the sampler's
 * distribution.
 */
export const rowLogits = (
  config: DecoderConfig,
  { states, weights }: Readout,
  { inverseTemperature }: Pick<Tokens, 'inverseTemperature'>,
): tf.Tensor => tf.mul(logitsOf(weights, config, states), inverseTemperature)

/** Returns the tokens of the completions, `[B * T]`. */
export const rowIds = ({ batch }: Pick<Tokens, 'batch'>): tf.Tensor => tf.reshape(batch.completionIds, [-1])

/** Computes the log-probability of each token from its logits, `[B, T]`, in nats. */
export const rowLogProbs = (logits: tf.Tensor, rows: Pick<Tokens, 'batch' | 'mask'>): tf.Tensor =>
  tf.reshape(gatherLogProbs(logits, rowIds(rows)), rows.mask.shape)

/** Sums scalars over the micro-batches. Optional ones must be in all parts or in no part. */
export const summed = <X extends { readonly [N in keyof X]?: tf.Tensor }>(
  parts: readonly StepPart<X>[],
): { readonly [N in keyof X]: number } & { readonly loss: number } => {
  const total = (tensors: readonly tf.Tensor[]): number => tensors.reduce((sum, x) => sum + x.dataSync()[0]!, 0)
  const records = parts.map(({ aux }) => new Map(Object.entries<tf.Tensor | undefined>(aux)))
  const sums = [...records[0]!.keys()].map((name) => [name, total(records.map((record) => record.get(name)!))] as const)
  return {
    ...(Object.fromEntries(sums) as { readonly [N in keyof X]: number }), // the same names
    loss: total(parts.map(({ loss }) => loss)),
  }
}
