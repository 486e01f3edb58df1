/** The user's own agent: its program runs against a server that captures what the model sampled. */
import {
  ABORTED,
  type Cancellation,
  cancellation,
  checkOptions,
  FailureError,
  keyFromSeed,
  limiter,
  orThrow,
  refuse,
  unlessAborted,
} from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import { liveHttpServer } from '@tandem-rl/host'
import {
  type AgentAttempt,
  type AgentModel,
  type CapturedAgent,
  type OpenAgent,
  type PlayedAttempt,
  type SessionEnd,
  type Task,
  type ToolCallFormat,
  toolCallFormatOf,
  withToolPrompt,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { CAPTURE_COMMAND_OPTIONS, CAPTURE_FUNCTION_OPTIONS } from '../optionKinds.js'
import { TOOLS_NOT_SHOWN } from '../requests/chat.js'
import { apiFailure, errorBody } from '../requests/failure.js'
import { relaxedChoices } from '../requests/served.js'
import { type CaptureApp, captureApp } from './app.js'
import { type AgentContext, type CommandLine, commandProgram, type Program } from './program.js'

interface SharedOptions {
  /** A name for run folders and messages. Default: the function's name, or the command. */
  readonly name?: string
  /** Time limit of an attempt in ms. Default 600,000. */
  readonly timeoutMs?: number
  /** Attempts at a time. Default 16 for functions, 4 for processes. */
  readonly maxConcurrent?: number
  /** Format of tool calls. Default: the one of the model's chat template. */
  readonly toolCalls?: ToolCallFormat | 'none'
  /**
   * Writes tools into the system message, and calls in this format, for models whose chat template
   * shows no tools. Default: the template as it is.
   */
  readonly toolPrompt?: ToolCallFormat
  /**
   * Treatment of requests with `tool_choice: "required"`, which needs constrained decoding: refused
   * with 400, or treated as "auto" and counted in the metric `relaxedToolChoices`. Default
   * `refuse`.
   */
  readonly toolChoiceRequired?: 'refuse' | 'auto'
  /** Address to listen on. Default: this computer only. */
  readonly host?: string
  /** Port to listen on. Default 0: a free one. */
  readonly port?: number
}

/** Runs the agent as a function of this process. */
export interface RunAgent<in T extends Task> extends SharedOptions {
  /** Runs the agent on a task. The returned value is the prediction, or the reward. */
  readonly run: (task: T, context: AgentContext) => unknown
}

/** Runs the agent as a process. */
export interface CommandAgent<in T extends Task> extends SharedOptions {
  /** The program and its arguments. It reads the query from its input, and prints its answer. */
  readonly command: CommandLine<T>
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>
  /** Working folder. Default: that of this process. */
  readonly folder?: string
}

export type CaptureAgentOptions<T extends Task = Task> = RunAgent<T> | CommandAgent<T>

const isCommand = <T extends Task>(options: CaptureAgentOptions<T>): options is CommandAgent<T> => 'command' in options

const nameOf = <T extends Task>(options: CaptureAgentOptions<T>): string => {
  if (options.name !== undefined) return options.name
  if (!isCommand(options)) return options.run.name === '' ? 'agent' : options.run.name
  return typeof options.command === 'function' ? 'command' : options.command.join(' ')
}

const programOf = <T extends Task>(options: CaptureAgentOptions<T>): Program<T> =>
  isCommand(options) ? commandProgram(options.command, options) : async (task, context) => options.run(task, context)

/** The limits of an agent's attempts. */
interface Limits {
  readonly timeoutMs: number
  readonly maxConcurrent: number
}

/** Waits for a program at most until its time is over. */
const ended = async <T extends Task>(
  program: Program<T>,
  {
    task,
    context,
    work,
    timeoutMs,
  }: {
    readonly task: T
    readonly context: AgentContext
    readonly work: Cancellation
    readonly timeoutMs: number
  },
): Promise<{ readonly result: unknown; readonly end: SessionEnd }> => {
  const failed = (reason: string) => ({ result: undefined, end: { status: 'failed' as const, reason } })
  const calledOff = () =>
    failed(work.why() === 'deadline' ? `the program did not end within ${timeoutMs} ms` : 'the run was ended')
  try {
    const result = await unlessAborted(program(task, context), work.signal)
    return result === ABORTED ? calledOff() : { result, end: { status: 'ok', reason: null } }
  } catch (error) {
    return work.why() === null ? failed(`the program failed: ${thrownText(error)}`) : calledOff()
  }
}

/** Applies the settings of tools to the text of a model. Throws FailureError for wrong ones. */
const textFor = (
  { tokenizer, template: own }: AgentModel['text'],
  { toolPrompt, toolCalls }: SharedOptions,
): AgentModel['text'] => {
  const template = toolPrompt === undefined ? own : withToolPrompt(own, toolPrompt)
  if (toolCalls !== undefined && toolCalls !== 'none' && template.tools === 'ignored')
    throw new FailureError({ _tag: 'AgentFailure', reason: TOOLS_NOT_SHOWN })
  return { tokenizer, template }
}

const opened = async <T extends Task>(
  { engine, text: own }: AgentModel,
  {
    program,
    limits: { timeoutMs, maxConcurrent },
    options,
  }: {
    readonly program: Program<T>
    readonly limits: Limits
    readonly options: SharedOptions
  },
): Promise<OpenAgent<T>> => {
  const text = textFor(own, options)
  const { toolChoiceRequired = 'refuse' } = options
  const relaxed = relaxedChoices()
  const app: CaptureApp = captureApp(
    {
      engine,
      text,
      model: { names: ['policy'], root: 'policy' },
      key: keyFromSeed(0),
      features: { toolCalls: options.toolCalls ?? toolCallFormatOf(text.template), toolChoiceRequired },
      relaxedChoices: relaxed,
    },
    { unknown: 'refuse', limits: { idleMs: Number.POSITIVE_INFINITY } },
  )
  let late = 0
  let setup: 'right' | typeof TOOLS_NOT_SHOWN = 'right'
  const fetch = async (request: Request): Promise<Response> => {
    const answer = await app.fetch(request)
    if (answer.status === 409 || answer.status === 404) late++
    if (answer.status === 400 && (await answer.clone().text()).includes(JSON.stringify(TOOLS_NOT_SHOWN)))
      setup = TOOLS_NOT_SHOWN
    return answer
  }
  const refusal = (status: number, reason: string): string => JSON.stringify(errorBody(apiFailure(status, reason)))
  const server = orThrow(
    await liveHttpServer(fetch, {
      port: options.port ?? 0,
      refusal,
      ...(options.host !== undefined && { host: options.host }),
    })(),
  )
  const places = limiter(maxConcurrent)
  const all = cancellation()

  const run = async (
    { id, task }: AgentAttempt<T>,
    { path, apiKey }: { readonly path: string; readonly apiKey: string },
    signal: AbortSignal,
  ) => {
    const work = cancellation({ signal, deadlineMs: timeoutMs })
    const headers = { authorization: `Bearer ${apiKey}`, 'x-session-id': id }
    const context = { baseUrl: `${server.url}${path}`, apiKey, headers, signal: work.signal }
    try {
      return await ended(program, { task, context, work, timeoutMs })
    } finally {
      work.release()
    }
  }

  const play = async (attempt: AgentAttempt<T>): Promise<PlayedAttempt> => {
    const { id, group, task, key, temperature, maxNewTokens } = attempt
    const failed = (reason: string): PlayedAttempt => ({
      session: {
        id,
        group,
        metadata: {},
        createdAt: 0,
        calls: [],
        reward: null,
        end: { status: 'failed', reason },
      },
      result: undefined,
    })
    const sampling = {
      temperature,
      maxTokens: maxNewTokens,
      topK: 0,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      logitBias: new Map<number, number>(),
    }
    if (setup !== 'right') return failed(setup) // every other attempt would end like the first one
    const address = await app.open({ id, group, metadata: { task: task.id }, sampling, key })
    if (E.isLeft(address)) return failed(address.left.reason)
    const part = all.part() // many listeners on one signal would be slow
    const played = await places.run(() => run(attempt, address.right, part.signal), part.signal)
    part.release()
    if (played === ABORTED) return failed('the run was ended')
    const end: SessionEnd = setup === 'right' ? played.end : { status: 'failed', reason: setup }
    const session = await app.finish(id, end)
    return session === null ? failed('the session was dropped') : { session, result: played.result }
  }

  return {
    play,
    drop: app.drop,
    lateCalls: () => late,
    ...(toolChoiceRequired === 'auto' && { relaxedToolChoices: relaxed.count }),
    close: async () => {
      all.stop()
      await server.close({ graceMs: 0, atLimit: async () => {}, cutMs: 1000 })
    },
  }
}

/**
 * Makes an agent of a program that uses a model's API, for `grpoParts`. The program is trained as
 * it is: it only has to send its requests to `baseUrl`.
 *
 * The server speaks OpenAI's chat and Responses APIs and Anthropic's Messages API, streamed or not,
 * with tools. It answers to every model name, and samples at the run's temperature. Each attempt
 * has its own base address, so parallel calls of one program, such as those of sub-agents, belong
 * to one session. A process gets the address in `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`.
 *
 * An attempt fails if the program throws, exceeds `timeoutMs`, or ends before its calls are
 * answered. A failed attempt has no reward. Calls after the end of an attempt are refused with 409
 * or 404.
 *
 * Errors   throws RangeError for invalid options.
 * Effects  none until a run opens the agent.
 *
 * @example
 * capture({ run: async ({ query }, { baseUrl }) => `${query} at ${baseUrl}`, name: 'echo' }).name // 'echo'
 */
export const capture = <T extends Task = Task>(options: CaptureAgentOptions<T>): CapturedAgent<T> => {
  if (isCommand(options)) checkOptions('capture', options, CAPTURE_COMMAND_OPTIONS)
  else checkOptions('capture', options, CAPTURE_FUNCTION_OPTIONS)
  const { timeoutMs = 600_000, maxConcurrent = isCommand(options) ? 4 : 16 } = options
  refuse('capture', [
    !isCommand(options) && typeof options.run !== 'function' && 'expected run, a function, or command, a list',
    isCommand(options) && Array.isArray(options.command) && options.command.length === 0 && 'command must not be empty',
    options.toolPrompt !== undefined &&
      (options.toolCalls ?? options.toolPrompt) !== options.toolPrompt &&
      `toolCalls must be the format of toolPrompt, '${options.toolPrompt}', got '${options.toolCalls}'`,
    !(timeoutMs > 0) && `timeoutMs must be positive, got ${timeoutMs}`,
    !(Number.isInteger(maxConcurrent) && maxConcurrent >= 1) &&
      `maxConcurrent must be an integer of at least 1, got ${maxConcurrent}`,
  ])
  const name = nameOf(options)
  const program = programOf(options)
  return {
    _tag: 'CapturedAgent',
    name,
    description: { agent: name, kind: isCommand(options) ? 'command' : 'run' },
    open: (model) => opened(model, { program, limits: { timeoutMs, maxConcurrent }, options }),
  }
}
