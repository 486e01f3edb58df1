/** What a run says of a batch that was sampled: numbers for the record of its step, and completions to be looked at. */

import type { GroupedRows } from '../collectors/groups.js'
import type { CollectedBatch } from '../collectors/rollouts/turnRows.js'
import type { StopReason } from '../data/policy.js'
import { raggedRow, raggedRows, rowLengths } from '../data/tensorDict/leaf.js'
import { get } from '../data/tensorDict/tensorDict.js'
import type { TrainingState } from './pipeline.js'
import type { TrajectoryRecord } from './records.js'
import type { RunSettings } from './settings.js'

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)

const allRows = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i)

/** The part of a step's record that describes what was sampled. */
export const describeBatch = (batch: CollectedBatch<TrainingState>, settings: RunSettings) => {
  const numbers = (values: ArrayLike<number>): readonly number[] => Array.from(values)
  const rewards = numbers(get(batch, 'next', 'reward').dataSync())
  const stops: readonly StopReason[] = get(batch, 'stopReason').items.toArray()
  const flat = Array.from({ length: rewards.length / settings.group }, (_, i) =>
    rewards.slice(i * settings.group, (i + 1) * settings.group),
  )
  return {
    reward: mean(rewards),
    accuracy: mean(numbers(get(batch, 'next', 'rewardRight').dataSync())),
    worked: mean(numbers(get(batch, 'next', 'rewardThink').dataSync())),
    answered: mean(numbers(get(batch, 'next', 'rewardAnswer').dataSync())),
    completionKL: mean(raggedRows(get(batch, 'next', 'klPenalty')).map((row) => row.reduce((sum, kl) => sum + kl, 0))),
    truncated: mean(stops.map((reason) => (reason === 'length' ? 1 : 0))),
    completionTokens: mean(rowLengths(get(batch, 'tokens', 'response'))),
    groupsWithoutSignal: flat.filter((group) => group.every((r) => r === group[0])).length,
    policyVersion: get(batch, 'policyVersion').items.first() ?? -1,
  }
}

/** The rows to be looked at: two of each group, as many groups as fit. */
export const shownRows = (
  { batchShape: [size = 0] }: CollectedBatch<TrainingState>,
  settings: RunSettings,
): readonly number[] =>
  allRows(size)
    .filter((i) => i % settings.group < 2)
    .slice(0, settings.trajectories)

/** What a trajectory is told with. */
interface Telling {
  readonly step: number
  readonly decode: (id: number) => string
  /** Rows of the batch. Default: all. */
  readonly rows?: readonly number[]
}

/** Completions of a batch, to be looked at. */
export const sampleTrajectories = (
  batch: CollectedBatch<TrainingState>,
  grouped: GroupedRows,
  { step, decode, rows = allRows(batch.batchShape[0] ?? 0) }: Telling,
): readonly TrajectoryRecord[] => {
  const advantages = new Map(grouped.rows.map((row, i) => [row, grouped.advantages[i]!]))
  const rewards = get(batch, 'next', 'reward').dataSync()
  return rows.map((i) => ({
    step,
    groupId: get(batch, 'groupId').items.get(i)!,
    query: get(batch, 'query').items.get(i)!,
    answer: get(batch, 'answer').items.get(i)!,
    tokens: Array.from(raggedRow(get(batch, 'tokens', 'response'), i), decode),
    logProbs: Array.from(raggedRow(get(batch, 'logProbs', 'response'), i), (x) => Number(x.toFixed(4))),
    reward: rewards[i]!,
    advantage: advantages.get(i) ?? null,
    stopReason: get(batch, 'stopReason').items.get(i)!,
    policyVersion: get(batch, 'policyVersion').items.get(i)!,
  }))
}
