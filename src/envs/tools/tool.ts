/**
 * The type of tools: functions that a policy may call between two of its turns.
 *
 * This folder holds tools that a policy may call, and the transforms that run the calls. It does
 * not hold how models write calls (`src/text/toolCalls`) or the sandbox itself
 * (`src/live/sandbox`).
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { errorMessage } from '../../core/failure.js'
import type { Key } from '../../core/key.js'
import { aFunction, aNumber, anything, aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import type { ResourceSpec } from '../../core/resource.js'
import type { ContentPart, ToolCall } from '../../text/history/history.js'
import type { Episode } from '../base/episode.js'
import type { ToolFailure } from '../base/toolFailure.js'
import { type ToolEnvironment, toolEnvironment } from '../resources/toolEnvironment.js'

/** The result of a call. */
export interface ToolReply<S = unknown> {
  readonly content: string | readonly ContentPart[]
  /** `finish` ends the episode after this call, as answer tools do. Default `success`. */
  readonly status?: 'success' | 'finish'
  /** What the tool remembers of this conversation: JSON values. */
  readonly state: S
}

/** What a call may use. */
export interface ToolContext<S = unknown> {
  /** What the call before it in this conversation left. */
  readonly state: S
  /** Randomness of this call alone. */
  readonly key: Key
  /** The conversation that the call belongs to; undefined for calls outside of environments. */
  readonly episode?: Episode | undefined
  /**
   * Aborted when nobody waits any more: at the tool's limit, or when the rollout is cancelled. The
   * tool ends what it began.
   */
  readonly signal: AbortSignal
}

/**
 * A tool, as a value. It keeps nothing between calls but `state`, which is an argument and a
 * result, so that a conversation can be replayed and forked; processes and connections belong to
 * capabilities that it was made with.
 */
export interface Tool {
  readonly name: string
  /** For the policy: what it does. */
  readonly description: string
  /** JSON schema of the arguments: an object. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** What it remembers at the beginning of a conversation: JSON values. */
  readonly initial: unknown
  readonly call: (args: ToolCall['arguments'], context: ToolContext) => TE.TaskEither<ToolFailure, ToolReply>
  /** Gives back what the tool holds for an episode. Default: it holds nothing. */
  readonly release?: (episode: Episode) => void
  /** Ends what the tool holds for all. Default: it holds nothing. */
  readonly close?: () => Promise<void>
}

/** The environment that a tool holds: one that it shares, or a spec for one of its own. */
export type HeldEnvironment<R> = ToolEnvironment<R> | ResourceSpec<R>

export interface ToolOptions<A extends z.ZodRawShape, S, R = undefined> {
  readonly name: string
  readonly description: string
  /** The arguments by name. A call with others is refused. */
  readonly parameters: A
  /** What it remembers at the beginning: null for nothing. */
  readonly initial: S
  /**
   * An environment for the calls, which `run` gets as `environment`: a resource, or one shared with
   * other tools and rewards. Default: none.
   */
  readonly environment?: HeldEnvironment<R>
  /** With a resource: most environments at a time. Default 8. */
  readonly poolSize?: number
  /**
   * Arguments are as the schema says. What it throws, or rejects with, is told to the policy as
   * `failed`.
   */
  readonly run: (
    args: z.output<z.ZodObject<A, z.core.$strict>>,
    context: ToolContext<S> & { readonly environment: R },
  ) => TE.TaskEither<ToolFailure, ToolReply<S>> | Promise<ToolReply<S>>
}

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
    : E.left(toolFailure(name, 'arguments', `the arguments do not fit: ${z.prettifyError(parsed.error)}`))
}

const TOOL_OPTIONS: OptionKinds<ToolOptions<never, never>> = {
  name: aText,
  description: aText,
  parameters: anything,
  initial: anything,
  environment: aRecord,
  poolSize: aNumber,
  run: aFunction,
}

/** The environment of a tool. One that is made of a resource is the tool's own. */
const environmentOf = <R>({
  environment,
  poolSize,
}: Pick<ToolOptions<z.ZodRawShape, unknown, R>, 'environment' | 'poolSize'>): ToolEnvironment<R> | undefined => {
  if (environment !== undefined && !('use' in environment))
    return toolEnvironment(environment, poolSize === undefined ? {} : { poolSize })
  if (poolSize !== undefined) throw new RangeError('tool: poolSize is for an environment that is a resource')
  return environment
}

type Ran<S> = E.Either<ToolFailure, ToolReply<S>>

/** Runs a call with the environment of its episode. Without one there is nothing to fail. */
const runHolding = async <R, S>(
  name: string,
  held: ToolEnvironment<R>,
  { episode, signal }: ToolContext,
  run: (environment: R) => Promise<Ran<S>>,
): Promise<Ran<S>> => {
  const used = await held.use(episode, signal, run)
  return E.isLeft(used) ? E.left(toolFailure(name, 'infrastructure', used.left.reason)) : used.right
}

/**
 * A tool from zod schemas of its arguments and a function.
 *
 * Errors   throws for a schema that JSON schema cannot express. `call` gives `Left(ToolFailure)`:
 *          `arguments` with every problem of them, `failed` with what the function threw.
 *
 * @example
 * tool({ name: 'now', description: '', parameters: {}, initial: null, run: async () => ({ content: 'noon', state: null }) }).name // 'now'
 */
export const tool = <A extends z.ZodRawShape, S, R = undefined>(options: ToolOptions<A, S, R>): Tool => {
  checkOptions('tool', options, TOOL_OPTIONS)
  const { name, description, initial, run } = options
  const held = environmentOf(options)
  const attempt = async (work: () => ReturnType<typeof run>): Promise<Ran<S>> => {
    try {
      const running = work()
      return typeof running === 'function' ? await running() : E.right(await running)
    } catch (error) {
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
          const own = context as ToolContext<S> // the state is of type S: it is `initial`, or what `run` left
          const call = (environment: R) => attempt(() => run(read, { ...own, environment }))
          // Without an environment R is undefined.
          return held === undefined ? call(undefined as R) : runHolding(name, held, context, call)
        }),
      ),
    ...(held !== undefined && { release: held.release, close: held.close }),
  }
}
