/** The type of tools: functions that a policy may call between two of its turns. */

import { checkOptions, errorMessage, type Key, type ResourceSpec } from '@tandem-rl/base'
import { warnThrown } from '@tandem-rl/base/host'
import type { ContentPart, ToolCall } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Episode, ToolFailure } from 'tandem-rl/envs'
import { z } from 'zod'
import { TOOL_OPTIONS } from '../optionKinds.js'
import { type ToolEnvironment, toolEnvironment } from '../resources/toolEnvironment.js'
import { beginning, truncated } from './clipped.js'

/** The result of a call. */
export interface ToolReply<S = unknown> {
  readonly content: string | readonly ContentPart[]
  /** `finish` ends the episode after this call, as answer tools do. Default `success`. */
  readonly status?: 'success' | 'finish'
  /** The tool's state in this conversation: JSON values. */
  readonly state: S
}

/** The context of a call. */
export interface ToolContext<S = unknown> {
  /** The state that the previous call in this conversation left. */
  readonly state: S
  /** A random key for this call. */
  readonly key: Key
  /** The conversation that the call belongs to; undefined for calls outside of environments. */
  readonly episode?: Episode | undefined
  /**
   * Aborts when the result is no longer needed: on a timeout, or when the rollout is cancelled. The
   * tool then stops its work.
   */
  readonly signal: AbortSignal
}

/**
 * A tool. It keeps no data between calls except `state`, which is an argument and a result, so that
 * a conversation can be replayed and forked. Processes and connections belong to the capabilities
 * it was made with.
 */
export interface Tool {
  readonly name: string
  /** A description for the policy. */
  readonly description: string
  /** JSON schema of the arguments: an object. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** The state at the start of a conversation: JSON values. */
  readonly initial: unknown
  readonly call: (args: ToolCall['arguments'], context: ToolContext) => TE.TaskEither<ToolFailure, ToolReply>
  /** Returns the resources that the tool holds for an episode. Default: it holds none. */
  readonly release?: (episode: Episode) => void
  /** Closes all resources of the tool. Default: it holds none. */
  readonly close?: () => Promise<void>
}

/** The environment of a tool: one shared with others, or a spec for its own. */
export type HeldEnvironment<R> = ToolEnvironment<R> | ResourceSpec<R>

export interface ToolOptions<A extends z.ZodRawShape, S, R = undefined> {
  readonly name: string
  readonly description: string
  /** The arguments by name. A call with unknown arguments is rejected. */
  readonly parameters: A
  /** The state at the start of a conversation. Default `null`, for tools without state. */
  readonly initial?: S
  /**
   * The environment of the calls, passed to `run` as `environment`: a resource, or one shared with
   * other tools and rewards. Default: none.
   */
  readonly environment?: HeldEnvironment<R>
  /** Maximum number of concurrent environments, if `environment` is a resource. Default 8. */
  readonly poolSize?: number
  /**
   * Maximum characters of a result's text. A longer one is truncated and ends with a note that
   * counts the omitted ones. Default: no limit.
   */
  readonly maxLength?: number
  /**
   * Runs a call with arguments that match the schema. If it throws or rejects, the policy gets the
   * error as `failed`. A text is a result that leaves the state as it is.
   */
  readonly run: (
    args: z.output<z.ZodObject<A, z.core.$strict>>,
    context: ToolContext<S> & { readonly environment: R },
  ) => TE.TaskEither<ToolFailure, ToolReply<S>> | ToolResult<S> | Promise<ToolResult<S>>
}

/** The result of a function: a text, or a reply whose state may be left out if it stays. */
type ToolResult<S = unknown> = string | (Omit<ToolReply<S>, 'state'> & { readonly state?: S })

/** A tool as a function of its arguments. */
type ToolFunction<A extends z.ZodRawShape> = (
  args: z.output<z.ZodObject<A, z.core.$strict>>,
  context: ToolContext<null>,
) => ToolResult<null> | Promise<ToolResult<null>>

export const toolFailure = (tool: string, kind: ToolFailure['kind'], reason: string): ToolFailure => ({
  _tag: 'ToolFailure',
  tool,
  kind,
  where: `the tool '${tool}'`,
  reason,
})

const checked = <A extends z.ZodObject>(
  name: string,
  schema: A,
  args: ToolCall['arguments'],
): E.Either<ToolFailure, z.output<A>> => {
  const parsed = schema.safeParse(args)
  return parsed.success
    ? E.right(parsed.data)
    : E.left(toolFailure(name, 'arguments', `invalid arguments: ${z.prettifyError(parsed.error)}`))
}

/** Returns the environment of a tool. One made from a resource is owned by the tool. */
const environmentOf = <R>({
  environment,
  poolSize,
}: Pick<ToolOptions<z.ZodRawShape, unknown, R>, 'environment' | 'poolSize'>): ToolEnvironment<R> | undefined => {
  if (environment !== undefined && !('use' in environment))
    return toolEnvironment(environment, poolSize === undefined ? {} : { poolSize })
  if (poolSize !== undefined) throw new RangeError('tool: poolSize needs an environment that is a resource')
  return environment
}

