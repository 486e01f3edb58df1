/**
 * Tools as a transform: runs the calls of the policy's last message and appends their results to
 * the conversation.
 */

import { cancellation, child, formatKey, type Key, type Limiter, limiter, parseKey, type Timers } from '@tandem-rl/base'
import { harmless, liveTimers } from '@tandem-rl/base/host'
import {
  appendMessage,
  type ContentPart,
  type History,
  type Message,
  message,
  textOf,
  toolResult,
} from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  type EnvFailure,
  envFailure,
  type HistoryAction,
  type HistoryPrompt,
  type StepContext,
  type Transform,
  transform,
} from 'tandem-rl'
import { type Episode, endedRows, episodesOf, type ToolFailure } from 'tandem-rl/envs'
import { type Data, data, dataSpec, findData, get, merge, TensorDict } from 'tandem-rl/tensordict'
import { clipped } from './clipped.js'
import { type CallFinder, callsOfMessage, type RequestedCalls } from './requestedCalls.js'
import {
  type CallNotice,
  type LateCall,
  type Observation,
  type RanCalls,
  type RunCallsOptions,
  runCalls,
  type ToolStates,
} from './runCalls.js'
import type { ToolRegistry } from './toolRegistry.js'

/** The entries that a transform of tools adds: JSON values, one for each batch element. */
export type ToolEntries = {
  readonly history: TensorDict<{ readonly prompt: Data<History> }>
  /** Number of calls in this episode, including calls that were not run. */
  readonly toolCalls: Data<number>
  /** Number of calls in this episode that ended with an error. */
  readonly toolErrors: Data<number>
  readonly tools: TensorDict<{
    /** The states of the tools. */
    readonly states: Data<ToolStates>
    /** Number of messages with calls in this episode. */
    readonly rounds: Data<number>
    /** The random key of the episode's calls, from `formatKey`. */
    readonly keys: Data<string>
    /** The text of the result that ended the episode (`status: 'finish'`); null before. */
    readonly finish: Data<string | null>
  }>
}

export interface ToolLimits {
  /** Maximum calls of a message; further ones are answered with an error. Default 16. */
  readonly calls?: number
  /**
   * Maximum messages with calls in an episode. One more truncates the episode, and its calls are
   * not run. Default 32.
   */
  readonly rounds?: number
  /** Time limit of each call in milliseconds. Default 60,000. */
  readonly timeoutMs?: number
}

/** The options that all transforms of tools share. */
export interface ToolCallOptions {
  /**
   * Effect of a message without a call on its episode. Default `terminate`: the message is the
   * answer.
   */
  readonly onNoCall?: 'terminate' | 'continue'
  /** The role of the messages with results. Default `tool`. */
  readonly role?: string
  /** Text in front of each result, such as `Observation: `. Default: none. */
  readonly prefix?: string
  readonly limits?: ToolLimits
  /** Limits concurrent calls, over all transforms that share it. Default: 8 calls. */
  readonly limiter?: Limiter
  readonly timers?: Timers
  /** Called for each reply that arrives after its time limit and is dropped. Default: none. */
  readonly onLate?: (late: LateCall) => void
  /** Called when a call starts and when it ends, for observers. Default: none. */
  readonly onCall?: (event: CallNotice) => void
}

export interface ToolTransformOptions extends ToolCallOptions {
  readonly name: string
  readonly registry: ToolRegistry
  /** Finds the calls of a message. Default: those of its `toolCalls`. */
  readonly read?: CallFinder
  /** Run the calls of a message at once, or one after another. Default `parallel`. */
  readonly order?: 'parallel' | 'sequence'
  /** Run or skip the calls of a message after one that failed. Default `continue`. */
  readonly onError?: 'continue' | 'stop'
}

/** The options with their defaults. */
interface Settings {
  readonly name: string
  readonly registry: ToolRegistry
  readonly read: CallFinder
  readonly onNoCall: 'terminate' | 'continue'
  readonly role: string
  readonly prefix: string
  readonly maxCalls: number
  readonly maxRounds: number
  readonly run: RunCallsOptions
}

const settingsOf = (options: ToolTransformOptions): Settings => {
  const { name, registry, read = callsOfMessage, onNoCall = 'terminate', role = 'tool', limits = {} } = options
  const { prefix = '' } = options
  const { calls: maxCalls = 16, rounds: maxRounds = 32, timeoutMs = 60_000 } = limits
  const { order = 'parallel', onError = 'continue', timers = liveTimers } = options
  const onLate = harmless('onLate', options.onLate ?? (() => {}))
  const problems = Object.entries({ maxCalls, maxRounds, timeoutMs }).flatMap(([key, value]) =>
    value >= 1 ? [] : [`${key} must be at least 1, got ${value}`],
  )
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
  const { onCall } = options
  const common = { order, onError, timeoutMs, timers, onLate, limiter: options.limiter ?? limiter(8) }
  const run = { ...common, ...(onCall && { onCall: harmless('onCall', onCall) }) }
  return { name, registry, read, onNoCall, role, prefix, maxCalls, maxRounds, run }
}

