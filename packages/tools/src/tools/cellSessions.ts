/**
 * Sandboxed programs that run cells of code one after another and keep their variables and files.
 *
 * The state of a conversation is the list of its earlier cells, which is a value. A live program is
 * a cache of that value. A program whose history equals the list is reused; without one, a new
 * program runs the list again. A conversation can therefore be replayed and forked, and it survives
 * the end of its program.
 */
import type {
  Ids,
  ResourceFailure,
  Sandbox,
  SandboxEnd,
  SandboxFailure,
  SandboxProgram,
  SandboxSession,
  SandboxText,
  Timers,
} from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Lease } from '../resources/places.js'
import { resourcePool } from '../resources/resourcePool.js'

/**
 * A program that reads cells. `request` formats a cell for its input. After the output of a cell,
 * the program writes the mark and then its status as a line.
 */
export interface CellProgram {
  readonly program: SandboxProgram
  readonly request: (code: string, mark: string) => string
}

/** The result of a cell. */
export type CellResult =
  | {
      readonly _tag: 'Ran'
      readonly output: SandboxText
      readonly status: string
      /** Number of processes and threads that it left running. */
      readonly running: number
    }
  /** The program ended, or was ended, in this cell. The cell is not added to the state. */
  | { readonly _tag: 'Ended'; readonly end: SandboxEnd }
  /** An earlier cell failed when it was run again. The state is cleared. */
  | { readonly _tag: 'Lost'; readonly cell: number }

export interface CellSessionsOptions {
  readonly sandbox: Sandbox
  /** Maximum number of idle programs. When it is exceeded, the longest idle one is ended. */
  readonly maxIdle: number
  /** Milliseconds after which an idle program is ended. */
  readonly idleMs: number
  readonly timers?: Timers
  readonly ids?: Ids
}

/** The failure to run a cell. */
type CellFailure = SandboxFailure | ResourceFailure

/** Sessions of a program, found by the cells that they ran. */
export interface CellSessions {
  /** Runs `code` after `earlier`. `forget`: no later cell continues from this one. */
  readonly run: (
    earlier: readonly string[],
    code: string,
    options: { readonly signal: AbortSignal; readonly after: 'keep' | 'forget' },
  ) => TaskEither<CellFailure, CellResult>
  /** Returns the number of idle programs. */
  readonly idle: () => number
  /** Ends the idle programs. Resolves once all have ended. */
  readonly close: () => Promise<void>
}

type Wanted = E.Either<CellFailure, CellResult>

/** Returns the tag of a program that ran these cells. */
const tagOf = (cells: readonly string[]): string => JSON.stringify(cells)

/**
 * Makes a pool of programs, each stored under the cells that it ran.
 *
 * Effects  keeps programs running until they are taken, evicted or closed.
 */
export const cellSessions = (cell: CellProgram, options: CellSessionsOptions): CellSessions => {
  const { sandbox, maxIdle, idleMs, timers, ids = liveIds } = options
  const pool = resourcePool<SandboxSession, void, SandboxFailure>(
    {
      name: cell.program.command,
      start: () => sandbox.open(cell.program),
      end: (session) => session.close(),
      isAlive: (session) => session.isAlive(),
    },
    // The sandbox limits the number of programs and their time.
    {
      limit: Number.POSITIVE_INFINITY,
      startMs: Number.POSITIVE_INFINITY,
      maxIdle,
      idleMs,
      ...(timers !== undefined && { timers }),
    },
  )

  const ask = async (session: SandboxSession, code: string, signal: AbortSignal): Promise<Wanted> => {
    const mark = ids.fresh()
    const result = await session.ask(cell.request(code, mark), mark, { signal })()
    if (E.isLeft(result)) return result
    if (result.right._tag === 'Ended') return E.right({ _tag: 'Ended', end: result.right })
    const status = await session.ask('', '\n', { signal })()
    if (E.isLeft(status)) return status
    if (status.right._tag === 'Ended') return E.right({ _tag: 'Ended', end: status.right })
    return E.right({
      _tag: 'Ran',
      output: result.right.output,
      status: status.right.output.text,
      running: status.right.running,
    })
  }

  /** Runs the earlier cells in a new program. Returns the failure; undefined if all succeeded. */
  const replayed = async (
    { tag, resource }: Lease<SandboxSession>,
    earlier: readonly string[],
    signal: AbortSignal,
  ): Promise<Wanted | undefined> => {
    if (tag !== null) return undefined
    for (const [i, code] of earlier.entries()) {
      const again = await ask(resource, code, signal)
      if (E.isLeft(again)) return again
      if (again.right._tag !== 'Ran') return E.right({ _tag: 'Lost', cell: i })
    }
    return undefined
  }

  return {
    run:
      (earlier, code, { signal, after }) =>
      async () => {
        const acquired = await pool.acquire({ args: undefined, tag: tagOf(earlier), signal })()
        if (E.isLeft(acquired)) return acquired
        const lease = acquired.right
        const lost = await replayed(lease, earlier, signal)
        const wanted = lost ?? (await ask(lease.resource, code, signal))
        // Processes that the cell left running would act between cells. Without this program, the
        // next call replays the list.
        const isQuiet = E.isRight(wanted) && wanted.right._tag === 'Ran' && wanted.right.running === 0
        if (isQuiet && after === 'keep') lease.keep(tagOf([...earlier, code]))
        else await lease.end()
        return wanted
      },
    idle: () => pool.stats().idle,
    close: pool.drain,
  }
}
