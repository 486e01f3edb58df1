/** Proxies between this process and servers. */
import { BlockList, isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { redact, splitLogin } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { Agent, type Dispatcher, fetch, Pool, ProxyAgent } from 'undici'
import { isLoopback } from './loopback.js'

/** A proxy for one server. */
export interface ForwardProxy {
  /** The address without credentials. */
  readonly url: string
  /** The value of `proxy-authorization`, if the address has credentials. */
  readonly authorization: string | undefined
  readonly secrets: readonly string[]
  /** The name of the variable that has the address. */
  readonly from: string
}

type Variables = Readonly<Record<string, string | undefined>>

/** Returns the first variable that is set, in lower or upper case. Empty text counts as unset. */
const variableOf = (name: string, variables: Variables): readonly [name: string, value: string] | undefined =>
  [name.toLowerCase(), name]
    .flatMap((each) => (variables[each] === undefined ? [] : [[each, variables[each]] as const]))
    .slice(0, 1)
    .find(([, value]) => value !== '')

const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i

/** Parses the address of a proxy, whose scheme may be missing. */
const parseProxy = (text: string, from: string): E.Either<string, ForwardProxy> => {
  const full = SCHEME.test(text) ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : undefined
  if (url === undefined || url.hostname === '' || !['http:', 'https:'].includes(url.protocol))
    return E.left(`${from}: expected the address of an HTTP proxy, got ${JSON.stringify(redact(text))}`)
  const { headers, secrets } = splitLogin(url)
  return E.right({ url: url.origin, authorization: headers.authorization, secrets, from })
}

/** Returns the host and port of an entry of `NO_PROXY`. Addresses of IPv6 may have no brackets. */
const entryParts = (entry: string): readonly [host: string, port: string] => {
  const [, inside, after = ''] = /^\[([^\]]+)\](?::(\d+))?$/.exec(entry) ?? []
  if (inside !== undefined) return [inside, after]
  if (isIP(entry.split('/')[0]!) === 6) return [entry, '']
  const [, host = '', port = ''] = /^([^:]*)(?::(\d+))?$/.exec(entry) ?? []
  return [host, port]
}

const FAMILIES = { 4: 'ipv4', 6: 'ipv6' } as const

const isAddress = (family: number): family is keyof typeof FAMILIES => family === 4 || family === 6

/** Returns true if an address is the one of an entry, or in its network (`10.0.0.0/8`). */
const isIn = (address: string, entry: string): boolean => {
  const [first = '', length] = entry.split('/')
  const [own, other] = [isIP(address), isIP(first)]
  if (!isAddress(own) || !isAddress(other)) return false
  const list = new BlockList()
  if (length === undefined) list.addAddress(first, FAMILIES[other])
  else if (/^\d{1,3}$/.test(length) && Number(length) <= (other === 4 ? 32 : 128))
    list.addSubnet(first, Number(length), FAMILIES[other])
  return list.check(address, FAMILIES[own])
}

const isListed = (host: string, port: string, list: string): boolean =>
  list
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      if (entry === '*') return true
      const [name, only] = entryParts(entry)
      if (only !== '' && only !== port) return false
      if (isIP(host) !== 0) return isIn(host, name)
      const domain = domainToASCII(name.replace(/^\*?\./, '').replace(/\.$/, ''))
      return domain !== '' && (host === domain || host.endsWith(`.${domain}`))
    })

const PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' }

/** The entry of `NO_PROXY` for which servers on this computer have a proxy, too, as in Chromium. */
const WITH_LOOPBACK = '<-loopback>'

/**
 * Returns the proxy of a server, or `null` for a direct connection.
 *
 * `HTTPS_PROXY` or `HTTP_PROXY` has the address, by the scheme of the server; names in lower case
 * come first. Servers in `NO_PROXY` and on this computer have none. An entry of `NO_PROXY` is `*`,
 * a name, which includes its subdomains, or an address or network (`10.0.0.0/8`), each with a port
 * if only that port is meant. Addresses of IPv6 may have brackets.
 *
 * Errors   `Left` with the variable whose value is not the address of an HTTP proxy.
 */
export const proxyFor = (
  server: string | URL,
  variables: Variables = process.env,
): E.Either<string, ForwardProxy | null> => {
  const { protocol, hostname, port } = new URL(server)
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  const given = variableOf(protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY', variables)
  const [, direct = ''] = variableOf('NO_PROXY', variables) ?? []
  if (given === undefined || (isLoopback(host) && !direct.includes(WITH_LOOPBACK))) return E.right(null)
  return isListed(host, port || PORTS[protocol]!, direct) ? E.right(null) : parseProxy(given[1], given[0])
}

/** Describes a proxy in a failure: ` through the proxy URL (VARIABLE)`, or nothing. */
export const throughProxy = (proxy: ForwardProxy | null): string =>
  proxy === null ? '' : ` through the proxy ${proxy.url} (${proxy.from})`

/**
 * Makes the dispatcher of one server. Requests to `http` are sent to a proxy whole, those to
 * `https` through a tunnel. `make` makes the connections: to the server, or to the proxy.
 */
export const proxiedDispatcher = <D extends Dispatcher, O extends object>(
  origin: string | URL,
  {
    proxy,
    connectMs,
    options,
  }: { readonly proxy: ForwardProxy | null; readonly connectMs: number; readonly options: O },
  make: (origin: string | URL, options: O) => D,
): Dispatcher => {
  if (proxy === null) return make(origin, options)
  const tls = { timeout: connectMs }
  return new ProxyAgent({
    uri: proxy.url,
    ...(proxy.authorization !== undefined && { token: proxy.authorization }),
    proxyTunnel: false,
    requestTls: tls,
    proxyTls: tls,
    clientFactory: (address, own) => new Pool(address, { ...own, headersTimeout: connectMs }),
    factory: (address, own) => make(address, { ...options, ...own }),
  })
}

/** Makes an agent for any number of servers, each directly or through its proxy. */
export const proxiedAgent = (
  options: Omit<Agent.Options, 'factory' | 'connect'>,
  { connectMs }: { readonly connectMs: number },
): Agent =>
  new Agent({
    ...options,
    connect: { timeout: connectMs },
    factory: (origin, own) => {
      const proxy = proxyFor(origin)
      if (E.isLeft(proxy)) throw new TypeError(proxy.left)
      return proxiedDispatcher(
        origin,
        { proxy: proxy.right, connectMs, options: own },
        (address, mine) => new Pool(address, mine),
      )
    },
  })

/** Makes a `fetch` that connects directly or through the proxy of each server. */
export const proxiedFetch = ({ connectMs }: { readonly connectMs: number }): typeof globalThis.fetch => {
  const dispatcher = proxiedAgent({}, { connectMs })
  const proxied = (input: string, init?: object) => fetch(input, { ...init, dispatcher })
  return proxied as unknown as typeof globalThis.fetch // Node's own is undici's, by other names of its types
}
