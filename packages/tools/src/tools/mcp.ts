/** Servers of the Model Context Protocol: their addresses, limits and failures. */
import {
  type Clock,
  type Environment,
  type Key,
  keyFromSeed,
  optionalPackage,
  type PackageFailure,
  type Processes,
  type Timers,
  type WebFetch,
} from '@tandem-rl/base'
import { importPackage, liveClock, liveEnvironment, liveTimers } from '@tandem-rl/base/host'
import { liveProcesses, liveWebFetch, type WebFetchOptions } from '@tandem-rl/host'
import type * as TE from 'fp-ts/lib/TaskEither.js'

/** A server that is a local program, reached over its standard input and output. */
export interface McpProgram {
  readonly kind: 'stdio'
  readonly command: string
  readonly args?: readonly string[]
  /**
   * Environment variables, in addition to HOME, LOGNAME, PATH, SHELL, TERM and USER of this
   * process. Values are secret: they are never included in output or failures.
   */
  readonly env?: Readonly<Record<string, string>>
  readonly folder?: string
}

/** A server at a URL, reached over Streamable HTTP. */
export interface McpAddress {
  readonly kind: 'http'
  readonly url: string
  /** Sent with every request. Values are secret: they are never included in output or failures. */
  readonly headers?: Readonly<Record<string, string>>
}

