/** The program of the thread that runs JavaScript in QuickJS, compiled to WebAssembly. */
import { optionalPackage, type ThreadPort } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime, QuickJSWASMModule } from 'quickjs-emscripten'

export interface JavaScriptLimits {
  /** Time for all cells of a call, in milliseconds. */
  readonly wallMs: number
  readonly memoryBytes: number
  /** Maximum UTF-16 units of output. */
  readonly outputLength: number
}

/** The code of one cell and its seed. */
export interface JavaScriptCell {
  readonly code: string
  /** The seed of its random numbers: 31 bits. */
  readonly seed: number
}

/** Cells to run one after another in a new context. */
export interface JavaScriptRequest {
  readonly cells: readonly JavaScriptCell[]
  readonly limits: JavaScriptLimits
}

/** The result of the last cell. `lost`: an earlier cell did not repeat its result. */
export interface JavaScriptReply {
  readonly _tag: 'ok' | 'error' | 'wall' | 'lost'
  readonly text: string
  /** Number of units of output that were dropped. */
  readonly dropped: number
}

/** A message of the thread: ready, missing package, reply, or broken and no longer usable. */
export type JavaScriptWord =
  | { readonly _tag: 'Ready' }
  | { readonly _tag: 'Missing'; readonly reason: string }
  | { readonly _tag: 'Reply'; readonly reply: JavaScriptReply }
  | { readonly _tag: 'Broken'; readonly reason: string }

/** Stack size: deeper than any reasonable program, and far below the thread's own stack. */
const STACK_BYTES = 128 * 1024

/** Extra time to format an error that is thrown at the very end. */
const EPILOGUE_MS = 200

/**
 * The globals of a cell: a console, random numbers from the call's key, and nothing that reveals
 * the time or garbage collection. Returns functions that start a cell and format a value or an
 * error.
 */
const PRELUDE = `(() => {
  const { print } = globalThis
  for (const name of ['print', 'Date', 'WeakRef', 'FinalizationRegistry']) delete globalThis[name]
  const { stringify } = JSON
  const text = String
  let state = 0
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const show = (value) => {
    if (typeof value !== 'object' || value === null) return text(value)
    try {
      if (value instanceof Error) return value.name + ': ' + value.message
      if (value instanceof Map || value instanceof Set) return value.constructor.name + ' ' + stringify([...value])
      return stringify(value) ?? text(value)
    } catch {
      return '[a value that cannot be shown]'
    }
  }
  const log = (...values) => print(values.map(show).join(' ') + '\\n')
  globalThis.console = { log, info: log, warn: log, error: log, debug: log }
  return {
    show,
    begin: (seed) => { state = seed },
    fault: (error) => error instanceof Error ? show(error) + '\\n' + error.stack : 'thrown: ' + show(error),
  }
})()`

/** Collects text up to a maximum length. */
const output = (limit: number) => {
  let text = ''
  let dropped = 0
  return {
    add: (more: string): void => {
      const kept = more.slice(0, limit - text.length)
      text += kept
      dropped += more.length - kept.length
    },
    get: () => ({ text, dropped }),
  }
}

/** A QuickJS context and its output. */
interface World {
  readonly context: QuickJSContext
  readonly runtime: QuickJSRuntime
  readonly show: (value: QuickJSHandle) => string
  readonly fault: (error: QuickJSHandle) => string
  /** Seeds the random numbers. */
  readonly begin: (seed: number) => void
  readonly output: ReturnType<typeof output>
  readonly allow: (ms: number) => void
  readonly isOver: () => boolean
}

