/** Conversion of estimators on arrays to functions of batches. */
import { checkOptions, type Json, meanOf, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { AdvantageEntry } from '../../data/batch.js'
import { set } from '../../data/tensorDict/edit.js'
import { take } from '../../data/tensorDict/selecting.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { BATCH_ADVANTAGE_OPTIONS } from '../optionKinds.js'
import {
  ADVANTAGE_SPEC,
  type Advantage,
  type DroppedGroup,
  type EstimatedEntries,
  RETURNS_SPEC,
  type RewardedTurns,
} from './advantage.js'
import type { DegenerateGroup } from './groupAdvantage.js'
import { MCAdvantageSelector } from './mcAdvantageSelector.js'
import type { RewardedRows, TokenAdvantages, TokenRows } from './rows.js'
import type { Estimated } from './temporal.js'
import {
  atLastTokens,
  type BatchTrajectory,
  cutIntoTurns,
  joinedRow,
  requireRead,
  rowNames,
  type TurnReader,
  trajectoriesOf,
  turnReader,
} from './trajectoryRows.js'

/** Further entries of a batch, one row for each trajectory. */
export interface TrajectoryEntries {
  /** Ragged rows over `tokens.response`, such as `values`. */
  readonly tokens: (entry: string) => TokenRows
  /** A tensor `[B]` of rewards, each at the last trained token of its turn. */
  readonly rewards: (entry: string) => TokenRows
  /** A tensor `[B]` whose value in the last turn is used. */
  readonly last: (entry: string) => readonly number[]
}

/** One row for each trajectory, with access to further entries of the batch. */
export interface TrajectoryRows extends RewardedRows {
  readonly entries: TrajectoryEntries
}

/** An estimator on arrays. Rows are trajectories; untrained tokens are masked. */
export type Estimator<R extends TokenAdvantages | Estimated> = (rows: TrajectoryRows) => E.Either<DegenerateGroup, R>

/** The rule for selecting groups. */
export interface GroupRule {
  /** Required number of trajectories per group. Default: not checked. */
  readonly groupSize?: number
  /**
   * Keeps a group only if its mean return is strictly between these bounds, as in DAPO. Default:
   * all.
   */
  readonly keepReturnBounds?: readonly [low: number, high: number]
  /**
   * The return of a trajectory: the sum of the rewards of its turns, the highest or their mean. Of
   * `next.tokenRewards`, those of its tokens. Default `sum`.
   */
  readonly trajectoryReturn?: 'sum' | 'max' | 'mean'
  /**
   * The number of trajectories in a group, of which `groupSize` are selected. The rows of the
   * others are removed. Default: all are used.
   */
  readonly candidateGroupSize?: number
  /**
   * The number of trajectories, by their order, from which a selection is tried before further ones
   * are added. Default: `groupSize`.
   */
  readonly candidateSelectionMinSize?: number
  /** Default: `MCAdvantageSelector()`. */
  readonly candidateSelector?: MCAdvantageSelector
}

/** The options of `batchAdvantage`. */
export interface BatchAdvantageOptions extends GroupRule {
  /** Default: the name of the function. */
  readonly name?: string
  /** Settings of the estimator, for the description. Default: none. */
  readonly settings?: { readonly [setting: string]: Json | undefined }
  /** Further entries that the estimator reads. Default: none. */
  readonly reads?: readonly string[]
  /** Default `group`. */
  readonly over?: 'group' | 'batch'
}

/**
 * Throws RangeError for a group size that is not a positive integer, and for bounds that are not in
 * order.
 */
const checkGroupRule = (name: string, rule: GroupRule): void => {
  const { groupSize, keepReturnBounds: bounds, candidateGroupSize: candidates, candidateSelectionMinSize: least } = rule
  const most = candidates ?? Number.POSITIVE_INFINITY
  refuse(name, [
    candidates !== undefined &&
      !(Number.isInteger(candidates) && groupSize !== undefined && candidates >= groupSize) &&
      `candidateGroupSize must be a whole number of at least groupSize, got ${candidates} and ${groupSize}`,
    least !== undefined &&
      !(candidates !== undefined && Number.isInteger(least) && least >= (groupSize ?? 1) && least <= most) &&
      `candidateSelectionMinSize must be from groupSize to candidateGroupSize, got ${least}`,
    groupSize !== undefined &&
      !(Number.isInteger(groupSize) && groupSize >= 1) &&
      `groupSize must be at least 1, got ${groupSize}`,
    bounds !== undefined && !(bounds[0] < bounds[1]) && `keepReturnBounds must be in order, got ${bounds.join(', ')}`,
  ])
}

const READS = ['trajectoryId', 'turn', 'groupId'] as const

/** A trajectory with the rewards of its tokens. */
interface Rewarded extends BatchTrajectory {
  readonly rewards: readonly number[]
  readonly mask: readonly number[]
}

/**
 * Appends a place after the last token for trajectories without trained tokens, whose reward of
 * turns still counts in the group. Rewards of masked tokens do not count.
 */
const withPlace = (row: readonly number[], mask: readonly number[], value: number): readonly number[] =>
  mask.includes(1) ? row : [...row, value]

/** Puts one return of a trajectory, of its rewards that count, at its last trained token. */
const asReturn = (
  row: readonly number[],
  mask: readonly number[],
  rewards: readonly number[],
  kind: 'max' | 'mean',
) => {
  const last = mask.lastIndexOf(1)
  const value = kind === 'max' ? rewards.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY) : meanOf(rewards)
  return row.map((_, t) => (t === last ? value : 0))
}

