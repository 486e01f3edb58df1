/** `tandem capture`: a proxy in front of an engine that records agents' sessions. */
import { basename } from 'node:path'
import { countOf, type Failure, keyFromSeed, splitLogin } from '@tandem-rl/base'
import type { CapturedSession, LLMEngine } from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { EMBEDDED_MODEL } from 'tandem-rl'
import {
  Command,
  checkServerUrl,
  type EngineOptions,
  engineOptions,
  MODEL_HELP,
  nonNegativeNumber,
  Option,
  orFail,
  reminded,
  SIGNAL_CODES,
} from 'tandem-rl/command'
import type { EngineAbilities, EngineClient } from 'tandem-rl/remote'
import { clientEngine } from 'tandem-rl/remote'
import { captureApp } from '../capture/app.js'
import { type CaptureJournal, noJournal, openJournal } from '../capture/journal.js'
import type { StartServedEngine } from './serve.js'
import {
  ALLOWED_HOSTS_HELP,
  keysOf,
  type ListenFlags,
  listening,
  loadModel,
  type ModelToServe,
  sayLine,
  serverOptions,
  type ToolFlags,
  untilStopped,
  WHOLE,
  warnIfOpen,
} from './serving.js'

/** The server behind the proxy. */
interface Upstream {
  readonly url: string
  /** Name of the model on that server. */
  readonly model: string
  readonly apiKey: string | null
  /** Time limit of a call, including streaming. */
  readonly deadlineMs: number
}

/** Makes a client of a server. */
export type ConnectUpstream = (upstream: Upstream) => EngineClient

interface CaptureFlags extends EngineOptions, ListenFlags, ToolFlags {
  readonly upstream?: string
  readonly upstreamModel?: string
  readonly upstreamKey?: string
  readonly upstreamSeconds: number
  readonly modelFolder: string
  readonly servedModelName?: readonly string[]
  readonly apiKey?: readonly string[]
  readonly out?: string
  readonly unknownSessions: 'create' | 'refuse'
  readonly continuation: 'tokens' | 'render'
  readonly temperature?: number
  readonly maxSessions?: number
  readonly maxBytes?: number
  readonly idleSeconds?: number
  readonly seed: number
  readonly shutdownSeconds: number
}

/** Warns if the server's log-probabilities restrict which calls can be trained on. */
const warnOfLogProbs = ({ server, logProbs }: EngineAbilities, { temperature }: CaptureFlags): void => {
  if (logProbs === 'all' || (logProbs === 'raw' && temperature === 1)) return
  sayLine(
    logProbs === 'raw'
      ? `warning: ${server} returns raw log-probabilities: only calls at temperature 1 can be trained on; set --temperature 1`
      : `warning: ${server} returns log-probabilities after top-k, top-p and penalties: only calls without them can be trained on`,
  )
}

const upstreamOf = (url: string, flags: CaptureFlags, names: readonly string[]): Upstream => {
  const apiKey = flags.upstreamKey ?? process.env.TANDEM_UPSTREAM_API_KEY ?? null
  return {
    url,
    model: flags.upstreamModel ?? names[0]!,
    apiKey: apiKey === '' ? null : apiKey,
    deadlineMs: 1000 * flags.upstreamSeconds,
  }
}

/** Functions that make an engine from a server or from a folder. */
export interface CaptureEngines {
  readonly connect: ConnectUpstream
  readonly start: StartServedEngine
}

const engineOf = async (
  flags: CaptureFlags,
  { model, names }: { readonly model: ModelToServe; readonly names: readonly string[] },
  { connect, start }: CaptureEngines,
): Promise<LLMEngine> => {
  if (flags.upstream === undefined) {
    const { backend, threads } = flags
    const started = await orFail(
      start(model, { ...(backend && { backend }), ...(threads !== undefined && { threads }) }),
    )
    return started.engine
  }
  const client = connect(upstreamOf(flags.upstream, flags, names))
  const connected = client.connect as TaskEither<Failure, EngineAbilities> // an EngineFailure has a tag and a reason
  const abilities = await reminded('waiting for the server of --upstream', () => orFail(connected))
  sayLine(
    `${abilities.server} at ${splitLogin(new URL(flags.upstream)).url.href}, log-probabilities: ${abilities.logProbs}`,
  )
  warnOfLogProbs(abilities, flags)
  const { endTokens, vocabularySize } = model.config
  const known = {
    ...abilities,
    endTokens: abilities.endTokens.length > 0 ? abilities.endTokens : endTokens,
    vocabularySize: Math.min(abilities.vocabularySize, vocabularySize), // not every server reports its own
  }
  return clientEngine(client, known, model.text)
}