const worldOf = (library: QuickJSWASMModule, limits: JavaScriptLimits): World => {
  const runtime = library.newRuntime({ memoryLimitBytes: limits.memoryBytes, maxStackSizeBytes: STACK_BYTES })
  const context = runtime.newContext()
  const written = output(limits.outputLength)
  let deadline = 0
  const allow = (ms: number): void => {
    deadline = performance.now() + ms
  }
  const isOver = (): boolean => performance.now() > deadline
  runtime.setInterruptHandler(isOver)
  allow(limits.wallMs)
  context
    .newFunction('print', (text) => written.add(context.getString(text)))
    .consume((print) => {
      context.setProp(context.global, 'print', print)
    })
  const made = context.unwrapResult(context.evalCode(PRELUDE, 'prelude.js'))
  const text =
    (name: string) =>
    (value: QuickJSHandle): string => {
      const result = context.getProp(made, name).consume((f) => context.callFunction(f, context.undefined, value))
      return result.error === undefined
        ? result.value.consume((shown) => context.getString(shown))
        : result.error.consume(() => '[a value that cannot be shown]')
    }
  const begin = text('begin')
  return {
    context,
    runtime,
    show: text('show'),
    fault: text('fault'),
    output: written,
    allow,
    isOver,
    begin: (seed) => void context.newNumber(seed).consume(begin),
  }
}

type Outcome = 'ok' | 'error' | 'wall'

const failed = ({ isOver, allow, output, fault }: World, error: QuickJSHandle): Outcome => {
  if (isOver()) return 'wall'
  allow(EPILOGUE_MS)
  output.add(`${fault(error)}\n`)
  return 'error'
}

/** Runs pending jobs until none is left or the time is up. */
const drained = (world: World): Outcome => {
  while (world.runtime.hasPendingJob() && !world.isOver()) {
    const jobs = world.runtime.executePendingJobs(100)
    if (jobs.error !== undefined) return jobs.error.consume((error) => failed(world, error))
  }
  return world.isOver() ? 'wall' : 'ok'
}

/** Runs a cell and prints its value. A promise is awaited first. */
const runCell = (world: World, { code, seed }: JavaScriptCell): Outcome => {
  const { context, output, show, begin } = world
  begin(seed)
  const result = context.evalCode(code, 'cell.js')
  if (result.error !== undefined) return result.error.consume((error) => failed(world, error))
  return result.value.consume((value) => {
    const outcome = drained(world)
    if (outcome !== 'ok') return outcome
    const state = context.getPromiseState(value)
    if (state.type === 'pending') {
      output.add('[a promise that nothing resolves]\n')
      return 'ok'
    }
    if (state.type === 'rejected') return state.error.consume((error) => failed(world, error))
    if (context.typeof(state.value) !== 'undefined') output.add(`${show(state.value)}\n`)
    if (state.notAPromise !== true) state.value.dispose()
    return 'ok'
  })
}

const replyOf = (library: QuickJSWASMModule, { cells, limits }: JavaScriptRequest): JavaScriptReply => {
  const world = worldOf(library, limits)

  for (const [i, cell] of cells.slice(0, -1).entries()) {
    if (runCell(world, cell) === 'wall') return { _tag: 'lost', text: `call ${i + 1}`, dropped: 0 }
  }
  const before = world.output.get().text.length
  const outcome = runCell(world, cells.at(-1) ?? { code: '', seed: 0 })
  const { text, dropped } = world.output.get()
  return { _tag: outcome, text: text.slice(before), dropped }
}

/** Runs the thread: answers requests until it is ended. */
export const javascriptThread = async (port: ThreadPort): Promise<void> => {
  const say = (word: JavaScriptWord): void => port.post(word)
  const loaded = await optionalPackage('quickjs-emscripten', 'the tool javascript', () =>
    importPackage<typeof import('quickjs-emscripten')>('quickjs-emscripten', import.meta),
  )()
  if (E.isLeft(loaded)) {
    say({ _tag: 'Missing', reason: loaded.left.reason })
    return
  }
  port.listen(async (message) => {
    try {
      // Each call has its own library instance, so no call sees memory that another one changed.
      const library = await loaded.right.newQuickJSWASMModule()
      say({ _tag: 'Reply', reply: replyOf(library, message as JavaScriptRequest) }) // sent by the tool
    } catch (error) {
      say({ _tag: 'Broken', reason: error instanceof Error ? error.name : 'an error' })
    }
  })
  say({ _tag: 'Ready' })
}