const rewardedOf = (
  reader: TurnReader,
  trajectories: readonly BatchTrajectory[],
  { trajectoryReturn: kind = 'sum' }: GroupRule,
): readonly Rewarded[] => {
  const isDense = reader.has('next.tokenRewards')
  const dense = isDense ? reader.tokens('next.tokenRewards') : []
  const each = isDense ? [] : reader.numbers('next.reward')
  return trajectories.map((trajectory) => {
    const { rows } = trajectory
    const mask = joinedRow(reader.mask, rows)
    const rewards = isDense ? joinedRow(dense, rows) : atLastTokens(each, reader.mask, rows)
    const turns = rows.map((row) => each[row]!)
    const total = turns.reduce((sum, reward) => sum + reward, 0)
    const given = isDense
      ? { rewards, mask }
      : { rewards: withPlace(rewards, mask, total), mask: withPlace(mask, mask, 1) }
    if (kind === 'sum') return { ...trajectory, ...given }
    const counted = isDense ? rewards.filter((_, t) => mask[t] !== 0) : turns
    return { ...trajectory, ...given, rewards: asReturn(given.rewards, given.mask, counted, kind) }
  })
}

const returnOf = ({ rewards, mask }: Rewarded): number =>
  rewards.reduce((sum, reward, t) => (mask[t] === 0 ? sum : sum + reward), 0)

/** Throws RangeError, naming the first group of another size. */
const checkSizes = (name: string, groups: ReadonlyMap<string, readonly Rewarded[]>, size: number | undefined): void => {
  if (size === undefined) return
  const wrong = [...groups].find(([, members]) => members.length !== size)
  if (wrong !== undefined)
    throw new RangeError(
      `${name}: group '${wrong[0]}' has ${wrong[1].length} trajectories in the batch, not ${size}: the environment's repeats must be the group size, and a sample must have whole groups`,
    )
}

/** Returns the trajectories of a group that are kept, or the reason why none is. */
const keptOf = (members: readonly Rewarded[], rule: GroupRule): readonly Rewarded[] | DroppedGroup['reason'] => {
  const { groupSize = members.length, keepReturnBounds: bounds, candidateGroupSize: most } = rule
  const returns = members.map(returnOf)
  if (!returns.every(Number.isFinite)) return 'not-finite'
  if (most !== undefined) {
    const { candidateSelector = MCAdvantageSelector(), candidateSelectionMinSize: least = groupSize } = rule
    for (let count = least; count <= most; count++) {
      const chosen = candidateSelector.select(returns.slice(0, count), {
        groupSize,
        ...(bounds && { keepReturnBounds: bounds }),
      })
      if (chosen !== undefined) return chosen.map((i) => members[i]!)
    }
    return 'out-of-bounds'
  }
  const mean = meanOf(members.filter(({ mask }) => mask.includes(1)).map(returnOf))
  return bounds === undefined || (bounds[0] < mean && mean < bounds[1]) ? members : 'out-of-bounds'
}

interface Selected {
  readonly kept: readonly Rewarded[]
  readonly dropped: readonly DroppedGroup[]
}

/** Returns the trajectories of the selected groups, group by group. */
const selected = (name: string, reader: TurnReader, batch: TensorDict, rule: GroupRule): Selected => {
  const groups = new Map<string, Rewarded[]>()
  for (const each of rewardedOf(reader, trajectoriesOf(name, batch), rule))
    groups.set(each.groupId, [...(groups.get(each.groupId) ?? []), each])
  checkSizes(name, groups, rule.candidateGroupSize ?? rule.groupSize)
  const decided = [...groups].map(([groupId, members]) => ({ groupId, kept: keptOf(members, rule) }))
  return {
    kept: decided.flatMap(({ kept }) => (typeof kept === 'string' ? [] : kept)),
    dropped: decided.flatMap(({ groupId, kept }) => (typeof kept === 'string' ? [{ groupId, reason: kept }] : [])),
  }
}

