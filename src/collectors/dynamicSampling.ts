/** Dynamic sampling: groups without a signal are left out of a batch, and others are sampled. */
import { checkOptions } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { GroupEntry } from '../data/batch.js'
import type { TokenAction } from '../data/policy.js'
import { concat } from '../data/tensorDict/joining.js'
import { take } from '../data/tensorDict/selecting.js'
import { get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Outcome } from '../envs/base/env.js'
import type { Collected, CollectorFailure, LLMCollector } from './llmCollector.js'
import { DYNAMIC_SAMPLING_OPTIONS } from './optionKinds.js'
import type { CollectorPosition } from './rollouts/lockstep.js'
import { type CollectedBatch, responseLengths, type TurnEntries, trajectoryReturns } from './rollouts/turnRows.js'

/** The returns of a group. */
export interface SampledGroup {
  readonly groupId: string
  readonly returns: readonly number[]
}

/** The rule for selecting groups. */
export interface SamplingRule {
  /** Number of groups per batch. */
  readonly groups: number
  /** Maximum number of sampling rounds per batch. 1: no resampling. */
  readonly rounds: number
  /** Keeps a group only if its mean return is strictly between these bounds. */
  readonly keepReturnBounds?: readonly [low: number, high: number]
}

export type SamplingDecision =
  | { readonly _tag: 'SampleAgain'; readonly missing: number }
  | {
      readonly _tag: 'Take'
      /** Ids of the groups to train on, in the order of sampling. */
      readonly groups: readonly string[]
      /** Numbers of sampled groups without a signal, and of surplus groups with a signal. */
      readonly withoutSignal: number
      readonly unused: number
    }

const checkRule = ({ groups, rounds, keepReturnBounds: bounds }: SamplingRule): void => {
  const problems = [
    ...(Number.isInteger(groups) && groups >= 1 ? [] : [`groups must be at least 1, got ${groups}`]),
    ...(Number.isInteger(rounds) && rounds >= 1 ? [] : [`rounds must be at least 1, got ${rounds}`]),
    ...(bounds === undefined || bounds[0] < bounds[1]
      ? []
      : [`keepReturnBounds must be in order, got ${bounds.join(', ')}`]),
  ]
  if (problems.length > 0) throw new RangeError(`dynamicSampling: ${problems.join('; ')}`)
}

const hasSignal = ({ returns }: SampledGroup, bounds: SamplingRule['keepReturnBounds']): boolean => {
  if (!returns.every(Number.isFinite) || returns.every((r) => r === returns[0])) return false
  const mean = returns.reduce((sum, r) => sum + r, 0) / returns.length
  return bounds === undefined || (bounds[0] < mean && mean < bounds[1])
}

/**
 * Decides whether the sampled groups make a batch, or another round is needed.
 *
 * A group has a signal if its returns are finite and not all equal, and their mean is within the
 * bounds. The first groups with a signal are taken. If there are too few, another round is sampled.
 * After the last round the batch is filled with the first groups without a signal, so its size is
 * constant.
 *
 * Errors   throws RangeError for an invalid rule.
 * Effects  none; the decision depends only on the rounds.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.2 and equation 11; verl's
 *          `filter_groups`, which fails after the last round.
 *
 * @example
 * const rounds = [[{ groupId: 'a', returns: [0, 1] }, { groupId: 'b', returns: [1, 1] }]]
 * samplingDecision(rounds, { groups: 2, rounds: 3 }) // { _tag: 'SampleAgain', missing: 1 }
 */
export const samplingDecision = (
  rounds: readonly (readonly SampledGroup[])[],
  rule: SamplingRule,
): SamplingDecision => {
  checkRule(rule)
  const sampled = rounds.flat()
  const kept = sampled.filter((group) => hasSignal(group, rule.keepReturnBounds))
  const missing = rule.groups - kept.length
  if (missing > 0 && rounds.length < rule.rounds) return { _tag: 'SampleAgain', missing }
  const filling = sampled.filter((group) => !kept.includes(group)).slice(0, Math.max(0, missing))
  const taken = new Set([...kept.slice(0, rule.groups), ...filling])
  return {
    _tag: 'Take',
    groups: sampled.filter((group) => taken.has(group)).map(({ groupId }) => groupId),
    withoutSignal: sampled.length - kept.length,
    unused: Math.max(0, -missing),
  }
}

/** Counts of the sampling for a batch. */
export interface SamplingCounts {
  readonly rounds: number
  readonly groups: number
  readonly withoutSignal: number
  /** Number of surplus groups with a signal. */
  readonly unused: number
  /** Mean return of all sampled trajectories, including unused ones. */
  readonly reward: number
  /** Number of sampled tokens; 0 for policies without tokens. */
  readonly tokens: number
}

