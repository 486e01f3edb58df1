/**
 * Running the calls of one message: in order or at once, each within its time, with whatever goes
 * wrong told as an observation.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, cancellation, unlessAborted } from '../../core/cancellation.js'
import type { Timers } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import { child, type Key } from '../../core/key.js'
import type { Limiter } from '../../core/limiter.js'
import type { ContentPart, ToolCall } from '../../text/history/history.js'
import type { Episode } from '../base/episode.js'
import type { ToolFailure } from '../base/toolFailure.js'
import { clipped } from './clipped.js'
import { type Tool, type ToolReply, toolFailure } from './tool.js'
import { type ToolRegistry, unknownTool } from './toolRegistry.js'

/**
 * What each tool remembers of a conversation, by name; one that was not called yet is not in it.
 * JSON values.
 */
export type ToolStates = Readonly<Record<string, unknown>>

/**
 * How a call ended: with a reply (`ok`), with a reply that ends the episode (`finish`), with a
 * failure that the policy reads, with an unknown tool, or not run at all.
 */
export type CallOutcome = 'ok' | 'finish' | Exclude<ToolFailure['kind'], 'infrastructure'> | 'unknown' | 'skipped'

/** What a call came to. */
export interface Observation {
  readonly call: ToolCall
  readonly outcome: CallOutcome
  /** For the policy: the reply, or what went wrong. */
  readonly content: string | readonly ContentPart[]
}

/** A tool that answered when nobody waited any more. */
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
   * `sequence`: one after the other. `parallel`: at once; calls of one tool that remembers
   * something run one after the other all the same, for each begins where the one before ended.
   */
  readonly order: 'sequence' | 'parallel'
  /** In a sequence, what becomes of the calls after one that did not end with a reply. */
  readonly onError: 'continue' | 'stop'
  /** Milliseconds that a call has from when it begins to run. */
  readonly timeoutMs: number
  readonly timers: Timers
  /** How many calls run at a time, of this message and of all others that share it. */
  readonly limiter: Limiter
  /**
   * Called when a call starts and when it ends, for observers. Calls that are skipped have no
   * event.
   */
  readonly onCall?: (event: CallNotice) => void
  /** Told of each reply that came after its time, and was dropped. */
  readonly onLate: (late: LateCall) => void
}

/** The calls of one message, and what they begin with. */
export interface CallsToRun {
  readonly calls: readonly ToolCall[]
  readonly states: ToolStates
  readonly key: Key
  /** The conversation. Default: none. */
  readonly episode?: Episode | undefined
  /** When it aborts nobody waits any more. */
  readonly signal: AbortSignal
}

export interface RanCalls {
  /** One for each call, in their order, whatever was over first. */
  readonly observations: readonly Observation[]
  readonly states: ToolStates
}

type Ended = E.Either<ToolFailure, ToolReply>

/** What a policy is told of a failure is bounded: reasons quote what it wrote. */
const REASON_LENGTH = 2000

const failedWith = (call: ToolCall, outcome: Exclude<CallOutcome, 'ok' | 'finish'>, reason: string): Observation => ({
  call,
  outcome,
  content: `error: ${clipped(reason, REASON_LENGTH)}`,
})

const attempt = async (tool: Tool, call: ToolCall, context: Parameters<Tool['call']>[1]): Promise<Ended> => {
  try {
    return await tool.call(call.arguments, context)()
  } catch (error) {
    return E.left(toolFailure(tool.name, 'failed', errorMessage(error)))
  }
}

const calledOff = (tool: string): Ended => E.left(toolFailure(tool, 'infrastructure', 'the call was called off'))

/**
 * Runs one call within its time. A tool that does not end when its signal aborts is left to itself.
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
 * Calls that run one after the other, each beginning with what the one before left: their places
 * among all calls.
 */
type Line = readonly number[]

/**
 * In parallel, the calls of a tool that remembers something are a line, and every other call is one
 * of its own.
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

/** Why the rest of a line is skipped after a call; undefined if it goes on. */
const stopAfter = ({ outcome }: Observation, { order, onError }: RunCallsOptions): string | undefined => {
  if (outcome === 'finish') return 'ended the episode'
  return outcome !== 'ok' && order === 'sequence' && onError === 'stop' ? 'did not succeed' : undefined
}

/**
 * Runs the calls of a message. Call `i` draws from `child(key, i)`, so that equal arguments give
 * equal observations, for tools that are pure.
 *
 * Errors   `Left(ToolFailure)` of kind `infrastructure`: what a tool needs is missing or dead, or
 *          the signal aborted. The other calls are called off then. Everything else is an
 *          observation.
 * Effects  those of the tools; an alarm for each call that runs.
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

    /** The observation of a call, and what its tool remembers now. */
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
      failure ??= ended.left // what comes after it was called off because of it
      all.stop()
      return [failedWith(call, 'skipped', reason), states]
    }

    /** Plays a line to its end; gives the states that its calls changed. */
    const runLine = async (line: Line): Promise<ToolStates> => {
      let states = given.states
      let stop: string | undefined
      for (const i of line) {
        if (failure !== undefined) break
        if (stop !== undefined) {
          observations.set(i, failedWith(calls[i]!, 'skipped', `not run, because a call before it ${stop}`))
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
        observations: calls.map((_, i) => observations.get(i)!), // every line was played to its end
        states: Object.fromEntries([given.states, ...changed].flatMap(Object.entries)),
      })
    } finally {
      all.release()
    }
  }
