/** One connection to an MCP server, from initialization to its end. */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { CallToolResult, Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import { ABORTED, type Cancellation, cancellation, excerpt, unlessAborted, unlessLate } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import {
  type McpFailure,
  type McpLibrary,
  type McpLimits,
  type McpServer,
  type McpWorld,
  mcpFailure,
  mcpSecrets,
} from './mcp.js'
import { CUT_ANSWER, httpWire } from './mcpHttp.js'
import { stdioWire } from './mcpStdio.js'
import type { McpWire } from './mcpWire.js'

/** The outcome of a call. `Lost`: the server died before it answered. */
export type McpOutcome =
  | { readonly _tag: 'Result'; readonly result: CallToolResult }
  | {
      readonly _tag: 'Refused'
      readonly kind: 'arguments' | 'failed' | 'timeout' | 'infrastructure'
      readonly reason: string
    }
  | { readonly _tag: 'Lost'; readonly acted: 'no' | 'perhaps'; readonly reason: string }

export interface McpSession {
  /** The tools at the last listing. */
  readonly tools: readonly McpTool[]
  readonly list: () => Promise<E.Either<McpFailure, readonly McpTool[]>>
  readonly call: (tool: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal) => Promise<McpOutcome>
  /** Returns the reason why the session has ended; undefined while it is open. */
  readonly lost: () => string | undefined
  /** Resolves once its process and connections have ended. */
  readonly close: () => Promise<void>
}

export interface McpSessionOptions {
  readonly name: string
  readonly server: McpServer
  readonly limits: McpLimits
  readonly world: McpWorld
  /** Called when the server notifies that its tools have changed. */
  readonly onToolsChanged: () => void
  /** Called with problems that belong to no call. */
  readonly onNote: (note: string) => void
}

/** Disables the SDK's own time limits; ours are shorter. */
const NEVER_MS = 2 ** 31 - 1

const wireTo = async (lib: McpLibrary, { server, limits, world }: McpSessionOptions): Promise<McpWire> => {
  switch (server.kind) {
    case 'stdio':
      return stdioWire(lib, server, { limits, world })
    case 'http':
      return httpWire(lib, server, { limits, world })
    case 'transport': {
      const transport = await server.open()
      /**
       * Closes the transport. One that does not close in time is abandoned, because its caller owns
       * it.
       */
      const end = async (): Promise<void> => void (await unlessLate(transport.close(), limits.graceMs, world.timers))
      return { transport, why: () => undefined, cut: () => void transport.close(), end }
    }
  }
}

/** Returns the messages of an error and its causes: `fetch failed` alone is not helpful. */
const errorText = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (isMisshapen(error)) return z.prettifyError({ ...error, issues: error.issues as z.core.$ZodIssue[] }) // zod's own issues
  const cause = error.cause instanceof Error ? errorText(error.cause) : ''
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
  const message = error.message === '' ? code : error.message
  return cause === '' || message.includes(cause) ? message : `${message}: ${cause}`
}

const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** Returns true if a failed request cannot have reached the server. */
const isUnsent = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  const codes = error instanceof AggregateError ? error.errors : [error]
  return (
    codes.some((each: unknown) => each instanceof Error && 'code' in each && UNSENT.has(String(each.code))) ||
    isUnsent(error.cause)
  )
}

/** Returns true for a zod error, with which the SDK rejects invalid messages. */
const isMisshapen = (error: unknown): error is Error & { readonly issues: readonly unknown[] } =>
  error instanceof Error && 'issues' in error && Array.isArray(error.issues)

interface Speaking {
  readonly lib: McpLibrary
  readonly client: Client
  readonly wire: McpWire
  readonly options: McpSessionOptions
}

