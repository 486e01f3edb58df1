/** A `fetch` for protocol libraries, with closable connections and bounded responses. */
import { splitLogin, type WebFetch } from '@tandem-rl/base'
import {
  type Response as Answer,
  Headers,
  Request,
  type RequestInfo,
  type RequestInit,
  fetch as undiciFetch,
} from 'undici'
import { proxiedAgent } from './proxies.js'

export interface WebFetchOptions {
  /** Maximum number of bytes of a response, or of one event in a stream of server-sent events. */
  readonly maxBytes: number
  /** Longest time to open a connection. Default 10,000. */
  readonly connectMs?: number
}

const [LINE_FEED, RETURN] = [10, 13]

/**
 * Counts bytes from the beginning or the last empty line, and aborts a stream that has too many.
 */
const bounded = (maxBytes: number, from: 'beginning' | 'empty line'): TransformStream<Uint8Array, Uint8Array> => {
  let count = 0
  let isLineEmpty = true
  const look = (byte: number): void => {
    count++
    if (byte !== LINE_FEED) isLineEmpty &&= byte === RETURN
    else {
      if (isLineEmpty) count = 0
      isLineEmpty = true
    }
  }
  return new TransformStream({
    transform: (chunk, controller) => {
      if (from === 'empty line') chunk.forEach(look)
      else count += chunk.byteLength
      if (count > maxBytes) controller.error(new RangeError(`the answer has more than ${maxBytes} bytes`))
      else controller.enqueue(chunk)
    },
  })
}

/** Maximum number of redirects of one request. */
const MOST_REDIRECTS = 5

/** Returns the target of a redirect, or `undefined` if the response is not a redirect. */
const redirectOf = (answer: Answer, from: URL): URL | undefined => {
  const place = answer.headers.get('location')
  const isRedirect = answer.status >= 300 && answer.status < 400 && answer.status !== 304
  if (!isRedirect || place === null || !URL.canParse(place, from.href)) return undefined
  return new URL(place, from)
}

/** Sends a request and follows redirects with the same method and origin. Rejects for others. */
const withinOrigin = async (input: RequestInfo, given: RequestInit): Promise<Answer> => {
  const login = splitLogin(new URL(input instanceof Request ? input.url : String(input)))
  let { url } = login
  const { authorization } = login.headers
  const headers = new Headers(given.headers)
  if (authorization !== undefined && !headers.has('authorization')) headers.set('authorization', authorization)
  const init = authorization === undefined ? given : { ...given, headers }
  for (let redirects = 0; ; redirects++) {
    const answer = await undiciFetch(redirects === 0 && authorization === undefined ? input : url, init)
    const next = redirectOf(answer, url)
    if (next === undefined) return answer
    await answer.body?.cancel()
    const isRepeat = answer.status === 307 || answer.status === 308
    if (next.origin !== url.origin || !isRepeat || redirects >= MOST_REDIRECTS) {
      throw new Error(`the server redirected (${answer.status}) to ${next.origin}: use that address instead`)
    }
    url = next
  }
}

/**
 * Makes a `fetch` whose `close` aborts pending requests and closes all connections. It follows
 * redirects only within the same origin, because headers and bodies are meant for that server.
 *
 * Errors   its promises reject as those of `fetch`. A body that is too long fails with RangeError.
 * Effects  connections, until `close`.
 */
export const liveWebFetch = ({ maxBytes, connectMs = 10_000 }: WebFetchOptions): WebFetch => {
  const agent = proxiedAgent(
    {
      // Callers have their own time limits, and an open event stream may be silent indefinitely.
      headersTimeout: 0,
      bodyTimeout: 0,
      // One connection per request: the server may close an idle one just when it is reused.
      pipelining: 0,
    },
    { connectMs },
  )
  let closed: Promise<void> | undefined
  const fetch = async (input: RequestInfo, init?: RequestInit): Promise<Response> => {
    const answer = await withinOrigin(input, { ...init, dispatcher: agent, redirect: 'manual' })
    const isStream = /^text\/event-stream\b/i.test(answer.headers.get('content-type') ?? '')
    // Node's own fetch is undici: its classes differ from the global ones only in name.
    const body = answer.body as ReadableStream<Uint8Array> | null
    return new Response(body?.pipeThrough(bounded(maxBytes, isStream ? 'empty line' : 'beginning')) ?? null, {
      status: answer.status,
      statusText: answer.statusText,
      headers: [...answer.headers],
    })
  }
  return { fetch: fetch as WebFetch['fetch'], close: () => (closed ??= agent.destroy()) } // the same function, by undici's names of its types
}
