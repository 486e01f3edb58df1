/**
 * Consistency checks of a collected batch: tokens, log-probabilities, spans, masks, turns, groups,
 * ends.
 */
import type { TokenSpan } from '@tandem-rl/text'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { Outcome, TokenPrompt } from 'tandem-rl'
import { outcomeSpec } from 'tandem-rl/envs'
import {
  type Data,
  dataSpec,
  get,
  type Ragged,
  raggedRows,
  raggedSpec,
  refine,
  type TensorDict,
} from 'tandem-rl/tensordict'
import { closeProblem, EXACT } from './close.js'
import { tokenActionSpec } from './policyLaws.js'

const spans = dataSpec<readonly TokenSpan[]>('TokenSpan[]')

/** The entries of every collected batch. */
const collectedSpec = {
  ...tokenActionSpec,
  tokens: { prompt: raggedSpec('int32'), spans, response: raggedSpec('int32'), full: raggedSpec('int32') },
  logProbs: { response: raggedSpec('float32'), full: raggedSpec('float32') },
  masks: { attention: raggedSpec('bool'), assistant: raggedSpec('bool') },
  trajectoryId: dataSpec<string>('string'),
  turn: dataSpec<number>('number'),
  status: dataSpec<string>('string'),
  groupId: dataSpec<string>('string'),
  generationMs: dataSpec<number>('number'),
  next: { ...outcomeSpec, tokens: { prompt: raggedSpec('int32'), spans } },
} as const

/** The entries of `collectedSpec` that are checked. */
type Collected = {
  readonly tokens: TensorDict<{
    readonly prompt: Ragged<'int32'>
    readonly spans: Data<readonly TokenSpan[]>
    readonly response: Ragged<'int32'>
    readonly full: Ragged<'int32'>
  }>
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'>; readonly full: Ragged<'float32'> }>
  readonly masks: TensorDict<{ readonly attention: Ragged<'bool'>; readonly assistant: Ragged<'bool'> }>
  readonly trajectoryId: Data<string>
  readonly turn: Data<number>
  readonly status: Data<string>
  readonly groupId: Data<string>
  readonly next: TensorDict<TokenPrompt & Outcome>
}

/** One row of the batch, on the host. */
interface Row {
  readonly prompt: readonly number[]
  readonly response: readonly number[]
  readonly full: readonly number[]
  readonly spans: readonly TokenSpan[]
  readonly logProbs: { readonly response: readonly number[]; readonly full: readonly number[] }
  readonly masks: { readonly attention: readonly number[]; readonly assistant: readonly number[] }
  readonly trajectoryId: string
  readonly turn: number
  readonly status: string
  readonly groupId: string
  readonly next: { readonly prompt: readonly number[]; readonly spans: readonly TokenSpan[] }
  readonly ends: { readonly terminated: boolean; readonly truncated: boolean; readonly done: boolean }
}

const rowsOf = (td: TensorDict<Collected>): readonly Row[] => {
  const rows = (leaf: Ragged) => raggedRows(leaf)
  const bools = (key: 'terminated' | 'truncated' | 'done') =>
    Array.from(get(td, 'next', key).dataSync(), (x) => x === 1)
  const [terminated, truncated, done] = [bools('terminated'), bools('truncated'), bools('done')]
  const [prompt, response, full] = [
    rows(get(td, 'tokens', 'prompt')),
    rows(get(td, 'tokens', 'response')),
    rows(get(td, 'tokens', 'full')),
  ]
  const [responseLogProbs, fullLogProbs] = [rows(get(td, 'logProbs', 'response')), rows(get(td, 'logProbs', 'full'))]
  const [attention, assistant] = [rows(get(td, 'masks', 'attention')), rows(get(td, 'masks', 'assistant'))]
  const nextPrompt = rows(get(td, 'next', 'tokens', 'prompt'))
  const item = <T>(leaf: Data<T>, i: number): T => leaf.items.get(i)! // one for each row, by the batch shape
  return prompt.map((ids, i) => ({
    prompt: ids,
    response: response[i]!,
    full: full[i]!,
    spans: item(get(td, 'tokens', 'spans'), i),
    logProbs: { response: responseLogProbs[i]!, full: fullLogProbs[i]! },
    masks: { attention: attention[i]!, assistant: assistant[i]! },
    trajectoryId: item(get(td, 'trajectoryId'), i),
    turn: item(get(td, 'turn'), i),
    status: item(get(td, 'status'), i),
    groupId: item(get(td, 'groupId'), i),
    next: { prompt: nextPrompt[i]!, spans: item(get(td, 'next', 'tokens', 'spans'), i) },
    ends: { terminated: terminated[i]!, truncated: truncated[i]!, done: done[i]! },
  }))
}

