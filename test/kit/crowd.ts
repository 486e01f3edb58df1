/** Many clients at once, of which some drop: for a server over any engine. */
import type { HttpServer } from '@tandem-rl/host'
import type { ServeApp } from '@tandem-rl/serve'
import type { LLMEngine } from '@tandem-rl/text'
import { expect } from 'vitest'
import { until } from './served.js'

/** Asks for a stream of a completion. */
export const stream = (url: string, body: object, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'a', stream: true, ...body }),
    ...(signal && { signal }),
  })

/** The responses of one client: all, or none after a dropped connection. */
type Seen = { readonly client: number; readonly text: string } | { readonly client: number; readonly text: null }

const client = async (url: string, client: number, patience: 'drops' | 'stays'): Promise<Seen> => {
  const control = new AbortController()
  const response = await stream(url, { seed: client, max_tokens: 6 }, control.signal)
  if (patience === 'stays') return { client, text: await response.text() }
  await response.body!.getReader().read()
  control.abort()
  return { client, text: null }
}

/** An engine, a server over it, and how it is put on a socket. */
interface Crowd {
  readonly engine: LLMEngine
  readonly app: ServeApp
  readonly listen: (app: ServeApp) => Promise<HttpServer>
}

/**
 * 256 clients at once, of which every tenth drops: the others get everything, and every slot comes
 * back.
 */
export const checkCrowd = async ({ engine, app, listen }: Crowd): Promise<void> => {
  const { url } = await listen(app)
  const alone = await client(url, 1, 'stays')
  const crowd = await Promise.all(
    Array.from({ length: 256 }, (_, i) => client(url, i, i % 10 === 0 ? 'drops' : 'stays')),
  )
  for (const { text } of crowd)
    if (text !== null) expect(text).toMatch(/"finish_reason":"(stop|length)"[\s\S]*\[DONE\]\n\n$/)
  const texts = (seen: Seen): readonly string[] =>
    Array.from(seen.text!.matchAll(/"text":"([^"]*)"/g), ([, text]) => text!)
  expect(texts(crowd[1]!)).toEqual(texts(alone))
  await until(() => app.inFlight() === 0)
  const { running, waiting } = await engine.metrics()
  expect([running, waiting]).toEqual([0, 0])
  expect((await client(url, 1, 'stays')).text).toMatch(/\[DONE\]/)
}
