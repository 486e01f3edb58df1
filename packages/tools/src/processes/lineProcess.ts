/** Programs that are asked in lines of JSON. */
import {
  type Processes,
  type ResourceFailure,
  resourceFailure,
  type TalkingProcess,
  type TalkingProgram,
  type Timers,
} from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { lineReader, liveProcesses } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A program that answers each line of its input with one line. */
export interface LineProcess {
  /**
   * Sends a value as a line of JSON and returns the next line. One at a time. A program that is
   * late, or whose caller left, is ended.
   */
  readonly ask: (
    request: unknown,
    options: { readonly limitMs: number; readonly signal?: AbortSignal },
  ) => Promise<E.Either<ResourceFailure, string>>
  readonly isAlive: () => boolean
  /**
   * Sends a last line if one is given, ends the input, and ends the program if it does not end by
   * itself.
   */
  readonly end: (last?: unknown) => Promise<void>
}

export interface LineProgram extends Pick<TalkingProgram, 'command' | 'args' | 'env' | 'folder'> {
  /** For failures. */
  readonly name: string
  /** Milliseconds that the program may take to end by itself. Default 60,000. */
  readonly graceMs?: number
  readonly processes?: Pick<Processes, 'converse'>
  readonly timers?: Timers
}

/** The last part of a program's error output, for the reason of a failure. */
const MAX_ERRORS = 2000

/** The connection to a running program. */
interface Talk {
  readonly process: TalkingProcess
  readonly lines: { onLine: (line: string) => void }
  readonly errors: () => string
}

const talking = ({ process, lines, errors }: Talk, program: LineProgram): LineProcess => {
  const { name, graceMs = 60_000, timers = liveTimers } = program
  let isOver = false
  const failed = (kind: ResourceFailure['kind'], reason: string): E.Either<ResourceFailure, never> =>
    E.left(resourceFailure(name, kind, reason))
  const gone = process.ended.then(({ code, signal }) => {
    isOver = true
    return failed('dead', `it ended with ${signal ?? `code ${code}`}: ${errors().trim().slice(-500)}`)
  })
  const stop = async (): Promise<void> => {
    if (!isOver) await process.stop(graceMs)
  }
  return {
    isAlive: () => !isOver,
    ask: async (request, { limitMs, signal }) => {
      let cancelTimer = (): void => {}
      const line = new Promise<E.Either<never, string>>((resolve) => {
        lines.onLine = (text) => resolve(E.right(text))
      })
      const late = new Promise<'late' | 'off'>((resolve) => {
        const cancel = timers.after(limitMs, () => resolve('late'))
        const off = (): void => resolve('off')
        signal?.addEventListener('abort', off, { once: true })
        cancelTimer = () => {
          cancel()
          signal?.removeEventListener('abort', off)
        }
        if (signal?.aborted === true) off()
      })
      const written = await process.write(`${JSON.stringify(request)}\n`)()
      const first = await (E.isLeft(written) ? gone : Promise.race([line, late, gone]))
      cancelTimer()
      if (typeof first !== 'string') return first
      await stop()
      return first === 'late'
        ? failed('dead', `it did not answer in ${limitMs} ms`)
        : failed('cancelled', 'nobody waits for its answer any more')
    },
    end: async (last) => {
      if (isOver) return
      if (last !== undefined) await process.write(`${JSON.stringify(last)}\n`)()
      process.endInput()
      let cancelTimer = (): void => {}
      const late = new Promise<void>((resolve) => {
        cancelTimer = timers.after(graceMs, resolve)
      })
      await Promise.race([gone, late])
      cancelTimer()
      await stop()
    },
  }
}

/**
 * Starts a program that is asked in lines.
 *
 * Errors   `Left(ResourceFailure)` if it cannot be started; `ask` returns it if the program ended,
 *          is late or was called off, with the end of what it wrote to its errors.
 * Effects  a process, which ends with `end`, with this process, or after the limit of a question.
 */
export const lineProcess =
  (program: LineProgram): TaskEither<ResourceFailure, LineProcess> =>
  async () => {
    const { command, args, folder, env, processes = liveProcesses } = program
    const lines = { onLine: (_line: string): void => {} }
    let errors = ''
    const decoder = new TextDecoder()
    const started = await processes.converse({
      command,
      args,
      ...(folder !== undefined && { folder }),
      ...(env !== undefined && { env }),
      onOutput: lineReader((line) => lines.onLine(line)).add,
      onErrors: (bytes) => {
        errors = (errors + decoder.decode(bytes, { stream: true })).slice(-MAX_ERRORS)
      },
    })()
    return E.isLeft(started)
      ? E.left(resourceFailure(program.name, 'start', started.left.reason))
      : E.right(talking({ process: started.right, lines, errors: () => errors }, program))
  }
