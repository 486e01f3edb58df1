/**
 * Servers of the Model Context Protocol: what they are reached by, what limits them, and how they
 * fail.
 */
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { Clock, Environment, Processes, Timers } from '../../core/capabilities.js'
import type { WebFetch } from '../../core/http.js'
import { type Key, keyFromSeed } from '../../core/key.js'
import { optionalPackage, type PackageFailure } from '../../data/codecs/optionalPackage.js'
import { liveClock, liveTimers } from '../../live/clock.js'
import { importPackage, liveEnvironment } from '../../live/environment.js'
import { liveProcesses } from '../../live/processes.js'
import { liveWebFetch, type WebFetchOptions } from '../../live/transport/webFetch.js'

/** A server that is a program of this computer, and is talked to over its input and output. */
export interface McpProgram {
  readonly kind: 'stdio'
  readonly command: string
  readonly args?: readonly string[]
  /**
   * Its variables, besides HOME, LOGNAME, PATH, SHELL, TERM and USER of this process: it gets no
   * others. Secrets are shown nowhere.
   */
  readonly env?: Readonly<Record<string, string>>
  readonly folder?: string
}

/** A server at an address, by Streamable HTTP. */
export interface McpAddress {
  readonly kind: 'http'
  readonly url: string
  /** Sent with every request. Their values are shown nowhere. */
  readonly headers?: Readonly<Record<string, string>>
}

/** A connection to a server, such as a `Transport` of `@modelcontextprotocol/sdk`. */
interface McpTransport {
  readonly start: () => Promise<void>
  readonly send: (message: never) => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * A server behind a transport of your own, such as one half of the SDK's
 * `InMemoryTransport.createLinkedPair()`.
 */
export interface McpLink {
  readonly kind: 'transport'
  /** Called for every connection: for the first one, and after one is lost. */
  readonly open: () => Promise<McpTransport>
}

export type McpServer = McpProgram | McpAddress | McpLink

export interface McpLimits {
  /** Longest time for a call, if nobody gives it up before. Default 30,000. */
  readonly callMs: number
  /** Longest time to connect and to list the tools. Default 30,000. */
  readonly connectMs: number
  /**
   * After a call that took too long the server is asked whether it lives; without an answer in this
   * time it is given up. Default 5,000.
   */
  readonly pingMs: number
  /** How long a server may take to end when it is told to, before it is ended. Default 2,000. */
  readonly graceMs: number
  /** Bytes of one message of a server. Default 10 MiB. */
  readonly maxBytes: number
  /** Characters of the texts of one result; the rest is cut off, with a mark. Default 100,000. */
  readonly maxText: number
  /** Tools of a server. Default 1,000. */
  readonly maxTools: number
  /**
   * Attempts to reach a server that does not answer, before those who wait for it fail. Default 4.
   */
  readonly attempts: number
  /** The longest pause before the second attempt; it doubles with every attempt. Default 250. */
  readonly pauseMs: number
  /**
   * Connections to a server within a minute: one that dies again and again is left alone. Default 20.
   */
  readonly connectsPerMinute: number
}

/** What connections to servers are made with. */
export interface McpWorld {
  readonly processes: Processes
  readonly environment: Environment
  readonly clock: Clock
  readonly timers: Timers
  readonly openWeb: (options: WebFetchOptions) => WebFetch
  /** Of the pauses between attempts. Default: another one in every process. */
  readonly key: Key
  /**
   * Resolves with the exports of the SDK's modules `client/index.js`, `client/streamableHttp.js`,
   * `shared/stdio.js` and `types.js` in one object. Default: imports them.
   */
  readonly load: () => Promise<unknown>
}

/**
 * Why a server is of no use. `package`: the SDK is not installed; `unreachable`: it cannot be
 * started or does not answer; `protocol`: it answers what it must not; `closed`: it was closed on
 * this side.
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
  return Object.assign({}, ...(await Promise.all(names.map((name) => importPackage<object>(name)))))
}

/** @internal */
export const mcpLibrary = (load: McpWorld['load']): TE.TaskEither<PackageFailure, McpLibrary> =>
  optionalPackage('@modelcontextprotocol/sdk', 'a tool of an MCP server', load as () => Promise<McpLibrary>) // cast: see `load`

const LIMITS: McpLimits = {
  ...{ callMs: 30_000, connectMs: 30_000, pingMs: 5000, graceMs: 2000 },
  ...{ maxBytes: 10 * 2 ** 20, maxText: 100_000, maxTools: 1000 },
  ...{ attempts: 4, pauseMs: 250, connectsPerMinute: 20 },
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
    return [`servers.${name}: url: expected an address of http or https`]
  const isPublic = url.username === '' && url.password === ''
  return isPublic ? [] : [`servers.${name}: url: a user and a password belong into the header authorization`]
}

/**
 * Limits and world with their defaults. Errors: throws RangeError for addresses and limits that
 * cannot be used, naming all of them.
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
 * What the failures of a server must not show: all that it was given in variables and headers.
 * Short values are no secrets, unless named so.
 */
export const mcpSecrets = (server: McpServer): readonly string[] => {
  if (server.kind === 'transport') return []
  const given = Object.entries((server.kind === 'stdio' ? server.env : server.headers) ?? {})
  const isSecret = ([name, value]: readonly [string, string]): boolean =>
    value.length >= 8 || /key|token|secret|pass|auth|cookie|credential/i.test(name)
  return given.filter(isSecret).flatMap(([, value]) => [value, value.replace(/^\w+\s+/, '')])
}
