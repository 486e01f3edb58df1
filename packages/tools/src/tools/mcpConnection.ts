/** Keeps a server connected: reconnects with growing pauses, a limited number of times. */
import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import { ABORTED, child, pauseFor, uniform, unlessAborted } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type McpFailure, type McpLibrary, mcpFailure } from './mcp.js'
import { type McpOutcome, type McpSession, type McpSessionOptions, openSession } from './mcpSession.js'

interface McpCall {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  /**
   * `safe`: the server may receive the call twice, because the tool is declared read-only or
   * idempotent.
   */
  readonly repeat: 'safe' | 'never'
  readonly signal: AbortSignal
}

export interface McpConnection {
  readonly tools: () => readonly McpTool[]
  readonly call: (call: McpCall) => Promise<McpOutcome>
  /** Returns the number of connections started so far. */
  readonly connects: () => number
  readonly close: () => Promise<void>
}

export interface McpConnectionOptions extends Omit<McpSessionOptions, 'onToolsChanged'> {
  readonly onTools: (tools: readonly McpTool[]) => void
}

const MINUTE_MS = 60_000

/** The mutable state of a connection. */
interface Held {
  session: McpSession | undefined
  opening: Promise<E.Either<McpFailure, McpSession>> | undefined
  tools: readonly McpTool[]
  /** Start times of the connections within the last minute. */
  begun: readonly number[]
  connects: number
  listing: 'no' | 'underway' | 'again'
}

/** Stores the tools of the server, and calls `onTools` if they have changed. */
const adopt = (held: Held, tools: readonly McpTool[], options: McpConnectionOptions): void => {
  const isNew = JSON.stringify(held.tools) !== JSON.stringify(tools)
  held.tools = tools
  if (isNew) options.onTools(tools)
}

/** Lists the tools again, and once more if they change in the meantime. */
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

/** Makes one attempt to connect, unless the limit for a minute is reached. */
const connectOnce = async (
  lib: McpLibrary,
  held: Held,
  options: McpConnectionOptions,
): Promise<E.Either<McpFailure, McpSession>> => {
  const { name, limits, world } = options
  const now = world.clock.now()
  held.begun = held.begun.filter((at) => now - at < MINUTE_MS)
  if (held.begun.length >= limits.connectsPerMinute) {
    const reason = `it was connected ${held.begun.length} times within a minute; no further attempt is made for now`
    return E.left(mcpFailure(name, 'unreachable', reason))
  }
  held.begun = [...held.begun, now]
  held.connects++
  return openSession(lib, { ...options, onToolsChanged: () => void relist(held, options) })
}

/** Tries to connect until it succeeds, time or attempts run out, or the connection is closed. */
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
      return E.left(mcpFailure(name, 'closed', 'the connection was closed'))
    }
    if (E.isRight(opened)) {
      held.session = opened.right
      adopt(held, opened.right.tools, options)
      return opened
    }
    const leftMs = begun + limits.connectMs - world.clock.now()
    if (opened.left.kind !== 'unreachable' || attempt >= limits.attempts || leftMs < limits.pauseMs) return opened
    await pauseFor(uniform(key, attempt) * limits.pauseMs * 2 ** (attempt - 1), world.timers, over)
  }
}

/**
 * Connects to a server.
 *
 * A call that finds the server dead waits for the new connection. A call that was under way when
 * the server died is repeated if the server cannot have received it, or if it is safe to repeat.
 * All waiting calls share one attempt.
 *
 * Errors   `Left(McpFailure)` if the first connection fails.
 * Effects  a process or connections, until `close`.
 */
export const connectTo = async (
  lib: McpLibrary,
  options: McpConnectionOptions,
): Promise<E.Either<McpFailure, McpConnection>> => {
  const held: Held = { session: undefined, opening: undefined, tools: [], begun: [], connects: 0, listing: 'no' }
  const over = new AbortController()
  const session = async (): Promise<E.Either<McpFailure, McpSession>> => {
    if (over.signal.aborted) return E.left(mcpFailure(options.name, 'closed', 'the connection was closed'))
    const { session: now } = held
    if (now !== undefined && now.lost() === undefined) return E.right(now)
    held.opening ??= (async () => {
      held.session = undefined
      await now?.close() // ends the rest of the lost session
      return connect(lib, held, options, over.signal)
    })().finally(() => {
      held.opening = undefined
    })
    return held.opening
  }
  const call: McpConnection['call'] = async ({ tool, args, repeat, signal }) => {
    for (let attempt = 1; ; attempt++) {
      const opened = await unlessAborted(session(), signal)
      if (opened === ABORTED) return { _tag: 'Refused', kind: 'timeout', reason: 'the call was cancelled' }
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
