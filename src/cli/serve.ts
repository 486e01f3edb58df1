/** `tandem serve`: a model over HTTP, with vLLM's protocol. */
import { basename } from 'node:path'
import { Argument, Command, Option } from 'commander'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Failure } from '../core/failure.js'
import { keyFromSeed } from '../core/key.js'
import type { LLMEngine } from '../data/generation.js'
import { TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from '../data/toolCalls/format.js'
import { EMBEDDED_MODEL } from '../live/embeddedModel.js'
import { isLoopback } from '../live/httpServer.js'
import { serveApp } from '../serve/app.js'
import type { ReadAdapter } from '../serve/served.js'
import { orFail } from './failure.js'
import {
  ALLOWED_HOSTS_HELP,
  type EngineOptions,
  engineOptions,
  MODEL_HELP,
  naturalNumber,
  portNumber,
  positiveInteger,
  seconds,
} from './options.js'
import { keysOf, type ListenFlags, listening, loadModel, type ModelToServe, say, untilStopped } from './serving.js'

/** Limits of the engine, and where it computes. What is left out is the engine's own choice. */
interface ServedEngineOptions extends EngineOptions {
  readonly maxModelLength?: number
  readonly maxConcurrent?: number
  readonly cacheBytes?: number
}

/** An engine and how adapters for it are read. */
interface ServedEngine {
  readonly engine: LLMEngine
  readonly readAdapter: ReadAdapter
}

/** Starts an engine for a model. */
export type StartServedEngine = (model: ModelToServe, options: ServedEngineOptions) => TaskEither<Failure, ServedEngine>

interface ServeFlags extends EngineOptions, ListenFlags {
  readonly servedModelName?: readonly string[]
  readonly apiKey?: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly dev?: true
  readonly enableLora?: true
  readonly maxModelLen?: number
  readonly maxNumSeqs?: number
  readonly kvCacheBytes?: number
  readonly maxLogprobs: number
  readonly maxBodyBytes?: number
  readonly logprobsMode: 'raw_logprobs' | 'processed_logprobs'
  readonly toolCallParser?: ToolCallFormat | 'none'
  readonly seed: number
  readonly shutdownSeconds: number
}

/** Warns where others can reach what asks for no key. */
const warn = ({ host, dev }: ServeFlags, keys: readonly string[]): void => {
  if (isLoopback(host)) return
  if (keys.length === 0) say(`warning: ${host} can be reached by others, and there is no --api-key`)
  if (dev === true)
    say('warning: the endpoints of --dev ask for no key: whoever reaches this port can change the weights')
}

const start = async (given: string, flags: ServeFlags, startServed: StartServedEngine): Promise<void> => {
  const keys = keysOf(flags)
  const model = await loadModel(given)
  const { engine, readAdapter } = await orFail(
    startServed(model, {
      ...(flags.backend && { backend: flags.backend }),
      ...(flags.threads !== undefined && { threads: flags.threads }),
      ...(flags.maxModelLen !== undefined && { maxModelLength: flags.maxModelLen }),
      ...(flags.maxNumSeqs !== undefined && { maxConcurrent: flags.maxNumSeqs }),
      ...(flags.kvCacheBytes !== undefined && { cacheBytes: flags.kvCacheBytes }),
    }),
  )
  const toolCalls = flags.toolCallParser ?? toolCallFormatOf(model.text.template.source)
  const names = flags.servedModelName ?? [given === EMBEDDED_MODEL ? basename(EMBEDDED_MODEL) : given]
  const app = serveApp({
    engine,
    model: { names, root: model.folder },
    text: model.text,
    key: keyFromSeed(flags.seed),
    limits: {
      maxLogProbs: flags.maxLogprobs,
      ...(flags.maxBodyBytes !== undefined && { maxBodyBytes: flags.maxBodyBytes }),
    },
    access: { apiKeys: keys, corsOrigins: flags.allowedOrigins ?? [] },
    features: {
      control: flags.dev === true ? 'on' : 'off',
      readAdapter: flags.enableLora === true ? readAdapter : null,
      toolCalls,
      logProbsMode: flags.logprobsMode,
    },
  })
  const server = await listening(app, engine, flags)
  warn(flags, keys)
  const { maxModelLength, maxConcurrent } = engine.info
  say(
    `${maxModelLength} tokens of context, ${maxConcurrent} requests at a time, tool calls: ${toolCalls}, ${flags.logprobsMode}`,
  )
  process.stdout.write(`serving ${names.join(', ')} at ${server.url}\n`)
  await untilStopped(server, engine, 1000 * flags.shutdownSeconds)
}

/** The command, over an engine that `startServed` starts. */
export const serveCommand = (startServed: StartServedEngine): Command => {
  const command = new Command('serve')
    .description("Serve a model over HTTP with vLLM's protocol: completions, chat, tokens in and out.")
    .addArgument(new Argument('[model]', MODEL_HELP).default(EMBEDDED_MODEL, 'the one that comes with Tandem'))
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(new Option('--port <n>', 'port to listen on; 0 takes a free one').argParser(portNumber).default(8000))
    .option('--allowed-hosts <names...>', ALLOWED_HOSTS_HELP)
    .option('--served-model-name <names...>', 'names under which the model answers (default: as it was given)')
    .option('--api-key <keys...>', 'ask for one of these keys (default: TANDEM_API_KEY of the environment)')
    .option('--allowed-origins <origins...>', "web pages that may ask, or '*' (default: none)")
    .option('--dev', 'endpoints that pause the engine and change its weights, without a key')
    .option('--enable-lora', 'endpoints that load and unload LoRA adapters')
    .addOption(new Option('--max-model-len <n>', 'tokens of prompt and completion together').argParser(positiveInteger))
    .addOption(new Option('--max-num-seqs <n>', 'requests decoded at a time').argParser(positiveInteger))
    .addOption(new Option('--kv-cache-bytes <n>', 'memory for keys and values').argParser(positiveInteger))
    .addOption(
      new Option('--max-logprobs <n>', 'most log-probabilities for each token').argParser(naturalNumber).default(20),
    )
    .addOption(new Option('--max-body-bytes <n>', 'largest request (default: 32 MiB)').argParser(positiveInteger))
    .addOption(
      new Option('--logprobs-mode <mode>', 'log-probabilities before or after temperature, penalties and cuts')
        .choices(['raw_logprobs', 'processed_logprobs'])
        .default('raw_logprobs'),
    )
    .addOption(
      new Option(
        '--tool-call-parser <format>',
        'how the model writes calls of tools (default: told from its chat template)',
      ).choices([...TOOL_CALL_FORMATS, 'none']),
    )
    .addOption(new Option('--seed <n>', 'seed of requests that have none').argParser(naturalNumber).default(0))
    .addOption(
      new Option('--shutdown-seconds <n>', 'how long running requests may end after a signal')
        .argParser(seconds)
        .default(30),
    )
  for (const option of engineOptions()) command.addOption(option)
  return command.action((given: string, flags: ServeFlags) => start(given, flags, startServed))
}
