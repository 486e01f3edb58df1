/**
 * Access control of servers: allowed origins of web pages, and API keys, which are compared in
 * constant time.
 */

const digest = async (text: string): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))

/** Compares digests. The comparison always reads every byte. */
const isSame = (a: Uint8Array, b: Uint8Array): boolean => {
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ b[i]!
  return difference === 0
}

/** Returns the key of the header `authorization` (as `Bearer KEY`) or `x-api-key`, if present. */
export const givenKey = (headers: Headers): string | undefined => {
  const [, bearer] = /^bearer (.*)$/i.exec(headers.get('authorization') ?? '') ?? []
  return bearer ?? headers.get('x-api-key') ?? undefined
}

/**
 * Returns `true` if the given key is one of the keys.
 *
 * Cost     independent of the given key, because its digest is compared with those of all keys.
 */
export const isAuthorized = async (given: string | undefined, keys: readonly string[]): Promise<boolean> => {
  if (given === undefined) return false
  const presented = await digest(given)
  const matches = await Promise.all(keys.map(async (key) => isSame(presented, await digest(key))))
  return matches.filter((match) => match).length > 0
}

/**
 * Returns `true` if the request's origin is absent, this server, or one of the given origins.
 * Browsers send requests without a JSON body before any CORS check, so hiding the response from the
 * page would come too late.
 */
export const mayCome = (headers: Headers, origins: readonly string[]): boolean => {
  const origin = headers.get('origin')
  if (origin === null || origins.includes('*') || origins.includes(origin)) return true
  return URL.canParse(origin) && new URL(origin).host === headers.get('host')
}
