/** Requests to the Hugging Face hub, with time limits, and failures that include advice. */
import { errorMessage, type HubFailure, type HubRepo, parseJson, type Timers } from '@tandem-rl/base'
import { isRight } from 'fp-ts/lib/Either.js'
import { proxyFor, throughProxy } from './transport/proxies.js'

/** The settings of requests. */
export interface HubConnection {
  readonly endpoint: string
  readonly token: string | undefined
  /** Longest silence in milliseconds: until a response starts, and then for each KiB of it. */
  readonly timeoutMs: number
  readonly timers: Timers
  readonly fetch: typeof globalThis.fetch
}

/** An error inside `hub.ts`, which is converted to a `Left` there. */
class HubError extends Error {
  readonly failure: HubFailure

  constructor(failure: HubFailure) {
    super(failure.reason)
    this.failure = failure
  }
}

/** Makes a failure whose reason begins with the name of the repository. */
const hubFailure = (
  { name }: HubRepo,
  kind: HubFailure['kind'],
  reason: string,
  ...[status]: readonly number[]
): HubFailure => ({
  _tag: 'HubFailure',
  kind,
  repo: name,
  reason: `${name}: ${reason}`,
  ...(status !== undefined && { status }),
})

/** Throws a failure. */
export const refuseFile = (...given: Parameters<typeof hubFailure>): never => {
  throw new HubError(hubFailure(...given))
}

/** Returns true for a failure of one of these kinds. */
export const isFailure = (error: unknown, ...kinds: readonly HubFailure['kind'][]): error is HubError =>
  error instanceof HubError && kinds.includes(error.failure.kind)

/** Returns the failure of a caught error. Others than `HubError` come from the cache. */
export const caughtFailure = (repo: HubRepo, error: unknown): HubFailure =>
  error instanceof HubError
    ? error.failure
    : hubFailure(repo, 'disk', `the cache cannot be used: ${errorMessage(error)}`)

const TOKEN_HINT = 'set HF_TOKEN to a token that may read it'

const refuseStatus = (response: Response, repo: HubRepo, { token }: HubConnection): never => {
  const code = response.headers.get('x-error-code')
  const detail = response.headers.get('x-error-message') ?? response.statusText
  const status = response.status
  if (code === 'GatedRepo') {
    return refuseFile(
      repo,
      'gated',
      `request access on the page of the repository; then ${TOKEN_HINT} (${detail})`,
      status,
    )
  }
  if (code === 'RepoNotFound' || (status === 401 && code === null)) {
    // The hub gives the same answer for private repositories.
    return status === 401
      ? refuseFile(
          repo,
          'unauthorized',
          `there is no such ${repo.kind}, or it is private: ${token === undefined ? TOKEN_HINT : 'the token may not read it'}`,
          status,
        )
      : refuseFile(repo, 'not-found', `there is no such ${repo.kind}: check its name`, status)
  }
  if (code === 'RevisionNotFound') return refuseFile(repo, 'not-found', `there is no revision ${repo.revision}`, status)
  if (status === 401 || status === 403)
    return refuseFile(repo, 'unauthorized', `the hub refuses access (${status} ${detail}): ${TOKEN_HINT}`, status)
  if (status === 404) return refuseFile(repo, 'not-found', `there is no such file or ${repo.kind} (${detail})`, status)
  if (status === 429)
    return refuseFile(repo, 'refused', 'the hub has had too many requests: wait a minute, or use a token', status)
  return refuseFile(
    repo,
    status >= 500 ? 'unreachable' : 'refused',
    `the hub answered ${status} ${detail}: try again later`,
    status,
  )
}

/** Throws the failure of a request without a response. */
const refuseError = (error: unknown, repo: HubRepo, { endpoint, timeoutMs }: HubConnection): never => {
  if (error instanceof HubError) throw error
  if (error instanceof Error && error.name === 'TimeoutError') {
    return refuseFile(
      repo,
      'timeout',
      `${endpoint} was silent for ${timeoutMs} ms, or nearly so: try again, or set HF_ENDPOINT to a mirror`,
    )
  }
  const proxy = proxyFor(endpoint)
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
  return refuseFile(
    repo,
    'unreachable',
    `${endpoint} cannot be reached${isRight(proxy) ? throughProxy(proxy.right) : ''} (${cause}): check the network, or set HF_ENDPOINT to a mirror`,
  )
}

/** A time limit that restarts with every sign of life. */
export interface Watch {
  readonly signal: AbortSignal
  readonly alive: () => void
  readonly stop: () => void
}

