/** Tools of MCP servers as tools of a policy. */

import type { Tool as McpTool } from '@modelcontextprotocol/sdk/types.js'
import { checkOptions, errorMessage, excerpt } from '@tandem-rl/base'
import { harmless } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { ToolFailure } from 'tandem-rl/envs'
import { MCP_TOOLS_OPTIONS } from '../optionKinds.js'
import { clipped } from './clipped.js'
import {
  type McpFailure,
  type McpLimits,
  type McpServer,
  type McpWorld,
  mcpFailure,
  mcpLibrary,
  mcpSecrets,
  mcpSettings,
} from './mcp.js'
import { connectTo, type McpConnection } from './mcpConnection.js'
import { mcpContent } from './mcpContent.js'
import type { McpOutcome } from './mcpSession.js'
import { type Tool, type ToolReply, toolFailure } from './tool.js'

export interface McpToolsOptions {
  /** The servers by name. Tool names start with the name of their server. */
  readonly servers: Readonly<Record<string, McpServer>>
  /** The name of a tool for the policy. Default: `server.tool`. */
  readonly nameOf?: (server: string, tool: string) => string
  /** Called with all tools of all servers when a server notifies that its tools have changed. */
  readonly onTools?: (tools: readonly Tool[]) => void
  /**
   * Called with problems that belong to no call, such as an invalid line or a list of tools that
   * cannot be fetched again.
   */
  readonly onNote?: (note: string) => void
  readonly limits?: Partial<McpLimits>
  readonly world?: Partial<McpWorld>
}

export interface McpTools {
  /**
   * Returns the current tools, in the order of the servers. Tools of an earlier list still call
   * their server.
   */
  readonly tools: () => readonly Tool[]
  /** Returns the number of connections made to each server: more than one if it died. */
  readonly connects: () => Readonly<Record<string, number>>
  /** Ends all connections and their processes. Resolves once all have ended. */
  readonly close: () => Promise<void>
}

const replyOf = (
  outcome: McpOutcome,
  name: string,
  { server, maxText }: { readonly server: McpServer; readonly maxText: number },
): E.Either<ToolFailure, Pick<ToolReply, 'content'>> => {
  const secrets = mcpSecrets(server)
  const fail = (kind: ToolFailure['kind'], reason: string) =>
    E.left(toolFailure(name, kind, excerpt(reason, maxText, secrets)))
  if (outcome._tag === 'Lost') return fail('infrastructure', `the server was lost during the call: ${outcome.reason}`)
  if (outcome._tag === 'Refused') return fail(outcome.kind, outcome.reason)
  const content = mcpContent(outcome.result, { maxText, secrets })
  if (outcome.result.isError !== true) return E.right({ content })
  const texts = typeof content === 'string' ? [content] : content.map((part) => (part.type === 'text' ? part.text : ''))
  return fail('failed', texts.join('\n').trim() || 'the tool failed without a message')
}

/** Returns an error for arguments that have no JSON form or are too long to send. */
const argumentsProblem = (args: Readonly<Record<string, unknown>>, maxBytes: number): string | undefined => {
  try {
    const { length } = JSON.stringify(args)
    return length > maxBytes ? `the arguments have ${length} characters, more than ${maxBytes}` : undefined
  } catch (error) {
    return `the arguments cannot be written as JSON: ${errorMessage(error)}`
  }
}

const toolOf = (
  connection: McpConnection,
  { name: tool, description, title, inputSchema, annotations }: McpTool,
  { name, server, limits }: { readonly name: string; readonly server: McpServer; readonly limits: McpLimits },
): Tool => ({
  name,
  description: clipped(description ?? title ?? annotations?.title ?? '', limits.maxText),
  parameters: inputSchema,
  initial: null,
  call:
    (args, { signal, state }) =>
    async () => {
      const problem = argumentsProblem(args, limits.maxBytes)
      if (problem !== undefined) return E.left(toolFailure(name, 'arguments', problem))
      const isSafe = annotations?.readOnlyHint === true || annotations?.idempotentHint === true
      const outcome = await connection.call({ tool, args, repeat: isSafe ? 'safe' : 'never', signal })
      const reply = replyOf(outcome, name, { server, maxText: limits.maxText })
      return E.isLeft(reply) ? reply : E.right({ ...reply.right, state })
    },
})

