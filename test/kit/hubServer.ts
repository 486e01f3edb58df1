/**
 * A server on this machine that speaks as much of the Hugging Face hub's protocol as a download
 * needs, and can be told to misbehave.
 */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a server does instead of answering; `undefined` means: as the hub would. */
type Misbehavior = (request: IncomingMessage, response: ServerResponse) => boolean

export interface HubServer {
  readonly url: string
  /** Method, path and range of every request, in order. */
  readonly requests: readonly string[]
  /** Authorization headers by path: `none` for requests without. */
  readonly tokens: readonly (readonly [path: string, authorization: string])[]
  /** Takes requests before the hub does; it answers those for which it returns true. */
  readonly misbehave: (as: Misbehavior) => void
  readonly close: () => Promise<void>
}

export const COMMIT = 'a'.repeat(40)

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
export const gitSha1 = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')

const listen = (server: Server): Promise<string> =>
  new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)) // a TCP server
  })

const close = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

/** Sends bytes, or the range that is asked for. */
const sendBytes = (request: IncomingMessage, response: ServerResponse, bytes: Uint8Array): void => {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
  const start = Number(first ?? 0)
  if (first !== undefined && start >= bytes.length) {
    response.writeHead(416).end()
    return
  }
  const part = bytes.subarray(start, last === undefined || last === '' ? bytes.length : Number(last) + 1)
  const range = { 'content-range': `bytes ${start}-${start + part.length - 1}/${bytes.length}` }
  response.writeHead(first === undefined ? 200 : 206, {
    'content-length': part.length,
    ...(first !== undefined && range),
  })
  response.end(request.method === 'HEAD' ? undefined : part)
}

const refuse = (response: ServerResponse, status: number, code: string): void => {
  response.writeHead(status, { 'x-error-code': code, 'x-error-message': `${code} it is` }).end()
}

/**
 * Starts a hub with one dataset, `owner/rows`, whose large files (`.parquet`) lie on another
 * server, as they do in reality. Other names:
 * `owner/private` (401), `owner/gated` (403), `owner/old` (moved to `owner/rows`).
 */
export const startHub = async (files: Readonly<Record<string, Uint8Array>>): Promise<HubServer> => {
  const requests: string[] = []
  const tokens: [string, string][] = []
  let misbehavior: Misbehavior = () => false
  const note = (request: IncomingMessage): void => {
    requests.push([request.method, request.url, request.headers.range].filter(Boolean).join(' '))
    tokens.push([request.url ?? '', request.headers.authorization ?? 'none'])
  }
  const storage = createServer((request, response) => {
    note(request)
    if (misbehavior(request, response)) return
    const bytes = files[decodeURIComponent(request.url!.slice(1))]!
    response.setHeader('etag', `"${sha256(bytes)}"`)
    sendBytes(request, response, bytes)
  })
  const storageUrl = await listen(storage)
  const resolveFile = (request: IncomingMessage, response: ServerResponse, path: string): void => {
    const bytes = files[path]
    if (bytes === undefined) {
      refuse(response, 404, 'EntryNotFound')
      return
    }
    response.setHeader('x-repo-commit', COMMIT)
    if (!path.endsWith('.parquet')) {
      response.setHeader('etag', `"${gitSha1(bytes)}"`)
      sendBytes(request, response, bytes)
      return
    }
    response.setHeader('x-linked-etag', `"${sha256(bytes)}"`)
    response.setHeader('x-linked-size', bytes.length)
    response.writeHead(302, { location: `${storageUrl}/${encodeURIComponent(path)}` }).end()
  }
  const hub = createServer((request, response) => {
    note(request)
    if (misbehavior(request, response)) return
    const url = decodeURIComponent(request.url!)
    const json = (value: unknown, headers: Readonly<Record<string, string>> = {}): void => {
      response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
    }
    if (url.includes('owner/private')) return refuse(response, 401, 'RepoNotFound')
    if (url.includes('owner/gated')) return refuse(response, 403, 'GatedRepo')
    const moved = /^\/datasets\/owner\/old\/(.*)$/.exec(url)?.[1]
    if (moved !== undefined) {
      response.writeHead(307, { location: `/datasets/owner/rows/${moved}` }).end()
      return
    }
    if (!url.includes('owner/rows')) return refuse(response, 404, 'RepoNotFound')
    const revision = /\/(?:revision|tree|resolve)\/([^/?]+)/.exec(url)?.[1]
    if (revision !== 'main' && revision !== COMMIT) return refuse(response, 404, 'RevisionNotFound')
    const path = /\/resolve\/[^/]+\/(.*)$/.exec(url)?.[1]
    if (path !== undefined) return resolveFile(request, response, path)
    if (url.includes('/revision/')) return json({ id: 'owner/rows', sha: COMMIT })
    const entries = Object.entries(files).map(([path, bytes]) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid: gitSha1(bytes),
    }))
    const [all, half] = [[{ type: 'directory', path: 'main', size: 0 }, ...entries], Math.ceil(entries.length / 2)]
    if (url.includes('cursor=2')) return json(all.slice(half))
    const next = `<http://${request.headers.host}/api/datasets/owner/rows/tree/${COMMIT}?recursive=true&cursor=2>; rel="next"`
    return json(all.slice(0, half), { link: next })
  })
  const url = await listen(hub)
  return {
    ...{ url, requests, tokens },
    misbehave: (as) => {
      misbehavior = as
    },
    close: async () => {
      await Promise.all([close(hub), close(storage)])
    },
  }
}
