/**
 * Runs the calls of one message, in sequence or in parallel. Each call has a time limit, and every
 * error becomes an observation.
 */

import {
  ABORTED,
  cancellation,
  child,
  errorMessage,
  type Key,
  type Limiter,
  type Timers,
  unlessAborted,
} from '@tandem-rl/base'
import { warnThrown } from '@tandem-rl/base/host'
import type { ContentPart, ToolCall } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Episode, ToolFailure } from 'tandem-rl/envs'
import { clipped } from './clipped.js'
import { type Tool, type ToolReply, toolFailure } from './tool.js'
import { type ToolRegistry, unknownTool } from './toolRegistry.js'

/**
 * The state of each tool in a conversation, by name: JSON values. Tools that have not been called
 * have no entry.
 */
export type ToolStates = Readonly<Record<string, unknown>>

/**
 * The outcome of a call: a reply (`ok`), a reply that ends the episode (`finish`), an error that
 * the policy reads, an unknown tool, or a call that was not run (`skipped`).
 */
export type CallOutcome = 'ok' | 'finish' | Exclude<ToolFailure['kind'], 'infrastructure'> | 'unknown' | 'skipped'

/** The result of a call. */
export interface Observation {
  readonly call: ToolCall
  readonly outcome: CallOutcome
  /** For the policy: the reply or the error. */
  readonly content: string | readonly ContentPart[]
}

/** A reply that arrived after its call had timed out or been cancelled. */
export interface LateCall {
  readonly tool: string
  readonly call: ToolCall
  readonly outcome: 'ok' | ToolFailure['kind']
}

/** The start or the end of a call. */
export type CallNotice =
  | { readonly type: 'start'; readonly call: ToolCall }
  | { readonly type: 'end'; readonly call: ToolCall; readonly outcome: CallOutcome }

export interface RunCallsOptions {
  /**
   * `sequence`: one after another. `parallel`: all at once, except that calls of a tool with state
   * run one after another, because each starts from the state that the previous one left.
   */
  readonly order: 'sequence' | 'parallel'
  /** In a sequence: run or skip the calls after one that failed. */
  readonly onError: 'continue' | 'stop'
  /** Time limit of a call in milliseconds, from its start. */
  readonly timeoutMs: number
  readonly timers: Timers
  /** Limits concurrent calls, over all messages that share it. */
  readonly limiter: Limiter
  /**
   * Called when a call starts and when it ends, for observers. Calls that are skipped have no
   * event.
   */
  readonly onCall?: (event: CallNotice) => void
  /** Called with each reply that arrived too late and was dropped. */
  readonly onLate: (late: LateCall) => void
}

/** The calls of one message, and the states they start from. */
export interface CallsToRun {
  readonly calls: readonly ToolCall[]
  readonly states: ToolStates
  readonly key: Key
  /** The conversation. Default: none. */
  readonly episode?: Episode | undefined
  /** Aborts when the result is no longer needed. */
  readonly signal: AbortSignal
}

export interface RanCalls {
  /** One for each call, in the order of the calls. */
  readonly observations: readonly Observation[]
  readonly states: ToolStates
}

type Ended = E.Either<ToolFailure, ToolReply>

/** Maximum length of an error message for the policy, which may quote its own text. */
const REASON_LENGTH = 2000

/** Start of the result of a call that failed. */
const TOOL_ERROR = 'error: '

const failedWith = (call: ToolCall, outcome: Exclude<CallOutcome, 'ok' | 'finish'>, reason: string): Observation => ({
  call,
  outcome,
  content: `${TOOL_ERROR}${clipped(reason, REASON_LENGTH)}`,
})

const attempt = async (tool: Tool, call: ToolCall, context: Parameters<Tool['call']>[1]): Promise<Ended> => {
  try {
    return await tool.call(call.arguments, context)()
  } catch (error) {
    warnThrown(`the tool ${tool.name}`, error)
    return E.left(toolFailure(tool.name, 'failed', errorMessage(error)))
  }
}

const calledOff = (tool: string): Ended => E.left(toolFailure(tool, 'infrastructure', 'the call was cancelled'))

/**
 * Runs one call with its time limit. A tool that does not stop when its signal aborts is abandoned.
 */
const runOne = async (
  tool: Tool,
  call: ToolCall,
  { signal, ...context }: Parameters<Tool['call']>[1],
  options: RunCallsOptions,
): Promise<Ended> => {
  const { timeoutMs, timers, limiter, onLate } = options
  const own = cancellation({ signal })
  const running = limiter.run(async () => {
    let rung = false
    const cancel = timers.after(timeoutMs, () => {
      rung = true
      own.stop()
    })
    const work = attempt(tool, call, { ...context, signal: own.signal })
    try {
      const ended = await unlessAborted(work, own.signal)
      if (ended !== ABORTED) return ended
      work.then((late) => onLate({ tool: tool.name, call, outcome: E.isRight(late) ? 'ok' : late.left.kind }))
      return rung ? E.left(toolFailure(tool.name, 'timeout', `no answer within ${timeoutMs} ms`)) : calledOff(tool.name)
    } finally {
      cancel()
    }
  }, own.signal)
  try {
    const ended = await running
    return ended === ABORTED ? calledOff(tool.name) : ended
  } finally {
    own.release()
  }
}

