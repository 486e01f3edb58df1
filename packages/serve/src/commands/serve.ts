/** `tandem serve`: serves a model over HTTP with vLLM's protocol. */
import { type Failure, keyFromSeed } from '@tandem-rl/base'
import { liveMachine } from '@tandem-rl/base/host'
import { isLoopback } from '@tandem-rl/host'
import type { LLMEngine } from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { EMBEDDED_MODEL } from 'tandem-rl'
import {
  Argument,
  adapterOption,
  Command,
  countFor,
  type EngineOptions,
  engineOptions,
  InvalidArgumentError,
  MODEL_HELP,
  modelName,
  Option,
  orFail,
} from 'tandem-rl/command'
import { serveApp } from '../app.js'
import type { ReadAdapter } from '../requests/served.js'
import {
  ALLOWED_HOSTS_HELP,
  keysOf,
  type ListenFlags,
  listening,
  loadModel,
  type ModelToServe,
  sayLine,
  servedNames,
  serverOptions,
  type ToolFlags,
  untilStopped,
  WHOLE,
  warnIfOpen,
} from './serving.js'

/** Limits and backend of the engine. Omitted options take the engine's defaults. */
interface ServedEngineOptions extends EngineOptions {
  readonly maxModelLength?: number
  readonly maxConcurrent?: number
  readonly cacheBytes?: number
  readonly prefixCache?: 'on' | 'off'
}

/** An engine, and the function that reads adapters for it. */
interface ServedEngine {
  readonly engine: LLMEngine
  readonly readAdapter: ReadAdapter
}

/** Starts an engine for a model. */
export type StartServedEngine = (model: ModelToServe, options: ServedEngineOptions) => TaskEither<Failure, ServedEngine>

interface ServeFlags extends EngineOptions, ListenFlags, ToolFlags {
  readonly adapter?: string
  readonly tinker?: true
  readonly env?: string
  readonly set?: readonly string[]
  readonly tinkerCheckpoints: string
  readonly servedModelName?: readonly string[]
  readonly apiKey?: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly dev?: true
  readonly enableLora?: true
  readonly maxModelLen?: number
  readonly maxNumSeqs?: number
  readonly kvCacheBytes?: number
  /** False with `--no-enable-prefix-caching`. */
  readonly enablePrefixCaching: boolean
  readonly maxLogprobs: number
  readonly maxBodyBytes?: number
  readonly logprobsMode: 'raw_logprobs' | 'processed_logprobs'
  readonly seed: number
  readonly shutdownSeconds: number
}

/** Warns if other machines can reach endpoints that require no key. */
const warn = ({ host, dev }: ServeFlags, keys: readonly string[]): void => {
  warnIfOpen(host, keys)
  if (dev === true && !isLoopback(host))
    sayLine('warning: the endpoints of --dev require no key: anyone who can reach this port can change the weights')
}

const start = async (named: string, flags: ServeFlags, startServed: StartServedEngine): Promise<void> => {
  const given = flags.adapter === undefined ? named : modelName(named, flags.adapter)
  const keys = keysOf(flags)
  if (flags.tinker === true) {
    const { serveTinker } = await import('./serveTinker.js') // trains, which the other server does not
    return serveTinker(given, { ...flags, keys })
  }
  if (flags.env !== undefined) {
    const { serveEnv } = await import('./serveEnv.js')
    return serveEnv(flags.env, { ...flags, keys })
  }
  const model = await loadModel(given, flags)
  const { engine, readAdapter } = await orFail(
    startServed(model, {
      ...(flags.backend && { backend: flags.backend }),
      ...(flags.threads !== undefined && { threads: flags.threads }),
      ...(flags.maxModelLen !== undefined && { maxModelLength: flags.maxModelLen }),
      ...(flags.maxNumSeqs !== undefined && { maxConcurrent: flags.maxNumSeqs }),
      ...(flags.kvCacheBytes !== undefined && { cacheBytes: flags.kvCacheBytes }),
      ...(!flags.enablePrefixCaching && { prefixCache: 'off' }),
    }),
  )
  const names = flags.servedModelName ?? servedNames(given)
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
      ...model.reading,
      logProbsMode: flags.logprobsMode,
    },
  })
  const server = await listening(app, engine, flags)
  warn(flags, keys)
  const { maxModelLength, maxConcurrent } = engine.info
  const { cacheBytes } = await engine.metrics()
  sayLine(
    `${maxModelLength} tokens of context, ${maxConcurrent} requests at a time, KV cache up to ${Math.ceil(cacheBytes / 2 ** 20)} MiB, tool calls: ${model.reading.toolCalls}, ${flags.logprobsMode}`,
  )
  await untilStopped(server, engine, {
    graceMs: 1000 * flags.shutdownSeconds,
    ready: `serving ${names.join(', ')} at ${server.url}`,
  })
}

/** Parses the memory for the KV cache, which is at most that of the machine. */
const cacheBytes = (text: string): number => {
  const bytes = WHOLE.fromOne(text)
  const most = liveMachine.memoryBytes()
  if (bytes > most) throw new InvalidArgumentError(`It must be at most ${most}, the memory of this machine.`)
  return bytes
}

/** Makes the command, with an engine started by `startServed`. */
export const serveCommand = (startServed: StartServedEngine): Command => {
  const command = new Command('serve')
    .addArgument(new Argument('[model]', MODEL_HELP).default(EMBEDDED_MODEL, 'the built-in model'))
    .addOption(adapterOption('[model]'))
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(new Option('--port <n>', 'port to listen on; 0 picks a free port').argParser(WHOLE.port).default(8000))
    .option('--allowed-hosts <names...>', ALLOWED_HOSTS_HELP)
    .option('--served-model-name <names...>', 'names of the model for clients (default: its folder or name)')
    .option('--api-key <keys...>', 'require one of these keys (default: variable TANDEM_API_KEY)')
    .option('--allowed-origins <origins...>', "origins of web pages that may send requests, or '*' (default: none)")
    .option('--dev', 'enable endpoints that pause the engine and change its weights; they require no key')
    .option('--tinker', 'train and sample by the Tinker protocol instead')
    .option('--tinker-checkpoints <folder>', 'folder for checkpoints of --tinker', 'tinker-checkpoints')
    .option('--env <recipe>', "serve a recipe's environment instead, for OpenEnv, verifiers and OpenRLHF")
    .option('--set <settings...>', 'settings of that recipe, such as steps=10')
    .option('--enable-lora', 'enable endpoints that load and unload LoRA adapters')
    .addOption(new Option('--max-model-len <n>', 'most tokens of prompt and completion').argParser(WHOLE.fromOne))
    .addOption(
      new Option('--max-num-seqs <n>', 'most requests decoded at a time').argParser(countFor('--max-num-seqs')),
    )
    .addOption(new Option('--kv-cache-bytes <n>', 'memory for the KV cache').argParser(cacheBytes))
    .option('--no-enable-prefix-caching', 'keep no keys and values of finished requests')
    .addOption(
      new Option('--max-logprobs <n>', 'most log-probabilities per token').argParser(WHOLE.fromZero).default(20),
    )
    .addOption(new Option('--max-body-bytes <n>', 'largest request (default: 32 MiB)').argParser(WHOLE.fromOne))
    .addOption(
      new Option('--logprobs-mode <mode>', 'log-probabilities before or after temperature, penalties, top-k and top-p')
        .choices(['raw_logprobs', 'processed_logprobs'])
        .default('raw_logprobs'),
    )
  for (const option of [...serverOptions(), ...engineOptions()]) command.addOption(option)
  return command.action((given: string, flags: ServeFlags) => start(given, flags, startServed))
}
