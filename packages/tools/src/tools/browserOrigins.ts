/**
 * Checks addresses against exact origins and wildcard subdomains. Pure.
 *
 * An address is compared in the form that a browser gives it. If its host is spelled differently
 * from that form, it is refused: hosts in other alphabets, IP addresses in octal or as one number,
 * user names before an at sign, trailing dots.
 */
import type { GateDestination } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { clipped } from './clipped.js'

/** One pattern: scheme, host and port, each compared exactly. */
interface OriginPattern {
  readonly scheme: 'http' | 'https'
  readonly host: string
  /** `below`: every subdomain of `host`, without `host` itself. */
  readonly match: 'exact' | 'below'
  readonly port: number
}

/** Parsed origin patterns, made by `allowedOrigins`. */
export interface AllowedOrigins {
  readonly patterns: readonly OriginPattern[]
}

const PATTERN = /^(?:(https?):\/\/)?(\*\.)?([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?\/?$/

const isAddress = (host: string): boolean => /^[\d.]+$|^\[/.test(host)

/** Returns true if a host has an empty label: a leading, trailing or doubled dot. */
const hasEmptyLabel = (host: string): boolean => /^\.|\.\.|\.$/.test(host)

const defaultPort = (scheme: 'http' | 'https'): number => (scheme === 'http' ? 80 : 443)

/** Returns the host as a browser writes it; undefined for an invalid host. */
const canonicalHost = (host: string): string | undefined =>
  URL.canParse(`http://${host}/`) ? new URL(`http://${host}/`).hostname : undefined

const readPattern = (text: string): E.Either<string, OriginPattern> => {
  const found = PATTERN.exec(text)
  if (found === null)
    return E.left(`${JSON.stringify(clipped(text, 100))} is not of the form [http(s)://][*.]host[:port]`)
  const [, given, star, host = '', digits] = found
  const scheme = given === 'http' ? 'http' : 'https'
  const port = digits === undefined ? defaultPort(scheme) : Number(digits)
  if (canonicalHost(host) !== host || hasEmptyLabel(host))
    return E.left(`${JSON.stringify(text)}: the host is not in the form that browsers write`)
  if (port < 1 || port > 65_535) return E.left(`${JSON.stringify(text)}: the port must be from 1 to 65535`)
  if (star !== undefined && (isAddress(host) || !host.includes('.')))
    return E.left(`${JSON.stringify(text)}: a star must be followed by a domain of at least two parts`)
  return E.right({ scheme, host, match: star === undefined ? 'exact' : 'below', port })
}

/**
 * Parses origin patterns. `example.com` matches only `https://example.com:443`;
 * `http://example.com:8080` gives scheme and port; `*.example.com` matches every subdomain, at any
 * depth, but not `example.com` itself. Write names in other alphabets in their ASCII form (`xn--`).
 *
 * Errors   throws RangeError that lists every invalid pattern.
 *
 * @example
 * allowedOrigins(['example.com']).patterns[0]?.port // 443
 */
export const allowedOrigins = (patterns: readonly string[]): AllowedOrigins => {
  const read = patterns.map(readPattern)
  const problems = read.flatMap((each) => (E.isLeft(each) ? [each.left] : []))
  if (problems.length > 0) throw new RangeError(`allowedOrigins: ${problems.join('; ')}`)
  return { patterns: read.flatMap((each) => (E.isRight(each) ? [each.right] : [])) }
}

/** Returns true if a connection is allowed. `host` must be in the form that a browser gives it. */
export const allowsDestination = ({ patterns }: AllowedOrigins, { scheme, host, port }: GateDestination): boolean =>
  patterns.some(
    (pattern) =>
      !hasEmptyLabel(host) &&
      (scheme === 'any' || scheme === pattern.scheme) &&
      port === pattern.port &&
      (pattern.match === 'exact' ? host === pattern.host : host.endsWith(`.${pattern.host}`)),
  )

/** Maximum length of an address, in characters. */
const LONGEST = 8000

const SPELLED = /^(https?|wss?):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#]|$)/i

/** Blanks, control characters and backslashes, which browsers drop or interpret differently. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches the characters that are not allowed in addresses
const ODD = /[\u0000-\u0020\u007f-\u00a0\\\u2028\u2029]/

/**
 * Returns an allowed address in the form that a browser gives it.
 *
 * Errors   `Left` with the reason, in one sentence, if the address is not allowed.
 * Cost     linear in the text; texts over 8,000 characters are refused unread.
 *
 * @example
 * checkAddress(allowedOrigins(['example.com']), 'https://EXAMPLE.com') // right('https://example.com/')
 */
export const checkAddress = (allowed: AllowedOrigins, text: string): E.Either<string, string> => {
  const shown = JSON.stringify(clipped(text, 200))
  if (text.length > LONGEST) return E.left(`${shown} is longer than ${LONGEST} characters`)
  if (ODD.test(text)) return E.left(`${shown} contains blanks, control characters or backslashes`)
  const spelled = SPELLED.exec(text)
  if (spelled === null || !URL.canParse(text))
    return E.left(`${shown} is not a plain address: use http:// or https://, an ASCII host and a path`)
  const url = new URL(text)
  const scheme = /^(https|wss):$/.test(url.protocol) ? 'https' : 'http'
  if (url.username !== '' || url.password !== '') return E.left(`${shown} contains a user name or password`)
  if (hasEmptyLabel(url.hostname)) return E.left(`${shown}: its host has an extra dot`)
  if (spelled[2]?.toLowerCase() !== url.hostname)
    return E.left(`${shown}: its host must be written as ${JSON.stringify(url.hostname)}`)
  const port = url.port === '' ? defaultPort(scheme) : Number(url.port)
  return allowsDestination(allowed, { scheme, host: url.hostname, port })
    ? E.right(url.href)
    : E.left(`${JSON.stringify(clipped(url.origin, 200))} is not an allowed origin`)
}
