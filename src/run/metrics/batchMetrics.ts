/** Metrics of a collected batch, per trajectory and averaged. */
import type { History } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import { rowsByTrajectory } from '../../collectors/rollouts/identity.js'
import { rowLengths } from '../../data/tensorDict/leaf.js'
import { find, findData, has, isTensorDict, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { readExtraParts } from '../../envs/transforms/extraParts.js'
import { rewardKey } from '../../envs/transforms/rewardEntries.js'
import { raggedAt } from './batchEntries.js'
import { plainRewards } from './environmentReward.js'

/** The metrics of one trajectory. */
export interface TrajectoryNumbers {
  readonly trajectoryId: string
  /** `undefined` if the environment has no groups. */
  readonly groupId: string | undefined
  /** Rows of the batch, turn by turn. */
  readonly rows: readonly number[]
  /** The sum of its rewards. */
  readonly return: number
  /**
   * Sums of the reward parts, by their entries under `next`, such as `rewardRight`. `success` is 1
   * if any turn succeeded.
   */
  readonly parts: Readonly<Record<string, number>>
  /** Number of sampled tokens. `undefined` for policies without tokens. */
  readonly tokens: number | undefined
  /** Number of tool results in the conversation. */
  readonly toolCalls: number
  /**
   * `true` if a completion reached the token limit. For policies without stop reasons, `true` if
   * the episode was truncated.
   */
  readonly isTruncated: boolean
}

const lengthsAt = (td: TensorDict, path: readonly string[]): readonly number[] | undefined => {
  const entry = raggedAt(td, path)
  return entry && rowLengths(entry)
}

/** Returns the numbers of a tensor `[B]`, or `undefined` if there is no such entry. */
const numbersAt = (td: TensorDict, path: readonly string[]): ArrayLike<number> | undefined => {
  const entry = find(td, path)
  return entry instanceof tf.Tensor && entry.shape.length === 1 ? entry.dataSync() : undefined
}

/** Names of the reward parts under `next`: `success`, and entries that start with `reward`. */
const partNames = (td: TensorDict): readonly string[] => {
  const next = find(td, ['next'])
  if (!isTensorDict(next)) return []
  return [...next.entries.keys()].filter(
    (name) => (name === 'success' || /^reward[A-Z]/.test(name)) && numbersAt(td, ['next', name]) !== undefined,
  )
}

/** Returns the reward parts of a batch by name, one number per row. */
export const rewardParts = (batch: TensorDict): readonly (readonly [string, ArrayLike<number>])[] => {
  const next = find(batch, ['next'])
  const extras = isTensorDict(next) ? [...readExtraParts(next)] : []
  return [
    ...partNames(batch).map((name) => [name, numbersAt(batch, ['next', name])!] as const),
    ...extras.map(([name, numbers]) => [rewardKey(name), numbers] as const),
  ]
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const toolResults = (history: History | undefined): number =>
  history === undefined ? 0 : history.messages.count(({ role }) => role === 'tool')

/**
 * Computes the metrics of each trajectory of a collected batch, in order of first appearance. A
 * metric whose entry is missing from the batch is absent or 0.
 *
 * Shapes   reads `next.reward`, `next.truncated` and reward parts `[B]`, and `trajectoryId`.
 * Errors   throws RangeError if the batch has no `trajectoryId`.
 */
export const trajectoryNumbers = (batch: TensorDict): readonly TrajectoryNumbers[] => {
  if (!has(batch, 'trajectoryId')) throw new RangeError('trajectoryNumbers: the batch has no trajectoryId')
  const rewards = numbersAt(batch, ['next', 'reward'])
  const cut = numbersAt(batch, ['next', 'truncated'])
  const parts = rewardParts(batch)
  const lengths = lengthsAt(batch, ['tokens', 'response'])
  const stops = findData<string>(batch, ['stopReason'])
  const histories = findData<History>(batch, ['next', 'history', 'prompt'])
  const groups = findData<string>(batch, ['groupId'])
  return [...rowsByTrajectory(batch)].map(([trajectoryId, rows]) => ({
    trajectoryId,
    groupId: groups?.[rows[0]!],
    rows,
    return: sum(rows.map((row) => rewards?.[row] ?? 0)),
    parts: Object.fromEntries(
      parts.map(([name, values]) => {
        const each = rows.map((row) => values[row]!)
        return [name, name === 'success' ? Math.max(...each) : sum(each)]
      }),
    ),
    tokens: lengths && sum(rows.map((row) => lengths[row]!)),
    toolCalls: toolResults(histories?.[rows.at(-1)!]),
    isTruncated: stops === undefined ? cut?.[rows.at(-1)!] === 1 : rows.some((row) => stops[row] === 'length'),
  }))
}

/** Means over the trajectories of a batch. Metrics whose entries are missing are absent. */
export interface BatchMetrics {
  /** Number of trajectories, or of rows if the batch has no trajectories. */
  readonly trajectories: number
  /** Mean return, in reward units. */
  readonly reward?: number
  /** Means of the reward parts, such as `rewardRight`, and of `success`. */
  readonly parts: Readonly<Record<string, number>>
  /** Means per trajectory: turns, sampled tokens and tool results. */
  readonly turns?: number
  readonly completionTokens?: number
  readonly toolCalls?: number
  /** Share of truncated trajectories. */
  readonly truncated?: number
  /** Number of groups whose trajectories have equal returns, before length and KL penalties. */
  readonly groupsWithoutSignal?: number
  /** Version of the weights that sampled the first row. */
  readonly policyVersion?: number
}

const mean = (numbers: readonly number[]): number => sum(numbers) / Math.max(1, numbers.length)

/** Collects sums of rewards by group. Trajectories without a group are left out. */
const returnsByGroup = (
  trajectories: readonly TrajectoryNumbers[],
  rewards: ArrayLike<number>,
): readonly (readonly number[])[] => {
  const groups = new Map<string, number[]>()
  for (const { groupId, rows } of trajectories) {
    if (groupId === undefined) continue
    const own = groups.get(groupId) ?? []
    own.push(sum(rows.map((row) => rewards[row]!)))
    groups.set(groupId, own)
  }
  return [...groups.values()]
}

/** Counts the groups whose trajectories have equal returns, before length and KL penalties. */
const countWithoutSignal = (batch: TensorDict, trajectories: readonly TrajectoryNumbers[]): number =>
  returnsByGroup(trajectories, plainRewards(batch)).filter((group) => group.every((r) => r === group[0])).length

/** Metrics of a batch without trajectories: row count and mean response length. */
const rowMetrics = (batch: TensorDict): BatchMetrics => {
  const lengths = lengthsAt(batch, ['tokens', 'response'])
  return { trajectories: batch.batchShape[0] ?? 0, parts: {}, ...(lengths && { completionTokens: mean(lengths) }) }
}

/**
 * Computes the metrics that a run logs for a batch. Batches of a data set have no trajectories:
 * only row count and lengths are reported.
 *
 * Units    rewards in reward units, lengths in tokens and turns.
 */
export const batchMetrics = (batch: TensorDict): BatchMetrics => {
  if (!has(batch, 'trajectoryId')) return rowMetrics(batch)
  const trajectories = trajectoryNumbers(batch)
  const hasRewards = numbersAt(batch, ['next', 'reward']) !== undefined
  const version = findData<number>(batch, ['policyVersion'])?.[0]
  const names = Object.keys(trajectories[0]?.parts ?? {})
  return {
    trajectories: trajectories.length,
    ...(hasRewards && {
      reward: mean(trajectories.map((each) => each.return)),
      groupsWithoutSignal: countWithoutSignal(batch, trajectories),
    }),
    parts: Object.fromEntries(names.map((name) => [name, mean(trajectories.map(({ parts }) => parts[name]!))])),
    turns: mean(trajectories.map(({ rows }) => rows.length)),
    ...(trajectories[0]?.tokens !== undefined && {
      completionTokens: mean(trajectories.map(({ tokens = 0 }) => tokens)),
    }),
    toolCalls: mean(trajectories.map(({ toolCalls }) => toolCalls)),
    truncated: mean(trajectories.map(({ isTruncated }) => (isTruncated ? 1 : 0))),
    ...(version !== undefined && { policyVersion: version }),
  }
}

/** Returns the text of a row in a `Data` entry, or `undefined`. */
export const textAt = (batch: TensorDict, path: readonly string[], row: number): string | undefined => {
  const value = findData<unknown>(batch, path)?.[row]
  return typeof value === 'string' ? value : undefined
}

/** Returns the conversation after a row's turn, or `undefined` if the batch has no histories. */
export const historyAfter = (batch: TensorDict, row: number): History | undefined =>
  findData<History>(batch, ['next', 'history', 'prompt'])?.[row]
