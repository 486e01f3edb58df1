/** Sums and averages of gradients on a server. */
import type { Datum } from '../protocol/values.js'

/** The reduction of gradients over tokens and sequences. */
export interface GradientSums {
  /** A loss that is linear in its weights or advantages. */
  readonly lossFn: 'cross_entropy' | 'importance_sampling'
  /** `mean`: the loss of a sequence is divided by its number of tokens. */
  readonly tokens: 'sum' | 'mean'
  /** `mean`: gradients are divided by the number of sequences since the last optimizer step. */
  readonly data: 'sum' | 'mean'
}

/** The reduction of the protocol. */
export const SUMMED: GradientSums = { lossFn: 'cross_entropy', tokens: 'sum', data: 'sum' }

/** The factor of each sequence that makes the gradient of a step a sum again. */
export const undoFactors = ({ tokens, data: over }: GradientSums, data: readonly Datum[]): readonly number[] =>
  data.map((datum) => (tokens === 'mean' ? datum.tokens.length : 1) * (over === 'mean' ? data.length : 1))

/** The gradient norm that a server reports; undefined for none. */
export const gradientNorm = (metrics: Readonly<Record<string, number>>): number | undefined =>
  Object.entries(metrics).find(([name]) => name.includes('grad_norm'))?.[1]