type Ran<S> = E.Either<ToolFailure, ToolReply<S>>

/** Truncates the text of a reply. Each part may use what the earlier ones left of the limit. */
const limitedReply = <S>(reply: ToolReply<S>, maxLength: number): ToolReply<S> => {
  const { content } = reply
  if (typeof content === 'string') return { ...reply, content: truncated(content, maxLength) }
  let left = maxLength
  let omitted = 0
  const kept = content.flatMap((part): readonly ContentPart[] => {
    if (part.type !== 'text') return [part]
    const text = beginning(part.text, left)
    omitted += part.text.length - text.length
    left -= Math.min(left, part.text.length)
    return text === '' ? [] : [{ ...part, text }]
  })
  if (omitted === 0) return reply
  return { ...reply, content: [...kept, { type: 'text', text: `\n[${omitted} more characters]` }] }
}

/** Runs a call with the environment of its episode. */
const runHolding = async <R, S>(
  name: string,
  held: ToolEnvironment<R>,
  { episode, signal }: ToolContext,
  run: (environment: R) => Promise<Ran<S>>,
): Promise<Ran<S>> => {
  const used = await held.use(episode, signal, run)
  return E.isLeft(used) ? E.left(toolFailure(name, 'infrastructure', used.left.reason)) : used.right
}

/** Completes what a function returns. */
const replyOf = <S>(result: ToolResult<S>, state: S): ToolReply<S> =>
  typeof result === 'string' ? { content: result, state } : { state, ...result }

const makeTool = <A extends z.ZodRawShape, S, R>(options: ToolOptions<A, S, R>): Tool => {
  checkOptions('tool', options, TOOL_OPTIONS)
  const { name, description, initial = null, run, maxLength } = options
  if (maxLength !== undefined && !(maxLength >= 1))
    throw new RangeError(`tool: maxLength must be at least 1, got ${maxLength}`)
  const held = environmentOf(options)
  const attempt = async (work: () => ReturnType<typeof run>, state: S): Promise<Ran<S>> => {
    try {
      const running = work()
      const ran = typeof running === 'function' ? await running() : E.right(replyOf(await running, state))
      return maxLength === undefined ? ran : E.map((reply: ToolReply<S>) => limitedReply(reply, maxLength))(ran)
    } catch (error) {
      warnThrown(`the tool ${name}`, error)
      return E.left(toolFailure(name, 'failed', errorMessage(error)))
    }
  }
  const schema = z.strictObject(options.parameters)
  return {
    name,
    description,
    initial,
    parameters: z.toJSONSchema(schema, { io: 'input' }),
    call: (args, context) =>
      pipe(
        TE.fromEither(checked(name, schema, args)),
        TE.chain((read) => () => {
          const own = context as ToolContext<S> // the state is of type S: it is `initial` or the state of the previous call
          const call = (environment: R) => attempt(() => run(read, { ...own, environment }), own.state)
          // Without an environment R is undefined.
          return held === undefined ? call(undefined as R) : runHolding(name, held, context, call)
        }),
      ),
    ...(held !== undefined && { release: held.release, close: held.close }),
  }
}

/**
 * Makes a tool from zod schemas of its arguments and a function. In the short form, the description
 * is that of the schema (`z.object({ ... }).describe('...')`), and the tool has no state.
 *
 * Errors   throws for a schema that JSON schema cannot express, and for unknown options. `call`
 *          returns `Left(ToolFailure)`: `arguments` with every problem of the arguments, `failed`
 *          with the error that the function threw.
 *
 * @example
 * tool('shout', z.object({ text: z.string() }), ({ text }) => text.toUpperCase()).name // 'shout'
 * @example
 * tool({ name: 'now', description: '', parameters: {}, run: () => 'noon' }).name // 'now'
 */
export function tool<const A extends z.ZodRawShape>(
  name: string,
  parameters: z.ZodObject<A>,
  run: ToolFunction<A>,
): Tool
export function tool<A extends z.ZodRawShape = Readonly<Record<string, z.ZodAny>>, S = null, R = undefined>(
  options: ToolOptions<A, S, R>,
): Tool
export function tool(
  first: string | ToolOptions<z.ZodRawShape, unknown, unknown>,
  parameters?: z.ZodObject,
  run?: ToolFunction<z.ZodRawShape>,
): Tool {
  if (typeof first !== 'string') return makeTool(first)
  if (!(parameters instanceof z.ZodObject)) throw new TypeError(`tool: the arguments of '${first}' must be a z.object`)
  if (typeof run !== 'function') throw new TypeError(`tool: the third argument must be a function, got ${typeof run}`)
  return makeTool<z.ZodRawShape, null, undefined>({
    name: first,
    description: parameters.description ?? first,
    parameters: parameters.shape,
    run,
  })
}
