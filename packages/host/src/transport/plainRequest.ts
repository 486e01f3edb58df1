/** HTTP requests without the headers of browsers, which `fetch` adds and some servers refuse. */
import { request } from 'undici'
import { proxiedAgent } from './proxies.js'

/** Sends a request and reads its whole response. Redirects are not followed. */
export const plainRequest = async (
  url: string,
  {
    method,
    headers,
    body,
    signal,
  }: {
    readonly method: 'GET' | 'POST'
    readonly headers: Readonly<Record<string, string>>
    readonly body?: string
    readonly signal: AbortSignal
  },
): Promise<{ readonly status: number; readonly text: string }> => {
  const dispatcher = proxiedAgent({}, { connectMs: 10_000 })
  try {
    const response = await request(url, { method, headers, signal, dispatcher, ...(body !== undefined && { body }) })
    return { status: response.statusCode, text: await response.body.text() }
  } finally {
    await dispatcher.destroy()
  }
}