/** The entries of one batch element. */
interface Row {
  readonly history: History
  readonly calls: number
  readonly errors: number
  readonly rounds: number
  readonly states: ToolStates
  readonly key: Key
  readonly finish: string | null
  readonly episode: Episode
}

type End = 'none' | 'terminated' | 'truncated'

const entriesOf = (rows: readonly Omit<Row, 'episode'>[], batchShape: readonly number[]): TensorDict<ToolEntries> =>
  TensorDict(
    {
      history: { prompt: data(rows.map(({ history }) => history)) },
      toolCalls: data(rows.map(({ calls }) => calls)),
      toolErrors: data(rows.map(({ errors }) => errors)),
      tools: {
        states: data(rows.map(({ states }) => states)),
        rounds: data(rows.map(({ rounds }) => rounds)),
        keys: data(rows.map(({ key }) => formatKey(key))),
        finish: data(rows.map(({ finish }) => finish)),
      },
    },
    batchShape,
  )

/** Returns the rows of a state made by `entriesOf`, with the conversations of the step. */
const rowsOf = (previous: TensorDict<ToolEntries>, next: TensorDict<HistoryPrompt>): readonly Row[] => {
  const tools = get(previous, 'tools')
  const [states, rounds, keys] = [get(tools, 'states').items, get(tools, 'rounds').items, get(tools, 'keys').items]
  const finishes = get(tools, 'finish').items
  const [calls, errors] = [get(previous, 'toolCalls').items, get(previous, 'toolErrors').items]
  const histories = get(next, 'history', 'prompt').items
  const episodes = episodesOf(previous, keys.toArray())
  // Every leaf has one value per batch element, and the keys were written by `formatKey`.
  return histories.toArray().map((history, i) => ({
    history,
    calls: calls.get(i)!,
    errors: errors.get(i)!,
    rounds: rounds.get(i)!,
    states: states.get(i)!,
    key: parseKey(keys.get(i)!)!,
    finish: finishes.get(i)!,
    episode: episodes[i]!,
  }))
}

/** Returns the outcome of the step, including the ends that the calls made. */
const ended = (next: TensorDict, ends: readonly End[]): TensorDict => {
  const of = (key: 'terminated' | 'truncated' | 'done', has: (end: End) => boolean): tf.Tensor => {
    const before = endedRows(next, key)
    return tf.tensor1d(
      ends.map((end, i) => before[i] === true || has(end)),
      'bool',
    )
  }
  return TensorDict(
    {
      terminated: of('terminated', (end) => end === 'terminated'),
      truncated: of('truncated', (end) => end === 'truncated'),
      done: of('done', (end) => end !== 'none'),
    },
    next.batchShape,
  )
}

/**
 * Returns the messages after the policy's: a result for each call, and an error for each call that
 * could not be parsed.
 */
const answers = (
  observations: readonly Observation[],
  { calls, malformed }: RequestedCalls,
  { maxCalls, role, prefix }: Pick<Settings, 'maxCalls' | 'role' | 'prefix'>,
): readonly Message[] => {
  const skipped = `error: not run: a message may have at most ${maxCalls} calls`
  const results = [
    ...observations.map(({ call, content }) => toolResult(call, content)),
    ...calls.slice(maxCalls).map((call) => toolResult(call, skipped)),
    ...malformed.map((reason) => message(role, `error: a call could not be parsed: ${clipped(reason, REASON_LENGTH)}`)),
  ]
  const front: readonly ContentPart[] = prefix === '' ? [] : [{ type: 'text', text: prefix }]
  return results.map((result) => ({ ...result, role, content: [...front, ...result.content] }))
}

const REASON_LENGTH = 500

/** Runs the calls of one message. */
const play = (
  row: Row,
  request: RequestedCalls,
  options: Settings,
  signal: AbortSignal,
): TE.TaskEither<ToolFailure, readonly [Row, End]> => {
  const { registry, maxCalls, maxRounds, onNoCall } = options
  const count = request.calls.length + request.malformed.length
  if (count === 0) return TE.right([row, onNoCall === 'terminate' ? 'terminated' : 'none'])
  if (row.rounds >= maxRounds) return TE.right([row, 'truncated'])
  const { states: before, episode, rounds } = row
  const given = {
    calls: request.calls.slice(0, maxCalls),
    states: before,
    key: child(row.key, rounds),
    episode,
    signal,
  }
  const run = runCalls(registry, given, options.run)
  return TE.map(({ observations, states }: RanCalls): readonly [Row, End] => {
    const last = observations.find(({ outcome }) => outcome === 'finish')
    const good = observations.filter(({ outcome }) => outcome === 'ok' || outcome === 'finish').length
    const reported = answers(observations, request, options)
    return [
      {
        ...row,
        history: reported.reduce(appendMessage, row.history),
        calls: row.calls + count,
        errors: row.errors + count - good,
        rounds: row.rounds + 1,
        states,
        finish: last === undefined ? null : textOf(message(options.role, last.content)),
      },
      last !== undefined ? 'terminated' : 'none',
    ]
  })(run)
}