export interface DynamicSamplingOptions<O, P = TokenAction> extends SamplingRule {
  /**
   * Returns one score per row; a trajectory's score is their sum. A group has a signal if the
   * scores differ. Default: the reward.
   */
  readonly signal?: (batch: CollectedBatch<O, P>) => ArrayLike<number>
}

export interface SampledBatch<O, P = TokenAction> extends Collected<CollectedBatch<O, P>> {
  readonly sampling: SamplingCounts
}

/** A sampled batch with the returns of its groups. */
interface Round<O, P> {
  readonly batch: CollectedBatch<O, P>
  readonly groups: readonly SampledGroup[]
}

/** The entries of every batch with groups. */
type Grouped = TurnEntries & GroupEntry & { readonly next: TensorDict<Outcome> }

const plain = <O, P>(batch: CollectedBatch<O, P>): TensorDict<Grouped> => batch as unknown as TensorDict<Grouped> // by the definition of CollectedBatch

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)

const roundOf = <O, P>(batch: CollectedBatch<O, P>, signal: DynamicSamplingOptions<O, P>['signal']): Round<O, P> => {
  const ids = get(plain(batch), 'groupId').items
  const groups = new Map<string, number[]>()
  for (const trajectory of trajectoryReturns(plain(batch), signal?.(batch))) {
    const id = ids.get(trajectory.rows[0]!)!
    groups.set(id, [...(groups.get(id) ?? []), trajectory.return])
  }
  return { batch, groups: [...groups].map(([groupId, returns]) => ({ groupId, returns })) }
}

const countsOf = <O, P>(
  rounds: readonly Round<O, P>[],
  { withoutSignal, unused }: Pick<SamplingCounts, 'withoutSignal' | 'unused'>,
): SamplingCounts => ({
  rounds: rounds.length,
  groups: rounds.reduce((sum, { groups }) => sum + groups.length, 0),
  withoutSignal,
  unused,
  reward: mean(rounds.flatMap(({ batch }) => trajectoryReturns(plain(batch)).map((trajectory) => trajectory.return))),
  tokens: rounds.flatMap(({ batch }) => responseLengths(plain(batch))).reduce((sum, length) => sum + length, 0),
})

/** Joins the rows of the selected groups of all rounds, in the order of sampling. */
const joined = <O, P>(rounds: readonly Round<O, P>[], groups: readonly string[]): CollectedBatch<O, P> => {
  const taken = new Set(groups)
  const parts = rounds.map(({ batch }) => {
    const ids = get(plain(batch), 'groupId').items
    return take(
      plain(batch),
      [...ids.entries()].flatMap(([row, id]) => (taken.has(id) ? [row] : [])),
    )
  })
  return concat(parts) as unknown as CollectedBatch<O, P> // the same entries
}

/**
 * Collects batches whose groups have a signal, if enough are found: see `samplingDecision`.
 *
 * Each round collects a batch at the position after the previous round, so equal positions give
 * equal batches. A run resumes at the position after the last round. If the first round suffices,
 * its batch is returned unchanged.
 *
 * Errors   throws RangeError for an invalid rule. Failures of the collector are returned as `Left`,
 *          and earlier rounds are freed.
 * Cost     keeps the rows of all rounds until the batch is complete.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.2; verl's `filter_groups`, TorchRL's
 *          `keep_return_bounds`.
 */
export const dynamicSampling = <O extends GroupEntry, P>(
  collector: Pick<LLMCollector<CollectedBatch<O, P>>, 'collect'>,
  options: DynamicSamplingOptions<O, P>,
): ((position: CollectorPosition) => TaskEither<CollectorFailure, SampledBatch<O, P>>) => {
  checkOptions('dynamicSampling', options, DYNAMIC_SAMPLING_OPTIONS)
  const { signal, ...rule } = options

  checkRule(rule)
  return (start) => async () => {
    const held: Owned<CollectedBatch<O, P>>[] = []
    const rounds: Round<O, P>[] = []
    let position = start
    try {
      while (true) {
        const collected = await collector.collect(position)()
        if (isLeft(collected)) return collected
        held.push(collected.right.batch)
        position = collected.right.position
        rounds.push(roundOf(collected.right.batch.value, signal))
        const decision = samplingDecision(
          rounds.map(({ groups }) => groups),
          rule,
        )
        if (decision._tag === 'SampleAgain') continue
        const sampling = countsOf(rounds, decision)
        const isWhole = rounds.length === 1 && decision.groups.length === sampling.groups
        const batch = own(isWhole ? held[0]!.value : scope(() => joined(rounds, decision.groups)))
        return { _tag: 'Right', right: { batch, position, sampling } }
      }
    } finally {
      for (const owned of held) owned.release()
    }
  }
}
