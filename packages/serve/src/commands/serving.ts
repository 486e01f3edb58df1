/** Shared parts of the serving commands: loading a model, keys, listening, graceful shutdown. */
import { existsSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { SocketOptions } from '@tandem-rl/base'
import { print, printError } from '@tandem-rl/base/host'
import { type HttpServer, isLoopback, liveFiles, liveHttpServer } from '@tandem-rl/host'
import {
  type LLMEngine,
  TOOL_CALL_FORMATS,
  type ToolCallFormat,
  thoughtTagsOf,
  toolCallFormatOf,
  withToolPrompt,
} from '@tandem-rl/text'
import { EMBEDDED_MODEL, type Pretrained } from 'tandem-rl'
import {
  CommandError,
  type EndingSignal,
  integerBetween,
  locatedModel,
  Option,
  orFail,
  SIGNAL_CODES,
} from 'tandem-rl/command'
import { loadText, samplingDefaults } from 'tandem-rl/models'
import { TOOLS_NOT_SHOWN } from '../requests/chat.js'
import { apiFailure, errorBody } from '../requests/failure.js'
import type { ServeFeatures } from '../requests/served.js'

/** A model's tokenizer, template and config, and the name of its folder, with its adapters. */
export interface ModelToServe extends Omit<Pretrained, 'arrays'> {
  readonly folder: string
}

/** Parsers of whole numbers. Port 0 picks a free one, and timers are limited to 2^31 ms. */
export const WHOLE = {
  fromZero: integerBetween(0),
  fromOne: integerBetween(1),
  port: integerBetween(0, 65_535),
  seconds: integerBetween(0, 2_147_483),
} as const

/** Prints a line to standard error. */
export const sayLine = (text: string): void => {
  printError(`${text}\n`)
}

/** Returns the API keys of the flag, or of the environment, which process lists do not show. */
export const keysOf = ({ apiKey }: { readonly apiKey?: readonly string[] }): readonly string[] => {
  const keys = apiKey ?? (process.env.TANDEM_API_KEY ? [process.env.TANDEM_API_KEY] : [])
  if (keys.includes('')) throw new CommandError('an API key must not be empty')
  return keys
}

/** The options of every command that serves a model. */
export const serverOptions = (): readonly Option[] => [
  new Option(
    '--tool-call-parser <format>',
    'tool call format of the model (default: detected from its chat template)',
  ).choices([...TOOL_CALL_FORMATS, 'none']),
  new Option(
    '--tool-prompt <format>',
    'write tools into the system message, for chat templates that show none (default: the template as it is)',
  ).choices(TOOL_CALL_FORMATS),
  new Option(
    '--thoughts <kind>',
    "'searched': calls in the model's thoughts count; 'none': thoughts are part of the text (default: apart, by the tags of its chat template)",
  ).choices(['searched', 'none']),
  new Option(
    '--tool-choice-required <how>',
    'tool_choice "required", which needs constrained decoding: refuse it, or treat it as "auto" and count it',
  )
    .choices(['refuse', 'auto'])
    .default('refuse'),
  new Option('--seed <n>', 'seed for requests without one').argParser(WHOLE.fromZero).default(0),
  new Option('--shutdown-seconds <n>', 'grace period for running requests after a signal')
    .argParser(WHOLE.seconds)
    .default(30),
]

/** The formats of tool calls and thoughts. */
export interface ToolFlags {
  readonly toolCallParser?: ToolCallFormat | 'none'
  readonly toolPrompt?: ToolCallFormat
  readonly thoughts?: 'searched' | 'none'
  readonly toolChoiceRequired: ServeFeatures['toolChoiceRequired']
}

/**
 * Loads a model, and prints a line for each slow step, and for the sampling defaults of its files,
 * which vLLM would apply. Throws CommandError if the flags of tools contradict its chat template.
 */
export const loadModel = async (
  given: string,
  { toolCallParser, toolPrompt, thoughts, toolChoiceRequired }: ToolFlags,
): Promise<
  ModelToServe & { readonly reading: Pick<ServeFeatures, 'toolCalls' | 'toolChoiceRequired' | 'thoughts'> }
> => {
  if (toolPrompt !== undefined && (toolCallParser ?? toolPrompt) !== toolPrompt)
    throw new CommandError(`--tool-call-parser must be the format of --tool-prompt, ${toolPrompt}`)
  const { base, name } = await locatedModel(given)
  const { text, ...rest } = await orFail(loadText(name))
  const defaults = (await orFail(samplingDefaults(liveFiles, base))).map(([key, value]) => `${key} ${value}`)
  if (defaults.length > 0) sayLine(`not applied from generation_config.json: ${defaults.join(', ')}`)
  const template = toolPrompt === undefined ? text.template : withToolPrompt(text.template, toolPrompt)
  if (toolCallParser !== undefined && toolCallParser !== 'none' && template.tools === 'ignored')
    throw new CommandError(`--tool-call-parser: ${TOOLS_NOT_SHOWN}`)
  const reading = {
    toolCalls: toolCallParser ?? toolCallFormatOf(template),
    toolChoiceRequired,
    thoughts: thoughts ?? thoughtTagsOf(template.source),
  }
  return { folder: name, ...rest, text: { ...text, template }, reading }
}

/** Help text of `--allowed-hosts`. */
export const ALLOWED_HOSTS_HELP = 'Host headers to accept besides localhost, such as the name of a proxy'

/** The address to listen on. */
export interface ListenFlags {
  readonly host: string
  readonly port: number
  readonly allowedHosts?: readonly string[]
}

/** The options of every command that listens. */
export interface ServerFlags extends ListenFlags {
  /** API keys; see `keysOf`. */
  readonly keys: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly maxBodyBytes?: number
  readonly seed: number
  readonly shutdownSeconds: number
}

/** Warns if other machines can reach endpoints that require no key. */
export const warnIfOpen = (host: string, keys: readonly string[]): void => {
  if (!isLoopback(host) && keys.length === 0)
    sayLine(`warning: ${host} can be reached from other machines, and there is no --api-key`)
}

/** Starts listening. If that fails, closes the engine, which would keep the process alive. */
export const listening = async (
  app: { readonly fetch: (request: Request) => Promise<Response>; readonly sockets?: SocketOptions },
  engine: Pick<LLMEngine, 'close'>,
  { host, port, allowedHosts = [] }: ListenFlags,
): Promise<HttpServer> => {
  const refusal = (status: number, reason: string): string => JSON.stringify(errorBody(apiFailure(status, reason)))
  try {
    return await orFail(
      liveHttpServer(app.fetch, {
        host,
        port,
        names: allowedHosts,
        refusal,
        ...(app.sockets && { sockets: app.sockets }),
      }),
    )
  } catch (error) {
    await engine.close()
    throw error
  }
}

/**
 * Serves until a signal arrives, then lets requests finish. A second signal exits at once. Prints
 * the line `ready` when signals are handled. Returns the signal.
 */
export const untilStopped = (
  server: HttpServer,
  engine: Pick<LLMEngine, 'abort' | 'close'>,
  { graceMs, ready }: { readonly graceMs: number; readonly ready: string },
): Promise<EndingSignal> =>
  new Promise((done, reject) => {
    let isStopping = false
    const onSignal = (signal: EndingSignal): void => {
      if (isStopping) process.exit(SIGNAL_CODES[signal])
      isStopping = true
      sayLine(`\nfinishing running requests${signal === 'SIGINT' ? '; press Ctrl-C again to stop at once' : ''}`)
      server
        .close({ graceMs, atLimit: async () => void (await engine.abort()) })
        .then(() => engine.close())
        .then(() => done(signal), reject)
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
    print(`${ready}\n`)
  })

/** Returns the default names of a served model: its folder's own name and the given one. */
export const servedNames = (given: string): readonly string[] =>
  existsSync(given) ? [...new Set([basename(resolve(given)), ...(given === EMBEDDED_MODEL ? [] : [given])])] : [given]