/**
 * Positions of calls that run one after another, each from the state that the previous one left.
 */
type Line = readonly number[]

/**
 * Divides the calls into lines. In parallel, the calls of a tool with state form one line, and
 * every other call has its own.
 */
const linesOf = (
  registry: ToolRegistry,
  { calls, states }: CallsToRun,
  order: RunCallsOptions['order'],
): readonly Line[] => {
  if (order === 'sequence') return [[...calls.keys()]]
  const lines = new Map<string | number, number[]>()
  for (const [i, { name }] of calls.entries()) {
    const state = Object.hasOwn(states, name) ? states[name] : registry.tools.get(name)?.initial
    const line = state === null || state === undefined ? i : name
    lines.set(line, [...(lines.get(line) ?? []), i])
  }
  return [...lines.values()]
}

/** Returns why the rest of a line is skipped after a call; undefined to continue. */
const stopAfter = ({ outcome }: Observation, { order, onError }: RunCallsOptions): string | undefined => {
  if (outcome === 'finish') return 'ended the episode'
  return outcome !== 'ok' && order === 'sequence' && onError === 'stop' ? 'did not succeed' : undefined
}

/**
 * Runs the calls of a message. Call `i` draws from `child(key, i)`, so that equal arguments give
 * equal observations if the tools are pure.
 *
 * Errors   `Left(ToolFailure)` of kind `infrastructure` if something a tool needs is missing or has
 *          died, or if the signal aborts. The other calls are then cancelled. Every other error is
 *          an observation.
 * Effects  those of the tools; a timer for each running call.
 * Source   TorchRL `ExecuteToolsInOrder`, whose state is an empty placeholder, and
 *          `SimpleToolTransform`, whose time limit is not applied.
 */
export const runCalls =
  (registry: ToolRegistry, given: CallsToRun, options: RunCallsOptions): TaskEither<ToolFailure, RanCalls> =>
  async () => {
    const { calls, key, episode } = given
    const all = cancellation({ signal: given.signal })
    const observations = new Map<number, Observation>()
    let failure: ToolFailure | undefined

    /** Runs a call. Returns its observation and the new state of its tool. */
    const run = async (i: number, states: ToolStates): Promise<readonly [Observation, ToolStates]> => {
      const call = calls[i]!
      const tool = registry.tools.get(call.name)
      if (tool === undefined) return [failedWith(call, 'unknown', unknownTool(registry, call.name)), states]
      const part = all.part()
      const state = Object.hasOwn(states, tool.name) ? states[tool.name] : tool.initial
      const ended = await runOne(tool, call, { state, key: child(key, i), episode, signal: part.signal }, options)
      part.release()
      if (E.isRight(ended)) {
        const { content, status, state: after } = ended.right
        return [
          { call, outcome: status === 'finish' ? 'finish' : 'ok', content },
          { ...states, [tool.name]: after },
        ]
      }
      const { kind, reason } = ended.left
      if (kind !== 'infrastructure') return [failedWith(call, kind, reason), states]
      failure ??= ended.left // the first failure; later ones were cancelled because of it
      all.stop()
      return [failedWith(call, 'skipped', reason), states]
    }

    /** Runs a line to its end. Returns the states that its calls changed. */
    const runLine = async (line: Line): Promise<ToolStates> => {
      let states = given.states
      let stop: string | undefined
      for (const i of line) {
        if (failure !== undefined) break
        if (stop !== undefined) {
          observations.set(i, failedWith(calls[i]!, 'skipped', `not run, because an earlier call ${stop}`))
          continue
        }
        options.onCall?.({ type: 'start', call: calls[i]! })
        const [observation, after] = await run(i, states)
        options.onCall?.({ type: 'end', call: calls[i]!, outcome: observation.outcome })
        observations.set(i, observation)
        states = after
        stop = stopAfter(observation, options)
      }
      return Object.fromEntries(Object.entries(states).filter(([name, state]) => state !== given.states[name]))
    }

    try {
      const changed = await Promise.all(linesOf(registry, given, options.order).map(runLine))
      if (failure !== undefined) return E.left(failure)
      return E.right({
        observations: calls.map((_, i) => observations.get(i)!), // every line was run to its end
        states: Object.fromEntries([given.states, ...changed].flatMap(Object.entries)),
      })
    } finally {
      all.release()
    }
  }
