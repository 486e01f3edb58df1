/**
 * Programs that run one piece of code after the other, in the sandbox, and remember what the pieces did.
 *
 * What a conversation remembers is the list of its earlier cells, which is a value. A live program is a cache of that value: one whose history is
 * exactly the list is taken and goes on; where there is none, a new one runs the list again. So a conversation can be replayed and forked, and a
 * program that died is no catastrophe.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Ids, Timers } from '../../core/capabilities.js'
import type {
  Sandbox,
  SandboxEnd,
  SandboxFailure,
  SandboxProgram,
  SandboxSession,
  SandboxText,
} from '../../core/sandbox.js'
import { liveTimers } from '../../live/clock.js'
import { liveIds } from '../../live/ids.js'

/** A program that reads cells, and how a cell is written to it. Behind its output it writes the mark, and then its status as a line. */
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
  /** Programs that are kept between cells: the one that waits longest is ended for another. */
  readonly maxIdle: number
  /** A program that waits so long is ended. */
  readonly idleMs: number
  readonly timers?: Timers
  readonly ids?: Ids
}

/** Sessions by what they did. */
export interface CellSessions {
  /** Runs `code` after `earlier`. `forget`: nobody will go on from here. */
  readonly run: (
    earlier: readonly string[],
    code: string,
    options: { readonly signal: AbortSignal; readonly after: 'keep' | 'forget' },
  ) => TaskEither<SandboxFailure, CellResult>
  /** Programs that wait. */
  readonly idle: () => number
  /** Ends those that wait. Resolves when nothing of them is left. */
  readonly close: () => Promise<void>
}

interface Idle {
  readonly history: string
  readonly session: SandboxSession
  readonly cancel: () => void
}

type Asked = E.Either<SandboxFailure, CellResult>

/** Sessions of a program. Effects: keeps programs running, until they are taken, evicted or closed. */
export const cellSessions = (cell: CellProgram, options: CellSessionsOptions): CellSessions => {
  const { sandbox, maxIdle, idleMs, timers = liveTimers, ids = liveIds } = options
  const idle = new Set<Idle>() // in the order in which they came
  const ending = new Set<Promise<void>>()

  const end = (session: SandboxSession): void => {
    const gone = session.close()
    ending.add(gone)
    void gone.then(() => ending.delete(gone))
  }

  const leave = (each: Idle): void => {
    idle.delete(each)
    each.cancel()
  }

  const evict = (each: Idle): void => {
    leave(each)
    end(each.session)
  }

  const keep = (history: string, session: SandboxSession): void => {
    const each: Idle = { history, session, cancel: timers.after(idleMs, () => evict(each)) }
    idle.add(each)
    for (const oldest of [...idle].slice(0, Math.max(0, idle.size - maxIdle))) evict(oldest)
  }

  const taken = (history: string): SandboxSession | undefined => {
    for (const each of [...idle].filter((one) => one.history === history)) {
      leave(each)
      if (each.session.isAlive()) return each.session
    }
    return undefined
  }

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

  /** A session that did `earlier`. */
  const restored = async (
    earlier: readonly string[],
    signal: AbortSignal,
  ): Promise<E.Either<SandboxFailure, SandboxSession | number>> => {
    const live = taken(JSON.stringify(earlier))
    if (live !== undefined) return E.right(live)
    const opened = await sandbox.open(cell.program)()
    if (E.isLeft(opened)) return opened
    for (const [i, code] of earlier.entries()) {
      const again = await ask(opened.right, code, signal)
      if (E.isLeft(again)) return again
      if (again.right._tag !== 'Ran') return E.right(i)
    }
    return opened
  }

  return {
    run:
      (earlier, code, { signal, after }) =>
      async () => {
        const session = await restored(earlier, signal)
        if (E.isLeft(session)) return session
        if (typeof session.right === 'number') return E.right({ _tag: 'Lost', cell: session.right })
        const asked = await ask(session.right, code, signal)
        // What it left running would go on between cells: then the list is run again.
        const isQuiet = E.isRight(asked) && asked.right._tag === 'Ran' && asked.right.running === 0
        if (isQuiet && after === 'keep') keep(JSON.stringify([...earlier, code]), session.right)
        else await session.right.close()
        return asked
      },
    idle: () => idle.size,
    close: async () => {
      for (const each of [...idle]) evict(each)
      await Promise.all([...ending])
    },
  }
}
