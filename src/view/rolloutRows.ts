/** Rollouts of a run as rows: made from trajectory records, filtered, sorted and counted. */
import type { TrajectoryRecord } from '../run/records.js'
import type {
  RolloutFilter,
  RolloutHistogram,
  RolloutRow,
  RolloutsAnswer,
  RolloutsQuery,
  SortField,
  TokenRow,
  TurnRow,
} from './protocol.js'

/** A rollout: its row, and the records of its turns. */
export interface Rollout {
  readonly row: Omit<RolloutRow, 'labels'>
  readonly turns: readonly TrajectoryRecord[]
}

const SNIPPET = 160

const textOf = ({ tokens }: TrajectoryRecord): string => tokens.join('')

const meanAdvantage = (turns: readonly TrajectoryRecord[]): number | null => {
  let [sum, count] = [0, 0]
  for (const { advantage, tokens } of turns) {
    if (advantage === null) return null
    sum += typeof advantage === 'number' ? advantage * tokens.length : advantage.reduce((a, b) => a + b, 0)
    count += tokens.length
  }
  return count === 0 ? 0 : sum / count
}

/** Sums the reward parts of turns by name. `success` is 1 if any turn succeeded. */
const partsOf = (turns: readonly TrajectoryRecord[]): Readonly<Record<string, number>> => {
  const parts: Record<string, number> = {}
  for (const turn of turns) {
    for (const [name, value] of Object.entries(turn.parts ?? {})) {
      const before = parts[name] ?? 0
      parts[name] = name === 'success' ? Math.max(before, value) : before + value
    }
  }
  return parts
}

/** Returns the id of a trajectory in addresses. */
export const rolloutId = (step: number, trajectoryId: string): string =>
  `${step}-${trajectoryId}`.replace(/[^\w.-]/g, '_')

const rowOf = (turns: readonly TrajectoryRecord[], index: number): Rollout['row'] => {
  const [first, last] = [turns[0]!, turns.at(-1)!] // a rollout has a turn
  const id = rolloutId(first.step, first.trajectoryId)
  return {
    ...{ id, step: first.step, index },
    group: first.groupId ?? id,
    reward: turns.reduce((sum, { reward }) => sum + reward, 0),
    parts: partsOf(turns),
    length: turns.reduce((sum, { tokens }) => sum + tokens.length, 0),
    truncated: turns.some(({ stopReason }) => stopReason === 'length'),
    failed: turns.some(({ advantage }) => advantage === null),
    advantage: meanAdvantage(turns),
    turns: turns.length,
    toolCalls: 0,
    toolErrors: 0,
    version: last.policyVersion,
    query: first.query.slice(0, SNIPPET),
    snippet: textOf(last).slice(0, SNIPPET),
  }
}

/** Groups the records of turns to rollouts, in the order of the log. */
export const rolloutsOf = (records: readonly TrajectoryRecord[]): readonly Rollout[] => {
  const turns = new Map<string, TrajectoryRecord[]>()
  for (const record of records) {
    const key = `${record.step} ${record.trajectoryId}`
    const own = turns.get(key)
    if (own === undefined) turns.set(key, [record])
    else own.push(record)
  }
  return [...turns.values()].map((each, index) => ({ row: rowOf(each, index), turns: each }))
}

const within = (value: number | null, least: number | undefined, most: number | undefined): boolean =>
  (least === undefined || (value ?? 0) >= least) && (most === undefined || (value ?? 0) <= most)

/** Checks a limit such as `success:0.5`. `sign` is 1 for the least and -1 for the largest value. */
const partWithin = (row: Rollout['row'], limit: string | undefined, sign: 1 | -1): boolean => {
  if (limit === undefined) return true
  const at = limit.lastIndexOf(':')
  const value = row.parts[limit.slice(0, at)]
  return value !== undefined && sign * (value - Number(limit.slice(at + 1))) >= 0
}