const entriesOf = (reader: TurnReader, kept: readonly Rewarded[]): TrajectoryEntries => {
  const padded = (row: readonly number[], { mask }: Rewarded): readonly number[] =>
    row.length === mask.length ? row : [...row, 0]
  return {
    tokens: (entry) => {
      const all = reader.tokens(entry)
      return kept.map((each) => padded(joinedRow(all, each.rows), each))
    },
    rewards: (entry) => {
      const all = reader.numbers(entry)
      return kept.map((each) => padded(atLastTokens(all, reader.mask, each.rows), each))
    },
    last: (entry) => {
      const all = reader.numbers(entry)
      return kept.map(({ rows }) => all[rows.at(-1)!]!)
    },
  }
}

/**
 * Makes an advantage from an estimator on arrays.
 *
 * The turns of a trajectory are joined to one row. The reward of a turn is placed at its last
 * trained token, or `next.tokenRewards` are used. Without `tokens.response`, as in a batch of
 * conversations with a server, a turn has one place, for its advantage. Trajectories are ordered by
 * id, so the order of rows in the batch has no effect. The result is split into turns again.
 *
 * Errors   throws RangeError for invalid settings. The advantage throws RangeError that lists
 *          missing entries, and for a group without `groupSize` trajectories, a trajectory with a
 *          missing turn, and rewards that are too large.
 * Effects  if groups are dropped, the result has new tensors, which belong to the enclosing scope.
 *
 * @example
 * batchAdvantage(opoAdvantage, { groupSize: 8 }).name // 'opoAdvantage'
 */
export const batchAdvantage = <R extends TokenAdvantages | Estimated>(
  estimator: Estimator<R>,
  options: BatchAdvantageOptions = {},
): Advantage<RewardedTurns, R extends Estimated ? EstimatedEntries : AdvantageEntry> => {
  checkOptions('batchAdvantage', { estimator, ...options }, BATCH_ADVANTAGE_OPTIONS)
  const {
    name = estimator.name || 'batchAdvantage',
    settings = {},
    over = 'group',
    reads: further = [],
    ...rule
  } = options
  checkGroupRule(name, rule)
  const reads = [...READS, ...further]
  const groupSize = rule.candidateGroupSize ?? rule.groupSize

  const read = (batch: TensorDict) => {
    requireRead(name, batch, reads)
    const reader = turnReader(name, batch)
    if (!reader.has('next.tokenRewards')) requireRead(name, batch, ['next.reward'])
    return { reader, ...selected(name, reader, batch, rule) }
  }

  const advantage = (batch: TensorDict): TensorDict => {
    const { reader, kept } = read(batch)
    const rows = { groups: kept.map(({ groupId }) => groupId), rewards: kept.map(({ rewards }) => rewards) }
    const estimated = estimator({ ...rows, mask: kept.map(({ mask }) => mask), entries: entriesOf(reader, kept) })
    if (E.isLeft(estimated)) throw new RangeError(`${name}: the returns are too large for advantages`)
    const result: TokenAdvantages | Estimated = estimated.right
    const names = rowNames(batch)
    const isKept = new Set(kept.map(({ id }) => id))
    const places = names.ids.flatMap((id, row) => (isKept.has(id) ? [row] : []))
    const part = places.length === names.ids.length ? batch : take(batch, places)
    const own = {
      ids: places.map((row) => names.ids[row]!),
      turns: places.map((row) => names.turns[row]!),
    }
    const lengths = reader.mask.map(({ length }) => length)
    const leaf = (values: TokenRows) => cutIntoTurns(values, kept, { ...own, rowTurns: names.turns, lengths })
    if (!('returns' in result)) return set(part, 'advantage', leaf(result as TokenAdvantages)) // the other kind
    return set(set(part, 'advantage', leaf(result.advantages)), 'returns', leaf(result.returns))
  }

  const writes = further.includes('values') ? RETURNS_SPEC : ADVANTAGE_SPEC
  const description = {
    advantage: name,
    ...Object.fromEntries(
      Object.entries({ ...settings, ...rule, candidateSelector: rule.candidateSelector?.name }).filter(
        ([, value]) => value !== undefined,
      ),
    ),
  } as Json // settings are JSON
  return Object.defineProperties(advantage, {
    name: { value: name },
    ...Object.fromEntries(
      Object.entries({
        description,
        over,
        reads,
        writes,
        ...(groupSize !== undefined && { groupSize }),
        dropped: (batch: TensorDict) => read(batch).dropped,
      }).map(([property, value]) => [property, { value, enumerable: true }]),
    ),
  }) as unknown as Advantage<RewardedTurns, R extends Estimated ? EstimatedEntries : AdvantageEntry> // as defined above
}
