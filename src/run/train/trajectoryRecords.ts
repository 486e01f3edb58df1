/** Records of trajectories: the turns of a collected batch as JSON values, with their tokens. */
import { argumentsText, type History, type Message, textOf } from '@tandem-rl/text'
import { type Ragged, raggedRow } from '../../data/tensorDict/leaf.js'
import { find, findData, isTensorDict, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { TrainedTokens } from '../../learners/steps/trainedTokens.js'
import { raggedAt } from '../metrics/batchEntries.js'
import { rewardParts, textAt, trajectoryNumbers } from '../metrics/batchMetrics.js'
import type { PromptRecord, TrajectoryRecord } from '../metrics/records.js'
import type { AnyRun } from '../parts/run.js'
import type { SampledStep } from './step.js'

/** Rows of a batch by trajectory and turn. */
const keysOf = (td: TensorDict): readonly string[] => {
  const turns = findData(td, ['turn'])
  return (findData(td, ['trajectoryId']) ?? []).map((id, row) => `${String(id)} ${String(turns?.[row] ?? 0)}`)
}

/** Returns the advantages of rows by key: one number if all tokens share it. */
const advantagesOf = (rated: TensorDict): ReadonlyMap<string, number | readonly number[]> => {
  const advantage = raggedAt(rated, ['advantage'])
  const mask = raggedAt(rated, ['masks', 'assistant'])
  if (advantage === undefined) return new Map()
  return new Map(
    keysOf(rated).map((key, row) => {
      const each = Array.from(raggedRow(advantage, row))
      const learned = mask === undefined ? each : each.filter((_, t) => raggedRow(mask, row).at(t - each.length) === 1)
      const [first = 0] = learned
      return [key, learned.every((x) => x === first) ? first : each]
    }),
  )
}

/** Rounds to four decimals, which keeps the log small. */
const short = (x: number): number => Number(x.toFixed(4))

/** Log-probabilities that differ by less are recorded as equal, in nats. */
const EQUAL = 0.00005

type Trained = Pick<TrajectoryRecord, 'trainerLogProbs' | 'entropies' | 'ratios' | 'clipped'>

/** Describes the trained tokens of a row. Returns nothing for a row that was not trained. */
const trainedOf = (
  { logProbs, entropies, ratios, clipped }: TrainedTokens,
  row: number,
  sampled: ArrayLike<number>,
): Trained => {
  const own = Array.from(logProbs[row] ?? [])
  if (own.length === 0 || own.length !== sampled.length) return {}
  const shortRatios = Array.from(ratios[row]!, short)
  const cut = Array.from(clipped[row]!).flatMap((isCut, t) => (isCut === 1 ? [t] : []))
  return {
    trainerLogProbs: own.every((x, t) => Math.abs(x - sampled[t]!) < EQUAL) ? 'equal' : own.map(short),
    entropies: Array.from(entropies[row]!, short),
    ...(shortRatios.some((x) => x !== 1) && { ratios: shortRatios }),
    ...(cut.length > 0 && { clipped: cut }),
  }
}

/** Returns a function that describes the trained tokens of the rows with some keys. */
const trainedBy = (rated: TensorDict, tokens: TrainedTokens | undefined, logProbs: Ragged | undefined) => {
  if (tokens === undefined || logProbs === undefined) return (): Trained => ({})
  const rows = new Map(keysOf(rated).map((key, row) => [key, row]))
  return (key: string, sampled: ArrayLike<number>): Trained => {
    const row = rows.get(key)
    return row === undefined ? {} : trainedOf(tokens, row, sampled)
  }
}

/** Characters before an error message that a prefix of results may take. */
const LONGEST_PREFIX = 40

/** Start of the result of a call that failed, as `@tandem-rl/tools` writes it. */
const TOOL_ERROR = 'error: '

const isErrorText = (text: string): boolean => text.slice(0, LONGEST_PREFIX + TOOL_ERROR.length).includes(TOOL_ERROR)

type Exchange = Pick<TrajectoryRecord, 'toolCalls' | 'toolUse' | 'replies'>

/** Returns a function that describes the tool calls of rows, and what the environment replied. */
const exchangesOf = (batch: TensorDict): ((row: number) => Exchange) => {
  const [before, after] = [
    findData<History>(batch, ['history', 'prompt']),
    findData<History>(batch, ['next', 'history', 'prompt']),
  ]
  const responses = findData<Message>(batch, ['history', 'response'])
  const counts = (name: 'toolCalls' | 'toolErrors') => {
    const [first, last] = [findData(batch, [name]), findData(batch, ['next', name])]
    return (row: number): number | undefined =>
      last === undefined ? undefined : Number(last[row]) - Number(first?.[row] ?? 0)
  }
  const [callCount, errorCount] = [counts('toolCalls'), counts('toolErrors')]
  return (row) => {
    const written = responses?.[row]?.toolCalls ?? []
    const [calls, errors] = [callCount(row) ?? written.length, errorCount(row) ?? 0]
    const from = (before?.[row]?.messages.size ?? Infinity) + 1
    const replies = after?.[row]?.messages.slice(from).toArray() ?? []
    return {
      ...(written.length > 0 && {
        toolCalls: written.map((call) => ({ name: call.name, arguments: argumentsText(call) })),
      }),
      ...(calls > 0 && { toolUse: { calls, errors } }),
      ...(replies.length > 0 && {
        replies: replies.map((reply) => {
          const text = textOf(reply)
          return { role: reply.role, text, ...(errors > 0 && isErrorText(text) && { isError: true }) }
        }),
      }),
    }
  }
}

/**
 * Selects rows for inspection: the first two trajectories of each group, at most `count` in all.
 */
export const shownRows = (batch: TensorDict, count: number): readonly number[] => {
  if (find(batch, ['trajectoryId']) === undefined) return []
  const members = new Map<string, number>()
  const shown = trajectoryNumbers(batch).filter(({ groupId, trajectoryId }) => {
    const group = groupId ?? trajectoryId
    const before = members.get(group) ?? 0
    members.set(group, before + 1)
    return before < 2
  })
  return shown.slice(0, count).flatMap(({ rows }) => rows)
}

/** Returns the ids of each row's prompt, without those that the trajectory's row before it has. */
const promptsOf = (batch: TensorDict, keys: readonly string[]): ((row: number) => PromptRecord | undefined) => {
  const [prompts, responses] = [raggedAt(batch, ['tokens', 'prompt']), raggedAt(batch, ['tokens', 'response'])]
  const [ids, turns] = [findData(batch, ['trajectoryId']) ?? [], findData(batch, ['turn'])]
  const rowOf = new Map(keys.map((key, row) => [key, row]))
  return (row) => {
    if (prompts === undefined || responses === undefined) return undefined
    const before = rowOf.get(`${String(ids[row])} ${Number(turns?.[row] ?? 0) - 1}`)
    const known = before === undefined ? [] : [...raggedRow(prompts, before), ...raggedRow(responses, before)]
    const prompt = Array.from(raggedRow(prompts, row))
    const end = prompt.findIndex((id, i) => id !== known[i])
    const shared = end === -1 ? prompt.length : end
    return { shared, ids: prompt.slice(shared) }
  }
}

/** The rows to describe, and the numbers of their tokens. */
interface Described {
  /** Default: all rows. */
  readonly rows?: readonly number[]
  /** From the learner, one list for each row of `rated`. Default: not recorded. */
  readonly tokens?: TrainedTokens | undefined
}

/**
 * Returns records of the batch's trajectories, for all or some rows. Data set batches have none.
 */
export const trajectoryRecordsOf = (
  { record }: Pick<AnyRun, 'record'>,
  { step, batch, rated }: Pick<SampledStep, 'step' | 'batch' | 'rated'>,
  { rows, tokens: trained }: Described = {},
): readonly TrajectoryRecord[] => {
  const ids = findData(batch, ['trajectoryId'])
  if (ids === undefined) return []
  const keys = keysOf(batch)
  const advantages = advantagesOf(rated)
  const tokens = raggedAt(batch, ['tokens', 'response'])
  const logProbs = raggedAt(batch, ['logProbs', 'response'])
  const next = find(batch, ['next'])
  const reward = isTensorDict(next) ? find(next, ['reward']) : undefined
  const rewards = reward !== undefined && 'dataSync' in reward ? reward.dataSync() : []
  const parts = rewardParts(batch)
  const { decode } = record
  const [turns, stops, versions] = ['turn', 'stopReason', 'policyVersion'].map((name) => findData(batch, [name]))
  const exchange = exchangesOf(batch)
  const trainedOfKey = trainedBy(rated, trained, logProbs)
  const promptOf = promptsOf(batch, keys)
  return (rows ?? ids.map((_, row) => row)).map((row) => {
    const text = textAt(batch, ['text', 'response'], row)
    const sampled = logProbs === undefined ? null : raggedRow(logProbs, row)
    const prompt = promptOf(row)
    return {
      format: 2,
      step,
      trajectoryId: String(ids[row]),
      turn: Number(turns?.[row] ?? 0),
      groupId: textAt(batch, ['groupId'], row) ?? null,
      query: textAt(batch, ['query'], row) ?? '',
      answer: textAt(batch, ['answer'], row) ?? null,
      tokens:
        tokens !== undefined && decode !== undefined ? Array.from(raggedRow(tokens, row), decode) : text ? [text] : [],
      ...(tokens !== undefined && { ids: Array.from(raggedRow(tokens, row)) }),
      ...(prompt !== undefined && { prompt }),
      logProbs: sampled === null ? null : Array.from(sampled, short),
      ...(sampled !== null && trainedOfKey(keys[row]!, sampled)),
      ...exchange(row),
      reward: Number(rewards[row] ?? 0),
      ...(parts.length > 0 && { parts: Object.fromEntries(parts.map(([name, values]) => [name, values[row]!])) }),
      advantage: advantages.get(keys[row]!) ?? null,
      stopReason: (stops?.[row] ?? null) as string | null, // one of the words of StopReason
      policyVersion: (versions?.[row] ?? null) as number | null, // by the policy's contract
    }
  })
}
