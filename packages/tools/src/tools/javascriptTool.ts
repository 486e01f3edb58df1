import {
  ABORTED,
  checkOptions,
  type ResourceSpec,
  resourceFailure,
  type Thread,
  type Threads,
  type Timers,
  uniformInteger,
  unlessAborted,
} from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveThreads } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { ToolFailure } from 'tandem-rl/envs'
import { z } from 'zod'
import { JAVASCRIPT_TOOL_OPTIONS } from '../optionKinds.js'
import { resourcePool } from '../resources/resourcePool.js'
import type {
  JavaScriptCell,
  JavaScriptLimits,
  JavaScriptReply,
  JavaScriptRequest,
  JavaScriptWord,
} from './javascriptThread.js'
import { type Tool, type ToolReply, tool, toolFailure } from './tool.js'

export interface JavaScriptToolOptions {
  readonly name?: string
  /**
   * `none`: each call starts from an empty state. `session`: variables of the conversation's
   * earlier calls are restored by running those calls again. Default `none`.
   */
  readonly memory?: 'none' | 'session'
  /** Limits of a call. Default: 5 s, 64 MiB, 65,536 characters of output. */
  readonly limits?: Partial<JavaScriptLimits>
  /** Maximum number of idle threads. Default 2. */
  readonly maxIdle?: number
  /** Milliseconds after which an idle thread is ended. Default 30,000. */
  readonly idleMs?: number
  readonly threads?: Threads
  readonly timers?: Timers
}

/** A tool that keeps threads running between calls. */
export interface JavaScriptTool extends Tool {
  readonly idle: () => number
  /** Ends the idle threads. Resolves once all have ended. */
  readonly close: () => Promise<void>
}

const LIMITS: JavaScriptLimits = { wallMs: 5000, memoryBytes: 64 * 2 ** 20, outputLength: 2 ** 16 }
const PROGRAM = { module: new URL('./javascriptThread.js', import.meta.url).href, exportName: 'javascriptThread' }
const MAX_CELLS = 256
const MAX_CODE_LENGTH = 100_000

/**
 * Extra milliseconds before a thread is ended from outside. The interpreter cannot check the clock
 * during one long operation.
 */
const GRACE_MS = 1000

const START_MS = 300_000

/** A thread and a function that resolves with its next message. */
interface Worker {
  readonly thread: Thread
  readonly next: () => Promise<JavaScriptWord>
}

const workerOf = (thread: Thread): Worker => {
  const words: JavaScriptWord[] = []
  let reported: ((word: JavaScriptWord) => void) | undefined
  const tell = (word: JavaScriptWord): void => {
    if (reported === undefined) words.push(word)
    else reported(word)
    reported = undefined
  }
  thread.listen((message) => tell(message as JavaScriptWord)) // sent by `javascriptThread`
  void thread.ended.then(({ reason }) => tell({ _tag: 'Broken', reason }))
  return {
    thread,
    next: () =>
      new Promise((resolve) => {
        const word = words.shift()
        if (word === undefined) reported = resolve
        else resolve(word)
      }),
  }
}

const ended = (worker: Worker): Promise<void> => worker.thread.stop(Promise.resolve(), 0)

/** Formats a reply as an observation. */
const textOf = ({ _tag, text, dropped }: JavaScriptReply, { wallMs }: JavaScriptLimits): string => {
  if (_tag === 'lost')
    return `[the session is lost: its ${text} failed when it was run again; the next call starts a new session]`
  const lines = [
    text.replace(/\n$/, ''),
    ...(dropped === 0 ? [] : [`[${dropped} more characters of output]`]),
    ...(_tag === 'wall' ? [`[stopped: it ran longer than ${wallMs / 1000} s]`] : []),
  ].filter((line) => line !== '')
  return lines.length === 0 ? '[no output]' : lines.join('\n')
}

const WORKER_NAME = 'javascript'

