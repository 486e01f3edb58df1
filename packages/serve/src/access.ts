/** Access control: paths that require a key, and refusals. */
import { givenKey, isAuthorized, mayCome } from '@tandem-rl/host'
import { type ApiFailure, apiFailure } from './requests/failure.js'

/**
 * Returns `true` for paths that require a key, as in vLLM. Others, such as `/health` and those of
 * the development mode, do not.
 */
export const isProtected = (path: string): boolean =>
  ['/v1', '/v2', '/inference', '/cohere'].some((prefix) => path.startsWith(prefix))

/** The keys and the origins of web pages that a server accepts. */
export interface Access {
  readonly apiKeys?: readonly string[]
  readonly corsOrigins?: readonly string[]
}

/** Returns why a request is refused, or `null`. */
export const accessProblem = async (
  { headers }: Request,
  { apiKeys = [], corsOrigins = [] }: Access,
): Promise<ApiFailure | null> => {
  if (!mayCome(headers, corsOrigins)) return apiFailure(403, 'Requests from pages of this origin are not allowed.')
  if (apiKeys.length > 0 && !(await isAuthorized(givenKey(headers), apiKeys)))
    return apiFailure(401, 'The API key is missing or wrong.')
  return null
}
