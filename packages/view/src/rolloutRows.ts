/** Rollouts of a run as rows: filtered, sorted and counted. */
import { ownValue } from '@tandem-rl/base'
import { snippetsOf } from './conversation.js'
import type {
  RolloutFilter,
  RolloutHistogram,
  RolloutRow,
  RolloutsAnswer,
  RolloutsQuery,
  SortField,
} from './protocol.js'
import type { RolloutLog } from './rolloutLog.js'
import type { Rollout, RowNumbers } from './rowNumbers.js'

/** Returns the labels of a rollout. */
export type LabelsOf = (id: string) => readonly string[]

/** Adds texts and labels to rows. */
export const rowsWithTexts = async (
  log: RolloutLog,
  rollouts: readonly Rollout[],
  labelsOf: LabelsOf,
): Promise<readonly RolloutRow[]> => {
  const turns = await log.turns(rollouts)
  return rollouts.map(({ row }, i) => ({ ...row, ...snippetsOf(turns[i]!), labels: labelsOf(row.id) }))
}

const within = (value: number | null, least: number | undefined, most: number | undefined): boolean =>
  (least === undefined || (value ?? 0) >= least) && (most === undefined || (value ?? 0) <= most)

/** Checks a limit such as `success:0.5`. `sign` is 1 for the least and -1 for the largest value. */
const partWithin = (row: RowNumbers, limit: string | undefined, sign: 1 | -1): boolean => {
  if (limit === undefined) return true
  const at = limit.lastIndexOf(':')
  const value = ownValue(row.parts, limit.slice(0, at))
  return value !== undefined && sign * (value - Number(limit.slice(at + 1))) >= 0
}

/** A filter with what it needs besides the rows. */
interface Filter extends RolloutFilter {
  readonly labelsOf: LabelsOf
  /** Rollouts with the text of `q`. */
  readonly found?: ReadonlySet<string>
}

const passes = ({ row }: Rollout, filter: Filter): boolean => {
  const { truncated, failed, toolErrors, group, label, q, found, labelsOf } = filter
  return (
    within(row.step, filter.step ?? filter.minStep, filter.step ?? filter.maxStep) &&
    within(row.reward, filter.minReward, filter.maxReward) &&
    within(row.length, filter.minLength, filter.maxLength) &&
    within(row.advantage, filter.minAdvantage, filter.maxAdvantage) &&
    within(row.turns, filter.minTurns, undefined) &&
    (truncated === undefined || row.truncated === truncated) &&
    (failed === undefined || row.failed === failed) &&
    (toolErrors === undefined || row.toolErrors > 0 === toolErrors) &&
    partWithin(row, filter.minPart, 1) &&
    partWithin(row, filter.maxPart, -1) &&
    (group === undefined || row.group === group) &&
    (label === undefined || labelsOf(row.id).includes(label)) &&
    (q === undefined || row.id.includes(q) || found?.has(row.id) === true)
  )
}

/** Keeps the rollouts that match a filter, in the order of the log. */
export const filterRollouts = async (
  log: RolloutLog,
  filter: RolloutFilter,
  labelsOf: LabelsOf,
): Promise<readonly Rollout[]> => {
  const rollouts = await log.rollouts()
  const found = filter.q === undefined ? {} : { found: await log.search(filter.q) }
  const whole: Filter = { ...filter, ...found, labelsOf }
  return rollouts.filter((rollout) => passes(rollout, whole))
}

const fieldOf = (row: RowNumbers, field: SortField): number => {
  if (field.startsWith('part.')) return ownValue(row.parts, field.slice('part.'.length)) ?? 0
  return row[field as 'reward'] ?? 0 // all other sort fields are numbers or null
}

const BINS = 20

const histogramOf = (values: readonly number[]): RolloutHistogram => {
  if (values.length === 0) return { edges: [], counts: [] }
  let [low, high] = [Infinity, -Infinity]
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)]
  const bins = low === high ? 1 : BINS
  const width = (high - low) / bins
  const counts = Array<number>(bins).fill(0)
  for (const value of values) {
    const bin = width === 0 ? 0 : Math.min(bins - 1, Math.floor((value - low) / width))
    counts[bin] = counts[bin]! + 1
  }
  return { edges: Array.from({ length: bins + 1 }, (_, i) => (i === bins ? high : low + i * width)), counts }
}

const LIMIT = 100
const MOST = 500

/** The result of a query before it is cut to a page. */
interface Found {
  readonly rollouts: readonly Rollout[]
  readonly histogram: RolloutsAnswer['histogram']
}

const find = async (
  log: RolloutLog,
  { sort, order = 'asc', ...filter }: RolloutsQuery,
  labelsOf: LabelsOf,
): Promise<Found> => {
  const rollouts = [...(await filterRollouts(log, filter, labelsOf))]
  const histogram = {
    reward: histogramOf(rollouts.map(({ row }) => row.reward)),
    length: histogramOf(rollouts.map(({ row }) => row.length)),
  }
  const sign = order === 'desc' ? -1 : 1
  if (sort !== undefined) rollouts.sort((a, b) => sign * (fieldOf(a.row, sort) - fieldOf(b.row, sort)))
  return { rollouts, histogram }
}

/** Results that are kept for each list of rollouts, so that scrolling does not filter again. */
const KEPT = 4

const results = new WeakMap<readonly Rollout[], Map<string, Found>>()

/** Answers a query of rollouts. The last results of a list are kept; those by label are not. */
export const queryRollouts = async (
  log: RolloutLog,
  { offset = 0, limit = LIMIT, ...query }: RolloutsQuery,
  labelsOf: LabelsOf,
): Promise<RolloutsAnswer> => {
  const list = await log.rollouts()
  const kept = results.get(list) ?? new Map<string, Found>()
  results.set(list, kept)
  const key = JSON.stringify(query)
  const found = kept.get(key) ?? (await find(log, query, labelsOf))
  if (query.label === undefined) kept.set(key, found)
  if (kept.size > KEPT) kept.delete([...kept.keys()][0]!) // it has more than one
  return {
    total: found.rollouts.length,
    rows: await rowsWithTexts(log, found.rollouts.slice(offset, offset + Math.min(limit, MOST)), labelsOf),
    histogram: found.histogram,
    isPartial: false,
  }
}
