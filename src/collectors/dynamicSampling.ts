/** Dynamic sampling: groups that teach nothing are left out of a batch and sampled again. */
import { isLeft } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { aFunction, aList, aNumber, checkOptions } from '../core/options.js'
import type { GroupEntry } from '../data/batch.js'
import type { TokenAction } from '../data/policy.js'
import { concat } from '../data/tensorDict/joining.js'
import { take } from '../data/tensorDict/selecting.js'
import { get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Owned, own, scope } from '../engine/scope.js'
import type { Outcome } from '../envs/env.js'
import type { Collected, CollectorFailure, LLMCollector } from './llmCollector.js'
import type { CollectorPosition } from './rollouts/lockstep.js'
import { type CollectedBatch, responseLengths, type TurnEntries, trajectoryReturns } from './rollouts/turnRows.js'

/** What the members of a group earned. */
export interface SampledGroup {
  readonly groupId: string
  readonly returns: readonly number[]
}

/** What is kept of what was sampled. */
export interface SamplingRule {
  /** Groups of a batch. */
  readonly groups: number
  /** How often is sampled for one batch at most. 1: never again. */
  readonly rounds: number
  /** Keep a group only if its mean return is strictly between these. */
  readonly keepReturnBounds?: readonly [low: number, high: number]
}

export type SamplingDecision =
  | { readonly _tag: 'SampleAgain'; readonly missing: number }
  | {
      readonly _tag: 'Take'
      /** Ids of the groups to learn from, in the order in which they were sampled. */
      readonly groups: readonly string[]
      /** Groups that were sampled without a signal, and groups with one that are too many. */
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
 * Whether what was sampled makes a batch.
 *
 * A group has a signal if its returns are finite and not all equal, and if their mean is within the bounds. The first groups with a signal
 * are taken. Where there are too few of them, it is sampled again; after the last round the batch is filled with the first groups
 * without one, so that it is never smaller.
 *
 * Errors   throws RangeError for a rule that makes no sense.
 * Effects  none: the decision depends on the rounds alone.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.2 and equation 11; verl's `filter_groups`, which fails after the last round.
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

/** What was sampled for a batch. */
export interface SamplingCounts {
  readonly rounds: number
  readonly groups: number
  readonly withoutSignal: number
  /** Groups with a signal that were more than a batch needs. */
  readonly unused: number
  /** Mean return of all trajectories that were sampled, those that are not learned from among them. */
  readonly reward: number
  /** Tokens that the policy sampled; 0 of one that tells none. */
  readonly tokens: number
}

export interface DynamicSamplingOptions<O, P = TokenAction> extends SamplingRule {
  /** What decides whether a group has a signal, one number for each row; a trajectory has their sum. Default: the reward. */
  readonly signal?: (batch: CollectedBatch<O, P>) => ArrayLike<number>
}

export interface SampledBatch<O, P = TokenAction> extends Collected<CollectedBatch<O, P>> {
  readonly sampling: SamplingCounts
}

/** A batch that was sampled, as far as the choice looks at it. */
interface Round<O, P> {
  readonly batch: CollectedBatch<O, P>
  readonly groups: readonly SampledGroup[]
}

/** What every batch with groups has. */
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

/** The rows of some groups of all rounds as one batch, in the order in which they were sampled. */
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
 * Collects batches in which every group has a signal, as far as it comes: see `samplingDecision`.
 *
 * Each round is a batch of the collector at the position after the round before, so that equal positions give equal batches and a run
 * resumes at the position after the last round. A batch that is complete at once is the collector's own.
 *
 * Errors   throws RangeError for a rule that makes no sense; the collector's failures are `Left`, and what was sampled before is freed.
 * Cost     rows of all rounds are kept until the batch is complete.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.2; verl's `filter_groups`, TorchRL's `keep_return_bounds`.
 */
export const dynamicSampling = <O extends GroupEntry, P>(
  collector: Pick<LLMCollector<CollectedBatch<O, P>>, 'collect'>,
  options: DynamicSamplingOptions<O, P>,
): ((position: CollectorPosition) => TaskEither<CollectorFailure, SampledBatch<O, P>>) => {
  checkOptions('dynamicSampling', options, {
    signal: aFunction,
    groups: aNumber,
    rounds: aNumber,
    keepReturnBounds: aList,
  })
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
