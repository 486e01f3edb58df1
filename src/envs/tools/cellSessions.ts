/**
 * Programs that run one piece of code after the other, in the sandbox, and remember what the pieces
 * did.
 *
 * What a conversation remembers is the list of its earlier cells, which is a value. A live program
 * is a cache of that value: one whose history is exactly the list is taken and goes on; where there
 * is none, a new one runs the list again. So a conversation can be replayed and forked, and a
 * program that died is no catastrophe.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Ids, Timers } from '../../core/capabilities.js'
import type { ResourceFailure } from '../../core/resource.js'
import type {
  Sandbox,
  SandboxEnd,
  SandboxFailure,
  SandboxProgram,
  SandboxSession,
  SandboxText,
} from '../../core/sandbox.js'
import { liveIds } from '../../live/ids.js'
import type { Lease } from '../resources/places.js'
import { resourcePool } from '../resources/resourcePool.js'

/**
 * A program that reads cells, and how a cell is written to it. Behind its output it writes the
 * mark, and then its status as a line.
 */
export interface CellProgram {
  readonly program: SandboxProgram
  readonly request: (code: string, mark: string) => string
}

/** What became of a cell. */
export type CellResult =
  | {
      readonly _tag: 'Ran'
      readonly output: SandboxText
      readonly status: string
      /** Processes and threads that it left running. */
      readonly running: number
    }
  /** The program ended in it, or was ended: the cell is not remembered. */
  | { readonly _tag: 'Ended'; readonly end: SandboxEnd }
  /** An earlier cell did not run again: nothing is remembered. */
  | { readonly _tag: 'Lost'; readonly cell: number }

export interface CellSessionsOptions {
  readonly sandbox: Sandbox
  /**
   * Most programs that are kept between cells: the one that waits for longest is ended for another.
   */
  readonly maxIdle: number
  /** Milliseconds after which a waiting program is ended. */
  readonly idleMs: number
  readonly timers?: Timers
  readonly ids?: Ids
}

/** A cell could not be run. */
type CellFailure = SandboxFailure | ResourceFailure

/** Sessions by what they did. */
export interface CellSessions {
  /** Runs `code` after `earlier`. `forget`: no later cell continues from here. */
  readonly run: (
    earlier: readonly string[],
    code: string,
    options: { readonly signal: AbortSignal; readonly after: 'keep' | 'forget' },
  ) => TaskEither<CellFailure, CellResult>
  /** Number of programs that wait. */
  readonly idle: () => number
  /** Ends those that wait. Resolves when nothing of them is left. */
  readonly close: () => Promise<void>
}

type Asked = E.Either<CellFailure, CellResult>

/** The tag of a program that ran these cells. */
const tagOf = (cells: readonly string[]): string => JSON.stringify(cells)

/**
 * Sessions of a program: a pool of programs, each kept under the cells that it ran.
 *
 * Effects  keeps programs running, until they are taken, evicted or closed.
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
    // The sandbox limits how many programs run, and their time.
    {
      limit: Number.POSITIVE_INFINITY,
      startMs: Number.POSITIVE_INFINITY,
      maxIdle,
      idleMs,
      ...(timers !== undefined && { timers }),
    },
  )

  const ask = async (session: SandboxSession, code: string, signal: AbortSignal): Promise<Asked> => {
    const mark = ids.fresh()
    const said = await session.ask(cell.request(code, mark), mark, { signal })()
    if (E.isLeft(said)) return said
    if (said.right._tag === 'Ended') return E.right({ _tag: 'Ended', end: said.right })
    const status = await session.ask('', '\n', { signal })()
    if (E.isLeft(status)) return status
    if (status.right._tag === 'Ended') return E.right({ _tag: 'Ended', end: status.right })
    return E.right({
      ...{ _tag: 'Ran', output: said.right.said, status: status.right.said.text },
      running: status.right.running,
    })
  }

  /** Runs the earlier cells in a new program, and returns what went wrong, if anything did. */
  const replayed = async (
    { tag, resource }: Lease<SandboxSession>,
    earlier: readonly string[],
    signal: AbortSignal,
  ): Promise<Asked | undefined> => {
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
        const asked = lost ?? (await ask(lease.resource, code, signal))
        // What it left running would go on between cells: then the list is run again.
        const isQuiet = E.isRight(asked) && asked.right._tag === 'Ran' && asked.right.running === 0
        if (isQuiet && after === 'keep') lease.keep(tagOf([...earlier, code]))
        else await lease.end()
        return asked
      },
    idle: () => pool.stats().idle,
    close: pool.drain,
  }
}
