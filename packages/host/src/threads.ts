/** Real threads: `node:worker_threads`, from TypeScript sources or compiled files. */
import { fileURLToPath } from 'node:url'
import { isNativeError } from 'node:util/types'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker, workerData } from 'node:worker_threads'
import type { Thread, ThreadFailure, ThreadOptions, ThreadPort, ThreadProgram, Threads } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

/** The initial data of a thread. */
interface Boot {
  /** URL of this file. */
  readonly main: string
  /** URL of the module that makes Node read TypeScript, or null if it is not needed. */
  readonly loader: string | null
  readonly program: ThreadProgram
  readonly input: unknown
  readonly port: MessagePort
}

/**
 * The start of a thread, as text instead of a file, so that it works whether this file ends in .ts
 * or .js.
 */
const BOOT = `
const { workerData: { main, loader } } = require('node:worker_threads')
const ready = loader === null ? Promise.resolve() : import(loader).then(({ register }) => register())
ready.then(() => import(main)).then(({ runThread }) => runThread())
`

const failure = (kind: ThreadFailure['kind'], reason: string): ThreadFailure => ({
  _tag: 'ThreadFailure',
  kind,
  reason,
})

const messageOf = (error: unknown): string => (isNativeError(error) ? `${error.name}: ${error.message}` : String(error))

/**
 * Makes a port from an end of Node's `MessageChannel`. Messages are buffered until `listen` is
 * called.
 */
export const messagePort = (port: MessagePort): ThreadPort => ({
  post: (message, transfer = []) => port.postMessage(message, transfer),
  listen: (listener) => {
    port.on('message', listener)
  },
})

/**
 * Runs the program of a thread. Called in the thread by its start text.
 *
 * Errors   rejects, which ends the thread, if the module cannot be imported or does not export the
 *          function.
 *
 * @public by its name, in the thread
 */
export const runThread = async (): Promise<void> => {
  const { program, input, port } = workerData as Boot // from `startWorker`
  const module: Readonly<Record<string, unknown>> = await import(program.module)
  const run = module[program.exportName]
  if (typeof run !== 'function') {
    throw new TypeError(`${program.module} exports no function '${program.exportName}'`)
  }
  port.on('messageerror', (error) => {
    throw error
  })
  await run(messagePort(port), input)
}

const causeOf = (error: Error): ThreadFailure =>
  'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? failure('memory', `the thread ran out of memory: ${error.message}`)
    : failure('error', `the thread threw ${messageOf(error)}`)

const isTypeScript = (url: string): boolean => /\.[cm]?ts$/.test(url)

/**
 * Returns the URL of tsx's loader if it is installed. Node alone does not find `x.ts` for an import
 * of `x.js`.
 */
const typeScriptLoader = (): string | null => {
  try {
    return import.meta.resolve('tsx/esm/api')
  } catch {
    return null // Node reports what it cannot import, and the thread's failure includes that
  }
}

const startWorker = (program: ThreadProgram, options: ThreadOptions): Thread => {
  const { input, firstWordMs, heapMegabytes, process: life = 'alive' } = options
  const main = import.meta.url
  const { port1: here, port2: there } = new MessageChannel()
  const boot: Boot = {
    main,
    loader: [main, program.module].some(isTypeScript) ? typeScriptLoader() : null,
    program,
    input,
    port: there,
  }
  const worker = new Worker(BOOT, {
    eval: true,
    workerData: boot,
    transferList: [there],
    name: `${program.exportName} of ${fileURLToPath(program.module)}`,
    ...(heapMegabytes !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMegabytes } }),
  })
  if (life === 'may end') worker.unref()
  let why: ThreadFailure | undefined
  worker.once('error', (error) => {
    why ??= causeOf(error)
  })
  here.once('messageerror', (error) => {
    why ??= failure('error', `a message of the thread could not be read: ${messageOf(error)}`)
    void worker.terminate()
  })
  const late =
    firstWordMs === undefined
      ? undefined
      : setTimeout(() => {
          why ??= failure('timeout', `the thread sent no message within ${firstWordMs} ms`)
          void worker.terminate()
        }, firstWordMs)
  const ended = new Promise<ThreadFailure>((resolve) => {
    worker.once('exit', (code) => {
      clearTimeout(late)
      // Deliver the messages that the thread sent before its end.
      for (let last = receiveMessageOnPort(here); last !== undefined; last = receiveMessageOnPort(here)) {
        here.emit('message', last.message)
      }
      here.close()
      resolve(why ?? failure('exit', `the thread ended with code ${code}`))
    })
  })
  const port = messagePort(here)
  return {
    post: port.post,
    listen: (listener) => {
      here.once('message', () => clearTimeout(late))
      port.listen(listener)
      if (life === 'may end') here.unref() // listening holds the process
    },
    ended,
    stop: async (done, limitMs) => {
      let timer: NodeJS.Timeout | undefined
      const limit = new Promise((resolve) => {
        timer = setTimeout(() => {
          why ??= failure('timeout', `the thread was ended after ${limitMs} ms of waiting`)
          resolve(undefined)
        }, limitMs)
      })
      await Promise.race([done.catch(() => undefined), ended, limit])
      clearTimeout(timer)
      await worker.terminate()
      await ended
    },
  }
}

/**
 * Threads through Node.
 *
 * TypeScript sources need `tsx`. A thread keeps the process alive until it ends, unless the process
 * may end. A crash of native code ends the whole process.
 *
 * Errors   `Left(ThreadFailure)` of kind `start` if the input cannot be cloned, the module is not a
 *          `file:` URL, or the system cannot start a thread.
 */
export const liveThreads: Threads = {
  start: (program, options) => async () =>
    E.tryCatch(
      () => startWorker(program, options),
      (error) => failure('start', `the thread could not be started: ${messageOf(error)}`),
    ),
}