/** Lists all tools of a server, page by page. */
const listAll = async ({ lib, client, options }: Speaking, life: Cancellation): Promise<readonly McpTool[]> => {
  const tools: McpTool[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  do {
    const part = life.part() // the SDK does not remove its listener from the signal
    const page = await client
      .request({ method: 'tools/list', params: cursor === undefined ? {} : { cursor } }, lib.ListToolsResultSchema, {
        signal: part.signal,
        timeout: NEVER_MS,
      })
      .finally(part.release)
    tools.push(...page.tools)
    cursor = page.nextCursor
    if (tools.length > options.limits.maxTools) throw new Error(`it lists more than ${options.limits.maxTools} tools`)
    if (cursor !== undefined && seen.has(cursor)) throw new Error('its list of tools has a cycle')
    if (cursor !== undefined) seen.add(cursor)
  } while (cursor !== undefined)
  const names = tools.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new Error(`it lists the tool ${JSON.stringify(twice)} twice`)
  return tools
}

const refused = (kind: (McpOutcome & { _tag: 'Refused' })['kind'], reason: string): McpOutcome => ({
  _tag: 'Refused',
  kind,
  reason,
})

/** Converts the error of a call to an outcome. */
const outcomeOf = ({ lib, wire }: Speaking, error: unknown, over: string | undefined): McpOutcome => {
  const { McpError, ErrorCode, StreamableHTTPError } = lib
  const reason = errorText(error)
  const lost = (acted: 'no' | 'perhaps', why = reason): McpOutcome => ({
    _tag: 'Lost',
    acted,
    reason: wire.why() ?? why,
  })
  if (error instanceof McpError) {
    const { code, message } = error
    if (code === ErrorCode.ConnectionClosed && (over !== undefined || message.includes(CUT_ANSWER)))
      return lost('perhaps')
    return refused(code === ErrorCode.InvalidParams ? 'arguments' : 'failed', message)
  }
  // The server does not know the session any more and expects a new one.
  if (error instanceof StreamableHTTPError && error.code === 404) return lost('no')
  if (error instanceof StreamableHTTPError) return refused('infrastructure', reason)
  if (isUnsent(error)) return lost('no')
  if (isMisshapen(error)) return refused('infrastructure', `its result violates the protocol: ${reason}`)
  return lost('perhaps')
}

/** Connects and lists the tools. Rejects with the first error. */
const introduce = async (speaking: Speaking, life: Cancellation): Promise<readonly McpTool[]> => {
  const { client, wire } = speaking
  await client.connect(wire.transport, { signal: life.part().signal, timeout: NEVER_MS })
  return client.getServerCapabilities()?.tools === undefined ? [] : listAll(speaking, life)
}

/** Returns true if another attempt to connect may succeed. */
const mayPass = ({ McpError, ErrorCode, StreamableHTTPError }: McpLibrary, error: unknown): boolean => {
  if (error instanceof McpError) return error.code === ErrorCode.ConnectionClosed
  if (error instanceof StreamableHTTPError) return [404, 408, 429].includes(error.code ?? 0) || (error.code ?? 0) >= 500
  return error instanceof TypeError && error.cause !== undefined // the form of a failed fetch
}

const sessionOf = (speaking: Speaking, tools: readonly McpTool[], door: { lost: string | undefined }): McpSession => {
  const { lib, client, wire, options } = speaking
  const { name, limits, server } = options
  const secrets = mcpSecrets(server)
  const deliver = (reason: string): void => {
    door.lost ??= reason
    wire.cut()
  }
  let isProbed = false
  /** Pings the server after a call without a response, to find out if it is alive. */
  const probe = async (): Promise<void> => {
    if (isProbed || door.lost !== undefined) return
    isProbed = true
    await client
      .ping({ timeout: limits.pingMs })
      .catch(() => deliver('it did not answer a ping after a call that timed out'))
    isProbed = false
  }
  return {
    tools,
    lost: () => door.lost,
    close: async () => {
      door.lost ??= 'the connection was closed'
      await wire.end()
    },
    list: async () => {
      const life = cancellation({ deadlineMs: limits.connectMs })
      try {
        return E.right(await listAll(speaking, life))
      } catch (error) {
        return E.left(
          mcpFailure(name, 'protocol', excerpt(`its tools cannot be listed: ${errorText(error)}`, 2000, secrets)),
        )
      } finally {
        life.release()
      }
    },
    call: async (tool, args, signal) => {
      const life = cancellation({ signal, deadlineMs: limits.callMs })
      const request = { method: 'tools/call' as const, params: { name: tool, arguments: { ...args } } }
      try {
        const limit = { signal: life.signal, timeout: NEVER_MS }
        return { _tag: 'Result', result: await client.request(request, lib.CallToolResultSchema, limit) }
      } catch (error) {
        const why = life.why()
        if (why === null) return outcomeOf(speaking, error, door.lost)
        void probe()
        return refused(
          'timeout',
          why === 'deadline' ? `no answer within ${limits.callMs} ms` : 'the call was cancelled',
        )
      } finally {
        life.release()
      }
    },
  }
}

/**
 * Connects to a server, initializes the session and lists the tools, within `connectMs`.
 *
 * Errors   `Left(McpFailure)`; everything that was opened is closed.
 * Effects  a process or connections, until `close`.
 */
export const openSession = async (
  lib: McpLibrary,
  options: McpSessionOptions,
): Promise<E.Either<McpFailure, McpSession>> => {
  const { name, server, limits } = options
  const shown = (text: string): string => excerpt(text, 2000, mcpSecrets(server))
  const life = cancellation({ deadlineMs: limits.connectMs })
  const door: { lost: string | undefined } = { lost: undefined }
  let wire: McpWire | undefined
  try {
    const opening = wireTo(lib, options)
    const opened = await unlessAborted(opening, life.signal)
    if (opened === ABORTED) {
      void opening.then((late) => late.end()).catch(() => {}) // it is no longer needed
      return E.left(mcpFailure(name, 'unreachable', `it could not be reached within ${limits.connectMs} ms`))
    }
    wire = opened
    const client = new lib.Client({ name: 'tandem-rl', version: '1' })
    const speaking: Speaking = { lib, client, wire, options }
    client.onclose = () => {
      door.lost ??= wire?.why() ?? 'it closed the connection'
    }
    client.onerror = (error) => options.onNote(shown(errorText(error)))
    client.setNotificationHandler(lib.ToolListChangedNotificationSchema, options.onToolsChanged)
    const tools = await unlessAborted(introduce(speaking, life), life.signal)
    if (tools !== ABORTED) return E.right(sessionOf(speaking, tools, door))
    await wire.end()
    return E.left(mcpFailure(name, 'unreachable', `it was not initialized within ${limits.connectMs} ms`))
  } catch (error) {
    const why = life.why() === null ? wire?.why() : `it was not initialized within ${limits.connectMs} ms`
    const kind = why !== undefined || mayPass(lib, error) ? 'unreachable' : 'protocol'
    await wire?.end()
    return E.left(mcpFailure(name, kind, shown(why ?? errorText(error))))
  } finally {
    life.release()
  }
}