const contains = ({ row, turns }: Rollout, text: string): boolean => {
  const wanted = text.toLowerCase()
  return (
    row.id.includes(text) ||
    turns.some((turn) => textOf(turn).toLowerCase().includes(wanted) || turn.query.toLowerCase().includes(wanted))
  )
}

const passes = (rollout: Rollout, filter: RolloutFilter, labelsOf: (id: string) => readonly string[]): boolean => {
  const { row } = rollout
  const { truncated, failed, toolErrors, group, label, q } = filter
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
    (q === undefined || contains(rollout, q))
  )
}

/** Keeps the rollouts that match a filter, in the order of the log. */
export const filterRollouts = (
  rollouts: readonly Rollout[],
  filter: RolloutFilter,
  labelsOf: (id: string) => readonly string[],
): readonly Rollout[] => rollouts.filter((rollout) => passes(rollout, filter, labelsOf))

const fieldOf = (row: Rollout['row'], field: SortField): number => {
  if (field.startsWith('part.')) return row.parts[field.slice('part.'.length)] ?? 0
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
  readonly rows: readonly Rollout['row'][]
  readonly histogram: RolloutsAnswer['histogram']
}

const find = (
  rollouts: readonly Rollout[],
  { sort, order = 'asc', ...filter }: RolloutsQuery,
  labelsOf: (id: string) => readonly string[],
): Found => {
  const rows = filterRollouts(rollouts, filter, labelsOf).map(({ row }) => row)
  const histogram = {
    reward: histogramOf(rows.map(({ reward }) => reward)),
    length: histogramOf(rows.map(({ length }) => length)),
  }
  const sign = order === 'desc' ? -1 : 1
  if (sort !== undefined) rows.sort((a, b) => sign * (fieldOf(a, sort) - fieldOf(b, sort)))
  return { rows, histogram }
}

/** Results that are kept for each list of rollouts, so that scrolling does not filter again. */
const KEPT = 4

const results = new WeakMap<readonly Rollout[], Map<string, Found>>()

/** Answers a query of rollouts. The last results of a list are kept; those by label are not. */
export const queryRollouts = (
  rollouts: readonly Rollout[],
  { offset = 0, limit = LIMIT, ...query }: RolloutsQuery,
  labelsOf: (id: string) => readonly string[],
): RolloutsAnswer => {
  const kept = results.get(rollouts) ?? new Map<string, Found>()
  results.set(rollouts, kept)
  const key = JSON.stringify(query)
  const found = kept.get(key) ?? find(rollouts, query, labelsOf)
  if (query.label === undefined) kept.set(key, found)
  if (kept.size > KEPT) kept.delete([...kept.keys()][0]!) // it has more than one
  return {
    total: found.rows.length,
    rows: found.rows.slice(offset, offset + Math.min(limit, MOST)).map((row) => ({ ...row, labels: labelsOf(row.id) })),
    histogram: found.histogram,
    isPartial: false,
  }
}

const tokensOf = ({ tokens, logProbs, advantage, policyVersion }: TrajectoryRecord): readonly TokenRow[] =>
  tokens.map((text, i) => {
    const own = typeof advantage === 'number' ? advantage : advantage?.[i]
    return {
      text,
      ...(logProbs?.[i] !== undefined && { logProb: logProbs[i] }),
      ...(own !== undefined && { advantage: own }),
      mask: advantage !== null,
      ...(policyVersion !== null && { version: policyVersion }),
    }
  })

/** Returns the conversation of a rollout: its task, then what the model wrote. */
export const conversationOf = ({ turns }: Rollout): readonly TurnRow[] => [
  { author: 'user', text: turns[0]!.query, toolCalls: [] }, // a rollout has a turn
  ...turns.map(
    (turn): TurnRow => ({
      author: 'model',
      text: textOf(turn),
      toolCalls: [],
      tokens: tokensOf(turn),
      reward: turn.reward,
      ...(turn.stopReason !== null && { stopReason: turn.stopReason }),
    }),
  ),
]