interface Connected {
  readonly name: string
  readonly server: McpServer
  readonly connection: McpConnection
}

const DOTTED = (server: string, tool: string): string => `${server}.${tool}`

/** Returns all tools of all servers. */
const everyTool = (
  connected: readonly Connected[],
  limits: McpLimits,
  nameOf: NonNullable<McpToolsOptions['nameOf']>,
): readonly Tool[] =>
  connected.flatMap(({ name, server, connection }) =>
    connection.tools().map((listed) => toolOf(connection, listed, { name: nameOf(name, listed.name), server, limits })),
  )

const closeAll = (connected: readonly Connected[]): Promise<unknown> =>
  Promise.all(connected.map(({ connection }) => connection.close()))

/** Returns the names that more than one tool has. */
const sharedNames = (tools: readonly Tool[]): readonly string[] => {
  const names = tools.map(({ name }) => name)
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))]
}

/**
 * Connects to MCP servers and returns their tools.
 *
 * Schemas are passed on unchanged, and the server checks the arguments. A result with `isError` or
 * a protocol error is returned to the policy. A call that times out is cancelled on the server. A
 * server that dies is reconnected. If that fails, or if the call must not be repeated, the call
 * fails as `infrastructure`.
 *
 * Errors   throws RangeError for invalid addresses and limits. `Left(McpFailure)` if a server
 *          cannot be reached or if two tools get the same name; then all connections are closed.
 *          Failures and results never contain values of `env` and `headers`.
 * Effects  processes and connections, until `close`. Processes always end with this one.
 */
export const mcpTools = (options: McpToolsOptions): TE.TaskEither<McpFailure, McpTools> => {
  checkOptions('mcpTools', options, MCP_TOOLS_OPTIONS)
  const { servers, nameOf = DOTTED } = options
  const onTools = harmless('onTools', options.onTools ?? (() => {}))
  const onNote = harmless('onNote', options.onNote ?? (() => {}))
  const { limits, world } = mcpSettings(servers, options.limits, options.world)
  return async () => {
    const lib = await mcpLibrary(world.load)()
    if (E.isLeft(lib)) {
      return E.left({ _tag: 'McpFailure', server: '', kind: 'package', reason: lib.left.reason, cause: lib.left })
    }
    let all: readonly Connected[] = []
    /**
     * Returns the current tools. A name that two servers come to share belongs to the first one.
     */
    const current = (): readonly Tool[] => {
      const tools = everyTool(all, limits, nameOf)
      const shared = sharedNames(tools)
      if (shared.length > 0) onNote(`two tools are called ${shared.map((name) => `'${name}'`).join(', ')}`)
      return tools.filter(
        ({ name }, i) => !shared.includes(name) || tools.findIndex((each) => each.name === name) === i,
      )
    }
    const tell = (): void => {
      if (all.length > 0) onTools(current())
    }
    const made = await Promise.all(
      Object.entries(servers).map(async ([name, server]) => {
        const note = (text: string): void => onNote(`${name}: ${text}`)
        const connection = await connectTo(lib.right, { name, server, limits, world, onNote: note, onTools: tell })
        return E.map((connection: McpConnection): Connected => ({ name, server, connection }))(connection)
      }),
    )
    const connected = made.flatMap((each) => (E.isRight(each) ? [each.right] : []))
    const [twice] = sharedNames(everyTool(connected, limits, nameOf))
    const failed =
      made.find(E.isLeft) ??
      (twice === undefined ? undefined : E.left(mcpFailure('', 'protocol', `two tools are called '${twice}'`)))
    if (failed !== undefined) {
      await closeAll(connected)
      return failed
    }
    all = connected
    return E.right({
      tools: current,
      connects: () => Object.fromEntries(all.map(({ name, connection }) => [name, connection.connects()])),
      close: async () => void (await closeAll(all)),
    })
  }
}
