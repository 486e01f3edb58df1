/** A server that is connected to again when it dies: with pauses that grow, and not for ever. */
import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import * as E from 'fp-ts/lib/Either.js'
import { ABORTED, unlessAborted } from '../../core/cancellation.js'
import { child, uniform } from '../../core/key.js'
import { type McpFailure, type McpLibrary, mcpFailure } from './mcp.js'
import { type McpOutcome, type McpSession, type McpSessionOptions, openSession } from './mcpSession.js'

interface McpCall {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  /**
   * Whether the server may be asked twice: the tool says that it changes nothing, or nothing more
   * the second time.
   */
  readonly repeat: 'safe' | 'never'
  readonly signal: AbortSignal
}

export interface McpConnection {
  readonly tools: () => readonly McpTool[]
  readonly call: (call: McpCall) => Promise<McpOutcome>
  /** Connections that were begun. */
  readonly connects: () => number
  readonly close: () => Promise<void>
}

export interface McpConnectionOptions extends Omit<McpSessionOptions, 'onToolsChanged'> {
  readonly onTools: (tools: readonly McpTool[]) => void
}

const MINUTE_MS = 60_000

/** What a connection holds and changes. */
interface Held {
  session: McpSession | undefined
  opening: Promise<E.Either<McpFailure, McpSession>> | undefined
  tools: readonly McpTool[]
  /** When connections were begun, of the last minute. */
  begun: readonly number[]
  connects: number
  listing: 'no' | 'underway' | 'again'
}

/** Waits; a connection that is closed meanwhile waits no longer. */
const pause = (ms: number, { world }: McpConnectionOptions, over: AbortSignal): Promise<unknown> => {
  let cancel = (): void => {}
  const rung = new Promise<void>((ring) => {
    cancel = world.timers.after(ms, ring)
  })
  return unlessAborted(rung, over).finally(() => cancel())
}

/** Takes note of what the server can do now, and tells what is new. */
const adopt = (held: Held, tools: readonly McpTool[], options: McpConnectionOptions): void => {
  const isNew = JSON.stringify(held.tools) !== JSON.stringify(tools)
  held.tools = tools
  if (isNew) options.onTools(tools)
}

/** Asks for the tools again; what changes meanwhile is asked for once more. */
const relist = async (held: Held, options: McpConnectionOptions): Promise<void> => {
  if (held.listing !== 'no') {
    held.listing = 'again'
    return
  }
  do {
    held.listing = 'underway'
    const listed = await held.session?.list()
    if (listed === undefined) break
    if (E.isLeft(listed)) options.onNote(listed.left.reason)
    else adopt(held, listed.right, options)
  } while ((held.listing as Held['listing']) === 'again') // the compiler does not see that it changes in the pause
  held.listing = 'no'
}

/** One attempt to connect, unless there were too many. */
const connectOnce = async (
  lib: McpLibrary,
  held: Held,
  options: McpConnectionOptions,
): Promise<E.Either<McpFailure, McpSession>> => {
  const { name, limits, world } = options
  const now = world.clock.now()
  held.begun = held.begun.filter((at) => now - at < MINUTE_MS)
  if (held.begun.length >= limits.connectsPerMinute) {
    const reason = `it was connected to ${held.begun.length} times within a minute, and is left alone for a while`
    return E.left(mcpFailure(name, 'unreachable', reason))
  }
  held.begun = [...held.begun, now]
  held.connects++
  return openSession(lib, { ...options, onToolsChanged: () => void relist(held, options) })
}

/** Attempts until one is good, the time or the budget is used up, or the connection is closed. */
const connect = async (
  lib: McpLibrary,
  held: Held,
  options: McpConnectionOptions,
  over: AbortSignal,
): Promise<E.Either<McpFailure, McpSession>> => {
  const { name, limits, world } = options
  const key = child(world.key, held.connects)
  const begun = world.clock.now()
  for (let attempt = 1; ; attempt++) {
    const opened = await connectOnce(lib, held, options)
    if (over.aborted) {
      if (E.isRight(opened)) await opened.right.close()
      return E.left(mcpFailure(name, 'closed', 'it was closed'))
    }
    if (E.isRight(opened)) {
      held.session = opened.right
      adopt(held, opened.right.tools, options)
      return opened
    }
    const leftMs = begun + limits.connectMs - world.clock.now()
    if (opened.left.kind !== 'unreachable' || attempt >= limits.attempts || leftMs < limits.pauseMs) return opened
    await pause(uniform(key, attempt) * limits.pauseMs * 2 ** (attempt - 1), options, over)
  }
}

/**
 * Connects to a server.
 *
 * A call that finds the server dead waits until it is connected to again; one that the server did
 * not live to answer is sent again if it cannot have been acted on or may be repeated. All calls
 * that wait share one attempt.
 *
 * Errors   `Left(McpFailure)` if it cannot be connected to now.
 * Effects  a process or connections, until `close`.
 */
export const connectTo = async (
  lib: McpLibrary,
  options: McpConnectionOptions,
): Promise<E.Either<McpFailure, McpConnection>> => {
  const held: Held = { session: undefined, opening: undefined, tools: [], begun: [], connects: 0, listing: 'no' }
  const over = new AbortController()
  const session = async (): Promise<E.Either<McpFailure, McpSession>> => {
    if (over.signal.aborted) return E.left(mcpFailure(options.name, 'closed', 'it was closed'))
    const { session: now } = held
    if (now !== undefined && now.lost() === undefined) return E.right(now)
    held.opening ??= (async () => {
      held.session = undefined
      await now?.close() // nothing is left of the one that is lost
      return connect(lib, held, options, over.signal)
    })().finally(() => {
      held.opening = undefined
    })
    return held.opening
  }
  const call: McpConnection['call'] = async ({ tool, args, repeat, signal }) => {
    for (let attempt = 1; ; attempt++) {
      const opened = await unlessAborted(session(), signal)
      if (opened === ABORTED) return { _tag: 'Refused', kind: 'timeout', reason: 'the call was given up' }
      if (E.isLeft(opened)) return { _tag: 'Refused', kind: 'infrastructure', reason: opened.left.reason }
      const outcome = await opened.right.call(tool, args, signal)
      if (outcome._tag !== 'Lost') return outcome
      if (outcome.acted === 'no' && held.session === opened.right) {
        held.session = undefined
        await opened.right.close()
      }
      if (attempt > 1 || (repeat === 'never' && outcome.acted === 'perhaps')) return outcome
    }
  }
  const first = await session()
  if (E.isLeft(first)) return first
  return E.right({
    tools: () => held.tools,
    call,
    connects: () => held.connects,
    close: async () => {
      over.abort()
      await held.opening
      await held.session?.close()
    },
  })
}
