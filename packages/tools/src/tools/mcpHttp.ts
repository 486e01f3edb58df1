/**
 * An MCP server at a URL, over the SDK's Streamable HTTP.
 *
 * The SDK waits forever if a server ends a response without a result, and its connections cannot be
 * aborted. It is therefore given its own `fetch`, which ends such a response with an error message
 * and aborts its connections with the wire.
 */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { parseJson } from '@tandem-rl/base'
import { isRight } from 'fp-ts/lib/Either.js'
import type { McpAddress, McpLibrary, McpLimits, McpWorld } from './mcp.js'
import type { McpWire } from './mcpWire.js'

/** The error message of a response that ended without a result. */
export const CUT_ANSWER = 'the response ended without a result'

/** Number of times the SDK tries to resume a broken stream. */
const RESUMPTIONS = 2

/** Returns the id of the request in a body; undefined if the body is not a request. */
const requestId = (body: unknown): string | number | undefined => {
  const parsed = typeof body === 'string' ? parseJson(body) : undefined
  if (parsed === undefined || !isRight(parsed)) return undefined
  const message = parsed.right
  if (typeof message !== 'object' || message === null || !('method' in message) || !('id' in message)) return undefined
  return typeof message.id === 'string' || typeof message.id === 'number' ? message.id : undefined
}

/**
 * Appends an error for the request to an event stream. If the stream contained the result, the
 * error arrives too late and has no effect. A stream whose events have ids can be resumed and is
 * left to the SDK.
 */
const endingWithError = (
  body: ReadableStream<Uint8Array>,
  id: string | number,
  over: () => void,
): ReadableStream<Uint8Array> => {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let tail = '\n'
  let hasIds = false
  const look = (bytes: Uint8Array): void => {
    const text = tail + decoder.decode(bytes, { stream: true })
    hasIds ||= /[\r\n]id:/.test(text)
    tail = text.slice(-4)
  }
  const error = { jsonrpc: '2.0', id, error: { code: -32_000, message: CUT_ANSWER } }
  return new ReadableStream({
    pull: async (controller) => {
      try {
        const { done, value } = await reader.read()
        if (value !== undefined) {
          look(value)
          controller.enqueue(value)
        }
        if (!done) return
      } catch (broken) {
        if (hasIds) {
          over()
          controller.error(broken)
          return
        }
      }
      over()
      if (!hasIds) controller.enqueue(new TextEncoder().encode(`\n\ndata: ${JSON.stringify(error)}\n\n`))
      controller.close()
    },
    cancel: (reason) => {
      over()
      return reader.cancel(reason)
    },
  })
}

/** Requests in flight, and functions that abort them. */
type Underway = Map<string | number, () => void>

/** Wraps `fetch` so that each request can be aborted by its id, and always gets a response. */
const patient =
  (fetch: typeof globalThis.fetch, underway: Underway): typeof globalThis.fetch =>
  async (input, init) => {
    const id = requestId(init?.body)
    if (id === undefined) return fetch(input, init)
    // The SDK passes one signal to all requests, which would get a listener for each. The wire
    // aborts them itself instead.
    const own = new AbortController()
    const over = (): void => void underway.delete(id)
    underway.set(id, () => own.abort())
    try {
      const answer = await fetch(input, { ...init, signal: own.signal })
      const isStream = /^text\/event-stream\b/i.test(answer.headers.get('content-type') ?? '')
      if (answer.body === null || !isStream) {
        // The SDK also reads it at once, as a whole.
        const text = await answer.text()
        over()
        return new Response(text === '' ? null : text, answer)
      }
      return new Response(endingWithError(answer.body, id, over), answer)
    } catch (error) {
      over()
      throw error
    }
  }

/** Returns true for a message made by `endingWithError`. */
const isCut = (message: JSONRPCMessage): boolean => 'error' in message && message.error.message === CUT_ANSWER

/** Returns the id of the request that a message cancels. */
const calledOff = (message: JSONRPCMessage): string | number | undefined => {
  const params: unknown = 'method' in message && message.method === 'notifications/cancelled' ? message.params : {}
  const id: unknown = typeof params === 'object' && params !== null && 'requestId' in params ? params.requestId : null
  return typeof id === 'string' || typeof id === 'number' ? id : undefined
}

/**
 * Opens a wire to a server at a URL.
 *
 * Effects  connections, until `end`, which also ends the session on the server.
 */
export const httpWire = (
  { StreamableHTTPClientTransport }: Pick<McpLibrary, 'StreamableHTTPClientTransport'>,
  { url, headers = {} }: McpAddress,
  { limits, world }: { readonly limits: McpLimits; readonly world: McpWorld },
): McpWire => {
  const web = world.openWeb({ maxBytes: limits.maxBytes, connectMs: limits.connectMs })
  const underway: Underway = new Map()
  const inner = new StreamableHTTPClientTransport(new URL(url), {
    fetch: patient(web.fetch, underway),
    requestInit: { headers },
    reconnectionOptions: {
      initialReconnectionDelay: limits.pauseMs,
      maxReconnectionDelay: 32 * limits.pauseMs,
      reconnectionDelayGrowFactor: 2,
      maxRetries: RESUMPTIONS,
    },
  })
  /** Requests without a response. */
  const waiting = new Set<string | number>()
  let why: string | undefined
  const end = async (): Promise<void> => {
    const patience = world.timers.after(limits.graceMs, () => void web.close())
    // A server that is gone, or that has no sessions, has nothing to end.
    await inner.terminateSession().catch(() => {})
    patience()
    await inner.close()
    await web.close()
  }
  const transport: Transport = {
    start: async () => {
      inner.onclose = () => {
        for (const cut of underway.values()) cut()
        transport.onclose?.()
      }
      inner.onerror = (error) => {
        transport.onerror?.(error)
        if (!error.message.startsWith('Maximum reconnection attempts')) return
        why ??= 'a stream broke and could not be resumed'
        void inner.close()
      }
      inner.onmessage = (message) => {
        const answered = 'method' in message ? undefined : message.id
        const isWaitedFor = answered !== undefined && waiting.delete(answered)
        if (isCut(message) && !isWaitedFor) return
        transport.onmessage?.(message)
      }
      await inner.start()
    },
    send: async (message) => {
      if ('method' in message && 'id' in message) waiting.add(message.id)
      await inner.send(message)
      const off = calledOff(message)
      if (off === undefined) return
      waiting.delete(off)
      underway.get(off)?.()
    },
    close: end,
    setProtocolVersion: (version) => inner.setProtocolVersion(version),
  }
  const cut = (): void => {
    void inner.close()
    void web.close()
  }
  return { transport, why: () => why, cut, end }
}