/** The journal of calls, and the sessions restored from it. */
interface Kept {
  readonly journal: CaptureJournal
  readonly sessions: readonly CapturedSession[]
}

/** Records sessions until a signal interrupts it, which its exit code reports. */
const listen = async (flags: CaptureFlags, engines: CaptureEngines, kept: Kept): Promise<void> => {
  const { journal, sessions } = kept
  const keys = keysOf(flags)
  if (flags.upstream !== undefined) checkServerUrl('--upstream', flags.upstream)
  const model = await loadModel(flags.modelFolder, flags)
  const given = flags.modelFolder
  const names = flags.servedModelName ?? [given === EMBEDDED_MODEL ? basename(EMBEDDED_MODEL) : given]
  const engine = await engineOf(flags, { model, names }, engines)
  const app = captureApp(
    {
      engine,
      model: { names, root: model.folder },
      text: model.text,
      key: keyFromSeed(flags.seed),
      access: { apiKeys: keys },
      features: model.reading,
    },
    {
      unknown: flags.unknownSessions,
      continuation: flags.continuation,
      journal,
      restored: sessions,
      sampling: flags.temperature === undefined ? {} : { temperature: flags.temperature },
      limits: {
        ...(flags.maxSessions !== undefined && { sessions: flags.maxSessions }),
        ...(flags.maxBytes !== undefined && { bytes: flags.maxBytes }),
        ...(flags.idleSeconds !== undefined && { idleMs: 1000 * flags.idleSeconds }),
      },
    },
  )
  const server = await listening(app, engine, flags)
  warnIfOpen(flags.host, keys)
  if (sessions.length > 0) sayLine(`restored ${countOf(sessions.length, 'session')} from ${flags.out}`)
  const signal = await untilStopped(server, engine, {
    graceMs: 1000 * flags.shutdownSeconds,
    ready: `capturing ${names.join(', ')} at ${server.url}`,
  })
  process.exitCode = SIGNAL_CODES[signal]
}

const capture = async (flags: CaptureFlags, engines: CaptureEngines): Promise<void> => {
  const kept: Kept =
    flags.out === undefined ? { journal: noJournal, sessions: [] } : await orFail(openJournal(flags.out))
  try {
    await listen(flags, engines, kept)
  } finally {
    await orFail(kept.journal.close)
  }
}

/** Limits of what is held in memory. */
const limitOptions = (): readonly Option[] =>
  [
    new Option('--max-sessions <n>', 'most sessions held at a time (default: 10,000)'),
    new Option('--max-bytes <n>', 'approximate memory limit for calls (default: 2 GiB)'),
    new Option('--idle-seconds <n>', 'idle time after which unfinished sessions are dropped (default: 3600)'),
  ].map((option) => option.argParser(WHOLE.fromOne))

/** Makes the command, with engines made by `engines`. */
export const captureCommand = (engines: CaptureEngines): Command => {
  const command = new Command('capture')
    .option('--upstream <url>', 'vLLM or tandem serve, which samples (default: an engine in this process)')
    .option('--upstream-model <name>', 'name of the model on that server (default: the first served name)')
    .option('--upstream-key <key>', 'API key of that server (default: variable TANDEM_UPSTREAM_API_KEY)')
    .addOption(
      new Option('--upstream-seconds <n>', 'time limit of a call to that server').argParser(WHOLE.seconds).default(600),
    )
    .addOption(
      new Option('--model-folder <name>', `the model's tokenizer and template: ${MODEL_HELP}`).default(
        EMBEDDED_MODEL,
        'the built-in model',
      ),
    )
    .option('--served-model-name <names...>', 'names of the model for clients (default: its folder)')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(new Option('--port <n>', 'port to listen on; 0 picks a free port').argParser(WHOLE.port).default(8100))
    .option('--allowed-hosts <names...>', ALLOWED_HOSTS_HELP)
    .option('--api-key <keys...>', 'require one of these keys (default: variable TANDEM_API_KEY)')
    .option('--out <file>', 'write every call to this file, and restore its sessions (default: keep in memory)')
    .addOption(
      new Option('--unknown-sessions <how>', 'treatment of calls for a session that was not opened')
        .choices(['create', 'refuse'])
        .default('create'),
    )
    .addOption(
      new Option('--continuation <how>', 'continue from the sampled tokens, or render every request again')
        .choices(['tokens', 'render'])
        .default('tokens'),
    )
    .addOption(
      new Option('--temperature <x>', 'temperature that overrides those of agents').argParser(nonNegativeNumber),
    )
  for (const option of [...serverOptions(), ...limitOptions(), ...engineOptions()]) command.addOption(option)
  return command.action((flags: CaptureFlags) => capture(flags, engines))
}