/** Runs all rows of a step at once. The first failure cancels the others. */
const playAll = async (
  rows: readonly (readonly [Row, RequestedCalls | 'over'])[],
  options: Settings,
  signal: AbortSignal | undefined,
): Promise<E.Either<ToolFailure, readonly (readonly [Row, End])[]>> => {
  const all = cancellation({ signal })
  let failure: ToolFailure | undefined
  const played = await Promise.all(
    rows.map(async ([row, request]): Promise<readonly [Row, End]> => {
      if (request === 'over') return [row, 'none']
      const part = all.part()
      const result = await play(row, request, options, part.signal)()
      part.release()
      if (E.isRight(result)) return result.right
      failure ??= result.left // the first failure; later ones were cancelled because of it
      all.stop()
      return [row, 'none']
    }),
  )
  all.release()
  return failure === undefined ? E.right(played) : E.left(failure)
}

/** Releases the resources that tools hold for the episodes of a state. */
const releaseOf = ({ tools }: ToolRegistry): { readonly release?: (state: TensorDict) => void } => {
  const holders = [...tools.values()].flatMap(({ release }) => (release === undefined ? [] : [release]))
  if (holders.length === 0) return {}
  return {
    release: (state) => {
      const chains = findData<string>(state, ['tools', 'keys']) ?? []
      for (const episode of episodesOf(state, chains)) for (const release of holders) release(episode)
    },
  }
}

/**
 * Runs the tool calls of the policy's last message and appends a message with the result of each,
 * in the order of the calls. All other transforms of tools are this one with different defaults.
 * Use it for calls that have another form than name and arguments, and find them with `read`.
 *
 * The state of the tools is part of the TensorDict, for each batch element, and each call has its
 * own key. With pure tools, stepping a state twice gives equal results. If the inner environment
 * has ended the episode, no call is run. A reply with `status: 'finish'` terminates its episode.
 *
 * Errors   `Left(EnvFailure)` for an `infrastructure` failure of a tool, with that as its cause;
 *          throws RangeError for limits below 1.
 * Effects  those of the tools.
 */
export const toolTransform = (options: ToolTransformOptions): Transform<null, HistoryPrompt, ToolEntries> => {
  const settings = settingsOf(options)
  const { name, read } = settings
  const step = (
    next: TensorDict<HistoryPrompt>,
    { previous, action, signal }: StepContext,
  ): TE.TaskEither<EnvFailure, readonly [TensorDict<ToolEntries>, null]> => {
    // Casts: the entries that this transform added to the previous state, and requires of the
    // action.
    const rows = rowsOf(previous as TensorDict<ToolEntries>, next)
    const replies = get(action as TensorDict<HistoryAction>, 'history', 'response').items
    const malformed = findData<readonly string[]>(action, 'malformedCalls') // of policies that read calls
    const prompts = findData<string>(previous, ['text', 'prompt']) // of `TemplateTransform`
    const over = endedRows(next, 'done')
    const requested = rows.map(
      (row, i) => [row, over[i] === true ? 'over' : read(replies.get(i)!, malformed?.[i], prompts?.[i])] as const,
    )
    return async () => {
      const played = await playAll(requested, settings, signal)
      if (E.isLeft(played)) return E.left(envFailure(name, `the tool '${played.left.tool}' failed`, played.left))
      const entries = entriesOf(
        played.right.map(([row]) => row),
        next.batchShape,
      )
      const ends = scope(() =>
        ended(
          next,
          played.right.map(([, end]) => end),
        ),
      )
      return E.right([merge(entries, ends) as TensorDict<ToolEntries>, null]) // with the outcome
    }
  }
  return transform<null, HistoryPrompt, ToolEntries>({
    name,
    initial: null,
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    adds: {
      history: { prompt: dataSpec<History>('History') },
      toolCalls: dataSpec<number>('number'),
      toolErrors: dataSpec<number>('number'),
      tools: {
        states: dataSpec<ToolStates>('ToolStates'),
        rounds: dataSpec<number>('number'),
        keys: dataSpec<string>('string'),
        finish: dataSpec<string | null>('string | null'),
      },
    },
    reset: (td, _, key) => {
      const own = child(key, name)
      const rows = get(td, 'history', 'prompt').items.map((history, i) => ({
        history,
        calls: 0,
        errors: 0,
        rounds: 0,
        states: {},
        key: child(own, i),
        finish: null,
      }))
      return TE.right([entriesOf(rows.toArray(), td.batchShape), null])
    },
    step,
    ...releaseOf(settings.registry),
  })
}
