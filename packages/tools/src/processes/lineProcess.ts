/** Programs that are asked in lines of JSON. */
import {
  ABORTED,
  type Processes,
  type ResourceFailure,
  resourceFailure,
  type TalkingProcess,
  type TalkingProgram,
  type Timers,
  unlessAborted,
  unlessLate,
} from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { lineReader, liveProcesses, textTail } from '@tandem-rl/host'
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
const MAX_ERRORS = 500

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
    return failed('dead', `it ended with ${signal ?? `code ${code}`}: ${errors()}`)
  })
  const stop = async (): Promise<void> => {
    if (!isOver) await process.stop(graceMs)
  }
  return {
    isAlive: () => !isOver,
    ask: async (request, { limitMs, signal }) => {
      const line = new Promise<E.Either<never, string>>((resolve) => {
        lines.onLine = (text) => resolve(E.right(text))
      })
      const answered = process
        .write(`${JSON.stringify(request)}\n`)()
        .then((written) => (E.isLeft(written) ? gone : Promise.race([line, gone])))
      const first = await unlessLate(signal === undefined ? answered : unlessAborted(answered, signal), limitMs, timers)
      if (first !== ABORTED) return first
      await stop()
      return signal?.aborted === true
        ? failed('cancelled', 'its answer is no longer needed')
        : failed('dead', `it did not answer in ${limitMs} ms`)
    },
    end: async (last) => {
      if (isOver) return
      if (last !== undefined) await process.write(`${JSON.stringify(last)}\n`)()
      process.endInput()
      await unlessLate(gone, graceMs, timers)
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
    const errors = textTail(MAX_ERRORS)
    const started = await processes.converse({
      command,
      args,
      ...(folder !== undefined && { folder }),
      ...(env !== undefined && { env }),
      onOutput: lineReader((line) => lines.onLine(line)).add,
      onErrors: errors.add,
    })()
    return E.isLeft(started)
      ? E.left(resourceFailure(program.name, 'start', started.left.reason))
      : E.right(talking({ process: started.right, lines, errors: errors.text }, program))
  }
