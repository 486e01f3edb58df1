/** Paths of requests, with and without a session. */
import type { PromptPath } from '../routes/readers.js'

/** Endpoints whose requests reach the engine. */
export const SAMPLING: readonly PromptPath[] = [
  ...(['/v1/chat/completions', '/v1/responses', '/v1/messages'] as const),
  ...(['/v1/completions', '/inference/v1/generate'] as const),
]

/** Clients of Anthropic's API add `/v1` to the base address, which ends with it already. */
export const oneVersion = (path: string): string => path.replace(/^\/v1\/v1\//, '/v1/')

/** A path below a session: its id and the rest. */
export const sessionPath = (path: string): { readonly id: string; readonly rest: string } | undefined => {
  const [, id, rest] = /^\/sessions\/([^/]+)(\/.*)?$/.exec(path) ?? []
  return id === undefined ? undefined : { id, rest: oneVersion(rest ?? '') }
}

/** Returns the path of a request below its session. */
export const pathInSession = ({ url }: Request): string => {
  const { pathname } = new URL(url)
  return sessionPath(pathname)?.rest ?? oneVersion(pathname)
}
