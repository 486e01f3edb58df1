/** The numbers of rollouts, added up turn by turn. */
import { ownValue } from '@tandem-rl/base'
import type { TrajectoryRecord } from 'tandem-rl/run'
import { rolloutId, type ViewedTurn } from './foreign/viewedTurn.js'
import type { RolloutRow } from './protocol.js'

/** A row without its texts and labels, which are read when the row is shown. */
export type RowNumbers = Omit<RolloutRow, 'labels' | 'query' | 'snippet'>

/** A rollout of a log. */
export interface Rollout {
  readonly row: RowNumbers
}

/** Returns `true` for a turn whose group was dropped, or whose environment failed. */
export const hasFailed = ({ failed, advantage }: ViewedTurn): boolean => failed ?? advantage === null

const lengthOf = ({ length, tokens }: ViewedTurn): number => length ?? tokens.length

const advantageSum = (turn: ViewedTurn): number | null => {
  const { advantage } = turn
  if (advantage === null) return null
  return typeof advantage === 'number' ? advantage * lengthOf(turn) : advantage.reduce((a, b) => a + b, 0)
}

/** Returns the mean advantage of all tokens, including those of one more turn. */
const meanAdvantage = ({ advantage, length }: RowNumbers, turn: ViewedTurn): number | null => {
  const added = advantageSum(turn)
  const count = length + lengthOf(turn)
  if (advantage === null || added === null) return null
  return count === 0 ? 0 : (advantage * length + added) / count
}

/** Adds reward parts by name. `success` is 1 if any turn succeeded. */
const sumParts = (before: RowNumbers['parts'], added: TrajectoryRecord['parts']): RowNumbers['parts'] => {
  if (added === undefined) return before
  const parts: Record<string, number> = { ...before }
  for (const [name, value] of Object.entries(added))
    parts[name] =
      name === 'success' ? Math.max(ownValue(parts, name) ?? 0, value) : (ownValue(parts, name) ?? 0) + value
  return parts
}

/** Returns the row of a rollout before its first turn. Spreads would be slow for a large log. */
const emptyRow = (first: TrajectoryRecord, index: number): RowNumbers => {
  const id = rolloutId(first)
  return {
    id,
    step: first.step,
    index,
    group: first.groupId ?? id,
    reward: 0,
    parts: {},
    length: 0,
    truncated: false,
    failed: false,
    advantage: 0,
    turns: 0,
    toolCalls: 0,
    toolErrors: 0,
    version: null,
  }
}

/** Adds a turn to the row of its rollout, or makes the row at position `index` of the log. */
export const withTurn = (before: RowNumbers | undefined, turn: ViewedTurn, index: number): RowNumbers => {
  const row = before ?? emptyRow(turn, index)
  return {
    ...row,
    reward: row.reward + turn.reward,
    parts: sumParts(row.parts, turn.parts),
    length: row.length + lengthOf(turn),
    truncated: row.truncated || turn.stopReason === 'length',
    failed: row.failed || hasFailed(turn),
    advantage: meanAdvantage(row, turn),
    turns: row.turns + 1,
    toolCalls: row.toolCalls + (turn.toolUse?.calls ?? 0),
    toolErrors: row.toolErrors + (turn.toolUse?.errors ?? 0),
    version: turn.policyVersion,
  }
}
