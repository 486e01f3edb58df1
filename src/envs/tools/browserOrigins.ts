/**
 * Which addresses a browser may go to: exact origins, and subdomains where a pattern says so. Pure.
 *
 * An address is compared by what a browser makes of it, and one that is spelled in another way than
 * the browser would write its host is refused: names in other alphabets, IP addresses in octal or
 * as one number, users before an at sign, dots at the end.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { GateDestination } from '../../core/http.js'
import { clipped } from './clipped.js'

/** One pattern: scheme, host and port, each compared exactly. */
interface OriginPattern {
  readonly scheme: 'http' | 'https'
  readonly host: string
  /** `below`: hosts that end with a dot and this one, and not this one. */
  readonly match: 'exact' | 'below'
  readonly port: number
}

/** Checked patterns: `allowedOrigins` makes them. */
export interface AllowedOrigins {
  readonly patterns: readonly OriginPattern[]
}

const PATTERN = /^(?:(https?):\/\/)?(\*\.)?([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?\/?$/

const isAddress = (host: string): boolean => /^[\d.]+$|^\[/.test(host)

/** Whether dots stand together, or at an end. */
const hasEmptyLabel = (host: string): boolean => /^\.|\.\.|\.$/.test(host)

const defaultPort = (scheme: 'http' | 'https'): number => (scheme === 'http' ? 80 : 443)

/** The host as a browser writes it; undefined for one that it does not take. */
const canonicalHost = (host: string): string | undefined =>
  URL.canParse(`http://${host}/`) ? new URL(`http://${host}/`).hostname : undefined

const readPattern = (text: string): E.Either<string, OriginPattern> => {
  const found = PATTERN.exec(text)
  if (found === null) return E.left(`${JSON.stringify(clipped(text, 100))} is no [http(s)://][*.]host[:port]`)
  const [, given, star, host = '', digits] = found
  const scheme = given === 'http' ? 'http' : 'https'
  const port = digits === undefined ? defaultPort(scheme) : Number(digits)
  if (canonicalHost(host) !== host || hasEmptyLabel(host))
    return E.left(`${JSON.stringify(text)}: a browser writes this host in another way`)
  if (port < 1 || port > 65_535) return E.left(`${JSON.stringify(text)}: there is no such port`)
  if (star !== undefined && (isAddress(host) || !host.includes('.')))
    return E.left(`${JSON.stringify(text)}: a star stands before a domain of at least two parts`)
  return E.right({ scheme, host, match: star === undefined ? 'exact' : 'below', port })
}

/**
 * Origins from patterns: `example.com` is `https://example.com:443` and nothing else;
 * `http://example.com:8080` names scheme and port; `*.example.com` is every subdomain, at any
 * depth, without `example.com` itself. Names in other alphabets are written in their ASCII form
 * (`xn--`).
 *
 * Errors   throws RangeError with every pattern that cannot be read.
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

/** Whether a connection may be made. The host has to be written as a browser writes it. */
export const allowsDestination = ({ patterns }: AllowedOrigins, { scheme, host, port }: GateDestination): boolean =>
  patterns.some(
    (pattern) =>
      !hasEmptyLabel(host) &&
      (scheme === 'any' || scheme === pattern.scheme) &&
      port === pattern.port &&
      (pattern.match === 'exact' ? host === pattern.host : host.endsWith(`.${pattern.host}`)),
  )

/** Longer addresses are refused. */
const LONGEST = 8000

const SPELLED = /^(https?|wss?):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#]|$)/i

/**
 * Blanks, control characters and backslashes: browsers leave them out or read them as something
 * else.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what an address must not have
const ODD = /[\u0000-\u0020\u007f-\u00a0\\\u2028\u2029]/

/**
 * An address as a browser writes it, if it may go there.
 *
 * Errors   `Left` with one sentence that says why not.
 * Cost     linear in the text, of which 8,000 characters are read.
 *
 * @example
 * checkAddress(allowedOrigins(['example.com']), 'https://EXAMPLE.com') // right('https://example.com/')
 */
export const checkAddress = (allowed: AllowedOrigins, text: string): E.Either<string, string> => {
  const shown = JSON.stringify(clipped(text, 200))
  if (text.length > LONGEST) return E.left(`${shown} is longer than ${LONGEST} characters`)
  if (ODD.test(text)) return E.left(`${shown} has blanks, control characters or backslashes in it`)
  const spelled = SPELLED.exec(text)
  if (spelled === null || !URL.canParse(text))
    return E.left(`${shown} is no plain address: it has to be http:// or https://, a host in ASCII and a path`)
  const url = new URL(text)
  const scheme = /^(https|wss):$/.test(url.protocol) ? 'https' : 'http'
  if (url.username !== '' || url.password !== '') return E.left(`${shown} has a user in it`)
  if (hasEmptyLabel(url.hostname)) return E.left(`${shown} has a host with a dot too many`)
  if (spelled[2]?.toLowerCase() !== url.hostname)
    return E.left(`${shown}: its host has to be written as ${JSON.stringify(url.hostname)}`)
  const port = url.port === '' ? defaultPort(scheme) : Number(url.port)
  return allowsDestination(allowed, { scheme, host: url.hostname, port })
    ? E.right(url.href)
    : E.left(`${JSON.stringify(clipped(url.origin, 200))} is not an allowed origin`)
}
