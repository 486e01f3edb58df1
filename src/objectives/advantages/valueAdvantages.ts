/** Advantages of batches with a value function. */
import { checkOptions } from '@tandem-rl/base'
import type { Ragged } from '../../data/tensorDict/leaf.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { GAE_OPTIONS, V_TRACE_OPTIONS } from '../optionKinds.js'
import type { Advantage, EstimatedEntries, RewardedTurns } from './advantage.js'
import { batchAdvantage } from './batchAdvantage.js'
import { type GAEOptions, gae, type VTraceOptions, vTrace } from './temporal.js'

/**
 * The entries for advantages of a value function: `values` of each response token at sampling time.
 */
export type ValuedTurns = RewardedTurns & { readonly values: Ragged<'float32'> }

/** The entries for `VTrace`: log-probabilities of the sampler and of the trainer. */
export type OffPolicyTurns = ValuedTurns & {
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly oldLogProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
}

/**
 * Computes generalized advantage estimates of a batch: `gae` across all turns of each trajectory.
 * Writes `advantage` and `returns`.
 *
 * Equation that of `gae`
 * When     with a value function: `ppoLoss` learns from both entries.
 * Used by  TorchRL `GAE`
 * Errors   throws RangeError for gamma or lambda not in [0, 1]. The advantage throws RangeError as
 *          those of `batchAdvantage`.
 *
 * @example
 * GAE({ lambda: 0.95 }).reads.includes('values') // true
 */
export const GAE = (options: GAEOptions = {}): Advantage<ValuedTurns, EstimatedEntries> => {
  checkOptions('GAE', options, GAE_OPTIONS)
  gae({ groups: [], rewards: [], mask: [] }, [], options) // throws for invalid options
  return batchAdvantage((rows) => gae(rows, rows.entries.tokens('values'), options), {
    name: 'GAE',
    settings: { ...options },
    reads: ['values'],
    over: options.whitened === 'no' ? 'group' : 'batch',
  }) as Advantage<ValuedTurns, EstimatedEntries> // also reads the values
}

/**
 * Applies V-trace to a batch: `vTrace` with the trainer's log-probabilities in
 * `oldLogProbs.response`. Writes `advantage` and `returns`.
 *
 * Equation that of `vTrace`
 * When     with a value function and completions of an older policy.
 * Used by  TorchRL `VTrace`
 * Errors   throws RangeError for invalid options. The advantage throws RangeError as those of
 *          `batchAdvantage`.
 *
 * @example
 * VTrace().reads.includes('oldLogProbs.response') // true
 */
export const VTrace = (options: VTraceOptions = {}): Advantage<OffPolicyTurns, EstimatedEntries> => {
  checkOptions('VTrace', options, V_TRACE_OPTIONS)
  vTrace({ groups: [], rewards: [], mask: [] }, { values: [], logRatios: [] }, options) // throws for invalid options
  return batchAdvantage(
    (rows) => {
      const { tokens } = rows.entries
      const [own, sampled] = [tokens('oldLogProbs.response'), tokens('logProbs.response')]
      const logRatios = own.map((row, i) => Array.from(row, (x, t) => x - sampled[i]![t]!))
      return vTrace(rows, { values: tokens('values'), logRatios }, options)
    },
    { name: 'VTrace', settings: { ...options }, reads: ['values', 'logProbs.response', 'oldLogProbs.response'] },
  ) as Advantage<OffPolicyTurns, EstimatedEntries> // also reads these entries
}
