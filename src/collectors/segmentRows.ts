/** Gives the segments of folded conversations rewards of their own. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type Data, data } from '../data/tensorDict/leaf.js'
import { assign } from '../data/tensorDict/merge.js'
import { get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { endedRows, type Outcome } from '../envs/base/env.js'
import type { Advantage, RewardedTurns } from '../objectives/advantages/advantage.js'
import { type SegmentRule, segmentRewards } from '../objectives/advantages/segments.js'
import { rowsByTrajectory } from './rollouts/identity.js'

/** The entries that are read. */
type SegmentedRows = {
  readonly trajectoryId: Data<string>
  readonly turn: Data<number>
  readonly segment: Data<number>
  readonly next: TensorDict<Outcome>
}

/** The turns of one segment. */
interface SegmentTurns {
  readonly rows: readonly number[]
  readonly segment: number
  readonly reward: number
  /** The last row of the whole conversation. */
  readonly end: number
}

/** Divides a conversation into segments, and its return among them. */
const segmentsOf = (
  rows: readonly number[],
  { segments, rewards }: { readonly segments: readonly number[]; readonly rewards: ArrayLike<number> },
  rule: SegmentRule,
): readonly SegmentTurns[] => {
  const numbers = [...new Set(rows.map((row) => segments[row]!))]
  const total = rows.reduce((sum, row) => sum + rewards[row]!, 0)
  const shares = segmentRewards(total, numbers.length, rule)
  return numbers.map((segment, k) => ({
    rows: rows.filter((row) => segments[row] === segment),
    segment,
    reward: shares[k]!,
    end: rows.at(-1)!,
  }))
}

/** Rewards and ends of the rows: each segment earns its share in its last turn. */
const outcomesOf = (batch: TensorDict<SegmentedRows>, all: readonly SegmentTurns[], size: number): Outcome => {
  const next = get(batch, 'next')
  const rewards = new Array<number>(size).fill(0)
  const lasts = new Map(all.map(({ rows, reward, end }) => [rows.at(-1)!, { reward, end }] as const))
  for (const [row, { reward }] of lasts) rewards[row] = reward
  const flag = (key: 'terminated' | 'truncated' | 'done'): tf.Tensor => {
    const ended = endedRows(next as TensorDict, key)
    return tf.tensor1d(
      rewards.map((_, row) => {
        const last = lasts.get(row)
        return last !== undefined && (last.end === row ? ended[row] === true : key !== 'truncated') // a fold is an end of its own
      }),
      'bool',
    )
  }
  return {
    reward: tf.tensor1d(rewards, 'float32'),
    terminated: flag('terminated'),
    truncated: flag('truncated'),
    done: flag('done'),
  }
}

/**
 * Makes the segments of folded conversations trajectories of their own, each with its share of the
 * conversation's reward: `last`, `each` (broadcast), `uniform`, or `{ geometric }`. Groups stay
 * those of the prompt, so a group has one member for each segment of its conversations. Use it
 * before the advantage, with an estimator for groups of any size.
 *
 * Without this function, all turns of a conversation share its advantage, folded or not.
 *
 * Shapes   `[B]` to `[B]`; `trajectoryId`, `turn` and `next` are replaced.
 * Errors   throws RangeError for a rule that is not one.
 * Effects  makes tensors of the enclosing scope.
 * Source   AgentFly, which trains one row per segment.
 *
 * @example
 * typeof segmentRows // 'function'
 */
export const segmentRows = <S extends SegmentedRows>(batch: TensorDict<S>, rule: SegmentRule): TensorDict<S> => {
  const td = batch as TensorDict as TensorDict<SegmentedRows> // S has these entries
  const segments = get(td, 'segment').items.toArray()
  const rewards = get(td, 'next', 'reward').dataSync()
  const all = [...rowsByTrajectory(td).values()].flatMap((rows) => segmentsOf(rows, { segments, rewards }, rule))
  const ids = get(td, 'trajectoryId').items.toArray()
  const turns = new Map(all.flatMap(({ rows }) => rows.map((row, turn) => [row, turn] as const)))
  return scope(
    () =>
      assign(td as TensorDict, {
        trajectoryId: data(ids.map((id, row) => `${id}/${segments[row]}`)),
        turn: data(ids.map((_, row) => turns.get(row)!)), // every row is in a segment
        next: outcomesOf(td, all, ids.length),
      }) as unknown as TensorDict<S>, // the same entries
  )
}

/**
 * Makes an advantage over segments: `segmentRows` by the rule, then the given advantage, which must
 * accept groups of any size.
 *
 * Errors   throws RangeError for a rule that is not one.
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const segmentAdvantage = (rule: SegmentRule, advantage: Advantage): Advantage => {
  segmentRewards(0, 1, rule) // throws for a rule that is not one
  const split = (batch: TensorDict): TensorDict<RewardedTurns> =>
    segmentRows(batch as TensorDict<SegmentedRows>, rule) as TensorDict as TensorDict<RewardedTurns> // entries of an agent that folds
  const { over, writes } = advantage
  return Object.defineProperties((batch: TensorDict): TensorDict => advantage(split(batch)), {
    name: { value: `${advantage.name} of segments` },
    ...Object.fromEntries(
      Object.entries({
        description: { advantage: 'segments', rule, of: advantage.description },
        over,
        writes,
        reads: [...advantage.reads, 'segment'],
        dropped: (batch: TensorDict) => scope(() => advantage.dropped(split(batch))),
      }).map(([property, value]) => [property, { value, enumerable: true }]),
    ),
  }) as unknown as Advantage // as defined above
}