const same = (a: readonly number[], b: readonly number[]): boolean =>
  closeProblem(a, b, { tolerance: EXACT }) === undefined

/** Returns true if spans cover 0 to the end without gaps. */
const isPartition = (parts: readonly TokenSpan[], length: number): boolean => {
  const ends = parts.map(({ end }) => end)
  return (
    parts.every(({ start, end }, i) => start === (ends[i - 1] ?? 0) && end >= start) && (ends.at(-1) ?? 0) === length
  )
}

/** Returns the ids in the sampled spans, in order. */
const sampledIds = (ids: readonly number[], parts: readonly TokenSpan[]): readonly number[] =>
  parts.filter(({ origin }) => origin === 'sampled').flatMap(({ start, end }) => ids.slice(start, end))

const inRow = (row: Row): readonly (readonly [holds: boolean, problem: string])[] => {
  const { prompt, response, full, logProbs, masks, ends } = row
  const over = (a: number, b: number): readonly number[] => [...prompt.map(() => a), ...response.map(() => b)]
  const unknown = prompt.map(() => Number.NaN)
  return [
    [same(full, [...prompt, ...response]), 'tokens.full is not the prompt and the response'],
    [logProbs.response.length === response.length, 'logProbs.response has not one number for each sampled id'],
    [
      same(logProbs.full, [...unknown, ...logProbs.response]),
      'logProbs.full is not NaN over the prompt and logProbs.response',
    ],
    [same(masks.attention, over(1, 1)), 'masks.attention is not 1 over all of tokens.full'],
    [same(masks.assistant, over(0, 1)), 'masks.assistant is not 1 exactly where the policy sampled in this turn'],
    [isPartition(row.spans, prompt.length), 'tokens.spans do not partition the prompt'],
    [isPartition(row.next.spans, row.next.prompt.length), 'next.tokens.spans do not partition the next prompt'],
    [same(row.next.prompt.slice(0, full.length), full), 'the next prompt does not begin with tokens.full'],
    [
      same(sampledIds(row.next.prompt, row.next.spans), [...sampledIds(prompt, row.spans), ...response]),
      'the sampled spans of the next prompt are not those before and the response',
    ],
    [ends.done === (ends.terminated || ends.truncated), 'done is not terminated or truncated'],
    [row.status === 'ok', `status is ${row.status}: a failed rollout must not be a row`],
  ]
}

const betweenRows = (row: Row, before: Row | undefined, seen: ReadonlySet<string>) => {
  const isNext = before !== undefined && before.trajectoryId === row.trajectoryId
  const problems: readonly (readonly [boolean, string])[] = isNext
    ? [
        [row.turn === before.turn + 1, `turn ${row.turn} follows turn ${before.turn}`],
        [!before.ends.done, 'a turn follows the end of its trajectory'],
        [row.groupId === before.groupId, 'a trajectory changes its group'],
        [same(row.prompt, before.next.prompt), 'the prompt is not the next prompt of the turn before'],
      ]
    : [
        [row.turn === 0, `the first turn of a trajectory is turn ${row.turn}`],
        [!seen.has(row.trajectoryId), `trajectory '${row.trajectoryId}' is not side by side`],
        [before === undefined || before.ends.done, 'the trajectory before has no end'],
        [row.groupId === before?.groupId || !seen.has(row.groupId), `group '${row.groupId}' is not side by side`],
      ]
  return problems
}

/**
 * Returns the inconsistencies of a collected batch, row by row. The list is empty for a valid
 * batch. If a required entry is missing, only that is reported.
 *
 * Within a row: `full` is prompt and response; every sampled id has a log-probability, NaN over the
 * prompt; masks match the spans; spans partition the ids; done is terminated or truncated. Between
 * rows: turns count from 0, each continues the ids of the previous one, only the last one is done,
 * members of a group are adjacent.
 *
 * Effects  reads tensors; makes none.
 *
 * @example
 * trajectoryProblems(TensorDict({}, [0])).includes('turn: missing') // true
 */
export const trajectoryProblems = (batch: TensorDict): readonly string[] => {
  const refined = refine(collectedSpec, batch, 'a collected batch')
  if (isLeft(refined)) return refined.left.problems
  const rows = rowsOf(batch as TensorDict as TensorDict<Collected>) // what the spec has just shown
  const seen = new Set<string>()
  return rows.flatMap((row, i) => {
    const checks = [...inRow(row), ...betweenRows(row, rows[i - 1], seen)]
    seen.add(row.groupId)
    seen.add(row.trajectoryId)
    const isOpen = i === rows.length - 1 && !row.ends.done
    const found = checks.flatMap(([holds, problem]) => (holds ? [] : [problem]))
    return [...found, ...(isOpen ? ['the last trajectory has no end'] : [])].map((problem) => `row ${i}: ${problem}`)
  })
}
