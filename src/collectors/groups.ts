/** Converts collected rows to training rows, with advantages by group. */

import { isLeft } from 'fp-ts/lib/Either.js'
import type { TokenMasks } from '../data/batch.js'
import type { TokenAction, TokenPrompt } from '../data/policy.js'
import type { Data, Ragged } from '../data/tensorDict/leaf.js'
import { raggedLength, raggedRow } from '../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Outcome } from '../envs/env.js'
import type { DropReason, GroupGatherer } from '../objectives/advantages/groupGatherer.js'
import type { Algorithm } from '../objectives/algorithms.js'
import { type CollectedBatch, type TurnEntries, trajectoryReturns } from './rollouts/turnRows.js'
import type { TrainingRows } from './stepRows.js'

/** Computes the advantages of tokens from a whole batch. */
type AdvantageRule = Algorithm['advantage']

/** The entries of a collected batch that training needs. */
type Learnable = TokenPrompt &
  TokenAction &
  TurnEntries &
  TokenMasks & { readonly groupId: Data<string>; readonly next: TensorDict<Outcome> }

/** The rows with advantages, and the dropped groups. */
export interface GroupedRows {
  /** Rows of the batch, group by group. */
  readonly rows: readonly number[]
  /** The advantage of each of `rows`. */
  readonly advantages: readonly number[]
  /** The group of each of `rows`. */
  readonly groupIds: readonly string[]
  readonly groups: number
  readonly dropped: readonly { readonly groupId: string; readonly reason: DropReason }[]
}

/** A trajectory of a complete group. */
interface KeptTrajectory {
  readonly groupId: string
  readonly return: number
  /** The advantage within the group. */
  readonly advantage: number
  readonly rows: readonly number[]
}

/**
 * Computes one advantage per trajectory, by a rule over the whole batch. The return is placed at
 * the last trained token.
 */
const advantagesBy = (
  rule: AdvantageRule,
  kept: readonly KeptTrajectory[],
  learned: (row: number) => number,
): readonly number[] => {
  const lengths = kept.map(({ rows }) =>
    Math.max(
      1,
      rows.map(learned).reduce((sum, n) => sum + n, 0),
    ),
  )
  const mask = lengths.map((length) => Array<number>(length).fill(1))
  const rewards = kept.map((member, i) => mask[i]!.map((_, t) => (t === lengths[i]! - 1 ? member.return : 0)))
  const estimated = rule({ groups: kept.map(({ groupId }) => groupId), rewards, mask })
  if (isLeft(estimated)) throw new RangeError('groupRows: the returns are too large for advantages')
  return estimated.right.map((row) => row.at(-1)!) // at least one token each
}

/**
 * Computes the advantages of all complete groups of a batch, by the estimator, or by `rule` for the
 * trajectories that the estimator keeps. All turns of a trajectory get its advantage.
 *
 * Errors   throws Error if a group has fewer members in the batch than the estimator's group size;
 *          set the environment's `repeats` to it.
 */
export const groupRows = <O extends { readonly groupId: Data<string> }>(
  batch: CollectedBatch<O>,
  estimator: GroupGatherer,
  rule?: AdvantageRule,
): GroupedRows => {
  const td = batch as TensorDict as TensorDict<Learnable> // O has the group id, the collector adds the rest
  const ids = get(td, 'groupId').items
  const kept: KeptTrajectory[] = []
  const dropped: GroupedRows['dropped'][number][] = []
  let groups = 0
  let queue = estimator.initial<readonly number[]>()
  for (const trajectory of trajectoryReturns(td)) {
    const member = { groupId: ids.get(trajectory.rows[0]!)!, return: trajectory.return, value: trajectory.rows }
    const [outcome, rest] = estimator.push(queue, member)
    queue = rest
    if (outcome._tag === 'Ready') {
      groups++
      for (const [i, { value, ...each }] of outcome.members.entries())
        kept.push({ ...each, rows: value, advantage: outcome.advantages[i]! })
    } else if (outcome._tag === 'Dropped') dropped.push({ groupId: outcome.groupId, reason: outcome.reason })
  }
  if (queue.size > 0) {
    const [groupId, members] = queue.entries().next().value!
    throw new Error(
      `groupRows: group '${groupId}' has only ${members.size} members in the batch; set the environment's repeats to the group size`,
    )
  }
  const learned = (row: number): number =>
    raggedRow(get(td, 'masks', 'assistant'), row).reduce((sum, on) => sum + on, 0)
  const each = rule === undefined ? kept.map(({ advantage }) => advantage) : advantagesBy(rule, kept, learned)
  return {
    rows: kept.flatMap(({ rows }) => rows),
    advantages: kept.flatMap(({ rows }, i) => rows.map(() => each[i]!)),
    groupIds: kept.flatMap(({ rows, groupId }) => rows.map(() => groupId)),
    groups,
    dropped,
  }
}

const rowsAt = (leaf: Ragged, rows: readonly number[]): readonly ArrayLike<number>[] =>
  rows.map((i) => raggedRow(leaf, i))

/** Replaces masked log-probabilities by 0, because NaN would propagate. */
const known = (row: ArrayLike<number>, mask: readonly number[]): readonly number[] =>
  mask.map((on, t) => (on === 1 ? row[t]! : 0))

/** Converts rows to the input of a training step. Only tokens in `masks.assistant` are trained. */
export const trainingRows = <O extends { readonly groupId: Data<string> }>(
  batch: CollectedBatch<O>,
  { rows, advantages }: Pick<GroupedRows, 'rows' | 'advantages'>,
): TrainingRows => {
  const td = batch as TensorDict as TensorDict<Learnable> // O has the group id, the collector adds the rest
  const reference = find(td, ['next', 'refLogProbs', 'response'])
  const temperature = get(td, 'sampling').items.first()?.temperature ?? 1
  const masks = rowsAt(get(td, 'masks', 'assistant'), rows).map((row, i) =>
    Array.from(row).slice(raggedRow(get(td, 'tokens', 'prompt'), rows[i]!).length),
  )
  const isGappy = masks.some((row) => row.includes(0))
  const oldLogProbs = rowsAt(get(td, 'logProbs', 'response'), rows)
  return {
    prompts: rowsAt(get(td, 'tokens', 'prompt'), rows),
    completions: rowsAt(get(td, 'tokens', 'response'), rows),
    oldLogProbs: isGappy ? oldLogProbs.map((row, i) => known(row, masks[i]!)) : oldLogProbs,
    ...(isGappy && { masks }),
    advantages,
    temperature: temperature === 0 ? 1 : temperature,
    ...(reference !== undefined &&
      '_tag' in reference &&
      reference._tag === 'Ragged' &&
      raggedLength(reference) === td.batchShape[0] && { refLogProbs: rowsAt(reference, rows) }),
  }
}