/** Starts a watch. */
export const startWatch = ({ timeoutMs, timers }: Pick<HubConnection, 'timeoutMs' | 'timers'>): Watch => {
  const abort = new AbortController()
  const ring = (): void => abort.abort(new DOMException('silent for too long', 'TimeoutError'))
  let cancel = timers.after(timeoutMs, ring)
  return {
    signal: abort.signal,
    alive: () => {
      cancel()
      cancel = timers.after(timeoutMs, ring)
    },
    stop: () => cancel(),
  }
}

/** A request to the hub. */
export interface HubRequest {
  readonly url: string
  readonly method?: 'GET' | 'HEAD'
  readonly headers?: Readonly<Record<string, string>>
  readonly redirect?: 'follow' | 'manual'
  /** Statuses that are accepted in addition to 2xx. */
  readonly accepted?: readonly number[]
}

/** Parses an address that the hub sent. */
export const webAddress = (repo: HubRepo, text: string, base?: string): URL => {
  const url = URL.canParse(text, base) ? new URL(text, base) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    return refuseFile(
      repo,
      'protocol',
      'the hub, or a redirect from it, has an address that is not http or https without a password: is HF_ENDPOINT right?',
    )
  return url
}

/**
 * Returns the header with the token. Invalid tokens are rejected here, because error messages of
 * `fetch` would quote them.
 */
const authorizationOf = (token: string | undefined, repo: HubRepo): Readonly<Record<string, string>> => {
  if (token === undefined) return {}
  return /^[\x21-\x7e]+$/.test(token)
    ? { authorization: `Bearer ${token}` }
    : refuseFile(repo, 'unauthorized', 'the token contains blanks or invalid characters: check HF_TOKEN')
}

/**
 * Returns the response, or throws its failure. Only the hub receives the token: `fetch` drops it on
 * redirects to other hosts.
 */
export const ask = async (
  connection: HubConnection,
  repo: HubRepo,
  request: HubRequest & { readonly watch: Watch },
): Promise<Response> => {
  const { url, method = 'GET', headers = {}, redirect = 'follow', accepted = [], watch } = request
  const isHub = webAddress(repo, url).origin === webAddress(repo, connection.endpoint).origin
  const authorization = isHub ? authorizationOf(connection.token, repo) : {}
  try {
    const response = await connection.fetch(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...headers, ...authorization },
      redirect,
      signal: watch.signal,
    })
    watch.alive()
    if (response.ok || accepted.includes(response.status)) return response
    await response.body?.cancel()
    return refuseStatus(response, repo, connection)
  } catch (error) {
    return refuseError(error, repo, connection)
  }
}

/** Maximum number of bytes of a JSON response. */
const MOST_JSON = 2 ** 26

/** Returns the JSON of a response, and its headers. */
export const askJson = async (
  connection: HubConnection,
  repo: HubRepo,
  url: string,
): Promise<{ readonly json: unknown; readonly headers: Headers }> => {
  const watch = startWatch(connection)
  try {
    const response = await ask(connection, repo, { url, headers: { accept: 'application/json' }, watch })
    const parts: Uint8Array[] = []
    let length = 0
    for await (const part of partsOf(response, repo, { connection, watch })) {
      length += part.length
      if (length > MOST_JSON) refuseFile(repo, 'protocol', `the list of files has more than ${MOST_JSON} bytes`)
      parts.push(part)
    }
    const json = parseJson(Buffer.concat(parts).toString('utf8'))
    return isRight(json)
      ? { json: json.right, headers: response.headers }
      : refuseFile(repo, 'protocol', `${url} did not respond with JSON: is HF_ENDPOINT right?`)
  } finally {
    watch.stop()
  }
}

/**
 * Bytes that count as a sign of life. With fewer, a server that sends single bytes would never time
 * out.
 */
const SIGN_OF_LIFE = 1024

/** Yields the parts of a response as they arrive. A broken connection is a failure. */
export async function* partsOf(
  response: Response,
  repo: HubRepo,
  { connection, watch }: { readonly connection: HubConnection; readonly watch: Watch },
): AsyncGenerator<Uint8Array> {
  if (response.body === null) return
  const reader = response.body.getReader()
  let unseen = 0
  try {
    while (true) {
      const part = await reader.read().catch((error: unknown) => refuseError(error, repo, connection))
      if (part.done) return
      unseen += part.value.length
      if (unseen >= SIGN_OF_LIFE) {
        watch.alive()
        unseen = 0
      }
      yield part.value
    }
  } finally {
    await reader.cancel().catch(() => undefined) // drops the unread part; a broken connection was already reported
  }
}