/** Makes a spec of threads, which have no state between calls. */
const workerResource = (threads: Threads): ResourceSpec<Worker> => ({
  name: WORKER_NAME,
  start: () => async () => {
    const failed = (reason: string) => E.left(resourceFailure(WORKER_NAME, 'start', reason))
    const module = import.meta.url.endsWith('.ts') ? PROGRAM.module.replace(/\.js$/, '.ts') : PROGRAM.module
    const started = await threads.start({ ...PROGRAM, module }, { input: null, firstWordMs: START_MS })()
    if (E.isLeft(started)) return failed(started.left.reason)
    const worker = workerOf(started.right)
    const word = await worker.next()
    if (word._tag === 'Ready') return E.right(worker)
    await ended(worker)
    return failed(word._tag === 'Reply' ? 'the thread sent an unexpected message' : word.reason)
  },
  end: ended,
  reset: () => TE.right(undefined),
})

/**
 * Makes a tool that runs JavaScript. Its argument is `code`; its result is the console output and
 * the value of the last expression.
 *
 * The code runs in QuickJS, compiled to WebAssembly, in a thread. It has no access to files, the
 * network, modules or objects of this process. Equal calls return equal results: random numbers
 * come from the call's key, and there is no clock. Promises are awaited within the time limit.
 *
 * Errors   `call` returns `Left(ToolFailure)` of kind `infrastructure` if the optional package
 *          `quickjs-emscripten` is not installed. Errors of the code are part of the observation.
 * Effects  threads; `close` ends the idle ones.
 * Cost     about 0.02 s for a call, plus the time of the code.
 *
 * @example
 * javascriptTool().name // 'javascript'
 */
export const javascriptTool = (options: JavaScriptToolOptions = {}): JavaScriptTool => {
  checkOptions('javascriptTool', options, JAVASCRIPT_TOOL_OPTIONS)
  const { name = 'javascript', memory = 'none', timers = liveTimers } = options
  const limits = { ...LIMITS, ...options.limits }
  const { maxIdle = 2, idleMs = 30_000, threads = liveThreads } = options
  // Calls are limited by their transform, and each has a time limit.
  const pool = resourcePool(workerResource(threads), {
    limit: Number.POSITIVE_INFINITY,
    startMs: Number.POSITIVE_INFINITY,
    maxIdle,
    idleMs,
    timers,
  })

  const requested = async (
    request: JavaScriptRequest,
    signal: AbortSignal,
  ): Promise<E.Either<ToolFailure, JavaScriptReply>> => {
    const taken = await pool.acquire({ args: undefined, signal })()
    if (E.isLeft(taken)) return E.left(toolFailure(name, 'infrastructure', taken.left.reason))
    const { resource: worker, release, end } = taken.right
    const late = new AbortController()
    const cancel = timers.after(limits.wallMs + GRACE_MS, () => late.abort())
    worker.thread.post(request)
    const word = await unlessAborted(worker.next(), AbortSignal.any([signal, late.signal]))
    cancel()
    if (word !== ABORTED && word._tag === 'Reply') {
      await release()
      return E.right(word.reply)
    }
    await end()
    if (word === ABORTED) return E.right({ _tag: 'wall', text: '', dropped: 0 })
    return E.right({ _tag: 'error', text: '[stopped: the interpreter ran out of stack or memory]', dropped: 0 })
  }

  const made = tool<{ code: z.ZodString }, readonly JavaScriptCell[] | null>({
    name,
    description: `Runs JavaScript and returns what it logs, and its value. ${memory === 'none' ? 'Each call starts from an empty state.' : 'Variables of earlier calls are kept.'}`,
    parameters: { code: z.string().max(MAX_CODE_LENGTH) },
    initial: memory === 'none' ? null : [],
    run:
      ({ code }, { state, key, signal }) =>
      async () => {
        if (state !== null && state.length >= MAX_CELLS)
          return E.left(toolFailure(name, 'failed', `at most ${MAX_CELLS} calls are allowed`))
        const cells = [...(state ?? []), { code, seed: uniformInteger(key, 2 ** 31) }]
        const reply = await requested({ cells, limits }, signal)
        return E.map((right: JavaScriptReply): ToolReply<readonly JavaScriptCell[] | null> => {
          const isKept = right._tag === 'ok' || right._tag === 'error'
          const after = right._tag === 'lost' ? [] : isKept ? cells : state
          return { content: textOf(right, limits), state: state === null ? null : after }
        })(reply)
      },
  })
  return { ...made, idle: () => pool.stats().idle, close: pool.drain }
}