/** A connection to a server, such as a `Transport` of `@modelcontextprotocol/sdk`. */
interface McpTransport {
  readonly start: () => Promise<void>
  readonly send: (message: never) => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * A server behind your own transport, such as one half of the SDK's
 * `InMemoryTransport.createLinkedPair()`.
 */
export interface McpLink {
  readonly kind: 'transport'
  /** Opens a connection. Called for the first one, and after one is lost. */
  readonly open: () => Promise<McpTransport>
}

export type McpServer = McpProgram | McpAddress | McpLink

export interface McpLimits {
  /** Time limit of a call in milliseconds. Default 30,000. */
  readonly callMs: number
  /** Time limit to connect and list the tools, in milliseconds. Default 30,000. */
  readonly connectMs: number
  /**
   * Milliseconds that a server has to answer a ping, which is sent after a call that timed out. If
   * it does not answer, the connection is dropped. Default 5,000.
   */
  readonly pingMs: number
  /**
   * Milliseconds that a server has to exit after it was asked to, before it is killed. Default
   * 2,000.
   */
  readonly graceMs: number
  /** Maximum size of a message of a server, in bytes. Default 10 MiB. */
  readonly maxBytes: number
  /** Maximum characters of text in a result; longer text is truncated. Default 100,000. */
  readonly maxText: number
  /** Maximum number of tools of a server. Default 1,000. */
  readonly maxTools: number
  /** Attempts to reach a server before the waiting calls fail. Default 4. */
  readonly attempts: number
  /**
   * Longest pause before the second attempt, in milliseconds; it doubles each time. Default 250.
   */
  readonly pauseMs: number
  /**
   * Maximum number of connections to a server within a minute, for servers that keep crashing.
   * Default 20.
   */
  readonly connectsPerMinute: number
}

/** The capabilities that connections use. */
export interface McpWorld {
  readonly processes: Processes
  readonly environment: Environment
  readonly clock: Clock
  readonly timers: Timers
  readonly openWeb: (options: WebFetchOptions) => WebFetch
  /** The random key of the pauses between attempts. Default: a different one in every process. */
  readonly key: Key
  /**
   * Resolves with the exports of the SDK's modules `client/index.js`, `client/streamableHttp.js`,
   * `shared/stdio.js` and `types.js` in one object. Default: imports them.
   */
  readonly load: () => Promise<unknown>
}

/**
 * The failure of a server. `package`: the SDK is not installed; `unreachable`: the server cannot be
 * started or does not answer; `protocol`: it violates the protocol; `closed`: the connection was
 * closed on this side.
 */
export interface McpFailure {
  readonly _tag: 'McpFailure'
  readonly server: string
  readonly kind: 'package' | 'unreachable' | 'protocol' | 'closed'
  readonly reason: string
  readonly cause?: PackageFailure
}

export const mcpFailure = (server: string, kind: McpFailure['kind'], reason: string): McpFailure => ({
  _tag: 'McpFailure',
  server,
  kind,
  reason: `the MCP server '${server}': ${reason}`,
})

/**
 * The exports of the SDK that are used.
 *
 * @internal
 */
export type McpLibrary = typeof import('@modelcontextprotocol/sdk/client/index.js') &
  typeof import('@modelcontextprotocol/sdk/client/streamableHttp.js') &
  typeof import('@modelcontextprotocol/sdk/shared/stdio.js') &
  typeof import('@modelcontextprotocol/sdk/types.js')

const importLibrary = async (): Promise<object> => {
  const modules = ['client/index', 'client/streamableHttp', 'shared/stdio', 'types']
  const names = modules.map((module) => `@modelcontextprotocol/sdk/${module}.js`)
  return Object.assign({}, ...(await Promise.all(names.map((name) => importPackage<object>(name, import.meta)))))
}

/** @internal */
export const mcpLibrary = (load: McpWorld['load']): TE.TaskEither<PackageFailure, McpLibrary> =>
  optionalPackage('@modelcontextprotocol/sdk', 'a tool of an MCP server', load as () => Promise<McpLibrary>) // cast: see `load`

const LIMITS: McpLimits = {
  callMs: 30_000,
  connectMs: 30_000,
  pingMs: 5000,
  graceMs: 2000,
  maxBytes: 10 * 2 ** 20,
  maxText: 100_000,
  maxTools: 1000,
  attempts: 4,
  pauseMs: 250,
  connectsPerMinute: 20,
}

const liveWorld = (): McpWorld => ({
  processes: liveProcesses,
  environment: liveEnvironment,
  clock: liveClock,
  timers: liveTimers,
  openWeb: liveWebFetch,
  key: keyFromSeed(Math.floor(Math.random() * 2 ** 53)),
  load: importLibrary,
})

const serverProblem = ([name, server]: readonly [string, McpServer]): readonly string[] => {
  if (server.kind !== 'http') return []
  const url = URL.canParse(server.url) ? new URL(server.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    return [`servers.${name}: url: expected an http or https address`]
  const isPublic = url.username === '' && url.password === ''
  return isPublic ? [] : [`servers.${name}: url: pass a user and password in the authorization header`]
}

/**
 * Adds the defaults to limits and capabilities. Throws RangeError that lists every invalid address
 * and limit.
 */
export const mcpSettings = (
  servers: Readonly<Record<string, McpServer>>,
  limits: Partial<McpLimits> = {},
  world: Partial<McpWorld> = {},
): { readonly limits: McpLimits; readonly world: McpWorld } => {
  const all = { ...LIMITS, ...limits }
  const problems = [
    ...Object.entries(servers).flatMap(serverProblem),
    ...Object.entries(all).flatMap(([name, value]) => (value > 0 ? [] : [`${name} must be above 0, got ${value}`])),
  ]
  if (problems.length > 0) throw new RangeError(`mcpTools: ${problems.join('; ')}`)
  return { limits: all, world: { ...liveWorld(), ...world } }
}

/**
 * Returns the secrets of a server, to be removed from its failures: the values of its variables and
 * headers. Short values count as secrets only if their names suggest it.
 */
export const mcpSecrets = (server: McpServer): readonly string[] => {
  if (server.kind === 'transport') return []
  const given = Object.entries((server.kind === 'stdio' ? server.env : server.headers) ?? {})
  const isSecret = ([name, value]: readonly [string, string]): boolean =>
    value.length >= 8 || /key|token|secret|pass|auth|cookie|credential/i.test(name)
  return given.filter(isSecret).flatMap(([, value]) => [value, value.replace(/^\w+\s+/, '')])
}
