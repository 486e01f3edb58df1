/** Chromium of this computer, and pages to look at. */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const found = spawnSync('which', ['chromium'], { encoding: 'utf8' }).stdout.trim()

/** Why there can be no browser here; undefined if there can be one. */
export const noChromium: string | undefined = found === '' ? 'chromium is not installed' : undefined

export const chromiumPath = found

export interface Site {
  readonly origin: string
  /** Paths that were asked for, with their method. */
  readonly asked: readonly string[]
  readonly close: () => Promise<void>
}

/** The response of a path: a page, or headers of its own. */
export type Pages = Readonly<
  Record<
    string,
    string | { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body?: string }
  >
>

/** A server of pages. A path without a page never answers. */
export const openSite = async (pages: Pages): Promise<Site> => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(
      `${request.method} ${request.url}${request.headers.cookie === undefined ? '' : ` ${request.headers.cookie}`}`,
    )
    const page = pages[(request.url ?? '').split('?')[0] ?? '']
    if (page === undefined) return
    if (typeof page === 'string') response.writeHead(200, { 'content-type': 'text/html' }).end(page)
    else response.writeHead(page.status, page.headers).end(page.body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a server on TCP has an address with a port
  return {
    origin: `http://127.0.0.1:${port}`,
    asked,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
