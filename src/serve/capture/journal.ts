/** A file of captured sessions that only grows: every line whole or not there, also after a crash. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files, Locks } from '../../core/capabilities.js'
import { describe, type FileFailure, type FormatFailure, type LockFailure } from '../../core/failure.js'
import { type CaptureRecord, type ReadCapture, readCapture, recordLine } from '../../data/capture/records.js'
import { fileBytes } from '../../live/byteSource.js'
import { liveFiles } from '../../live/files.js'
import { liveLocks } from '../../live/lock.js'

/** Where records go. */
export interface CaptureJournal {
  /** Resolves when the record is in the file, or when the file could not be written: then it waits for the next attempt. Never rejects. */
  readonly append: (record: CaptureRecord) => Promise<void>
  /** Writes what waits. */
  readonly flush: TE.TaskEither<FileFailure, void>
  /** Why records wait; null if none does. */
  readonly problem: () => string | null
  /** Writes what waits, and lets go of the file: another process may open it. */
  readonly close: TE.TaskEither<FileFailure, void>
}

/** A journal that keeps nothing. */
export const noJournal: CaptureJournal = {
  append: async () => {},
  flush: TE.right(undefined),
  problem: () => null,
  close: TE.right(undefined),
}

/** The file of a journal, which this process has locked. */
interface JournalFile {
  readonly path: string
  readonly files: Files
  readonly release: () => Promise<void>
}

/** Records in a file that has `wholeBytes` already. */
const journalAt = ({ path, files, release }: JournalFile, wholeBytes: number): CaptureJournal => {
  let size = wholeBytes
  let waiting: string[] = []
  let failure: FileFailure | null = null
  let writing: Promise<void> = Promise.resolve()

  /** What a write that failed has left at the end is cut off before the next one. */
  const write = async (): Promise<void> => {
    if (waiting.length === 0) return
    const lines = waiting
    const text = lines.join('')
    const written = await pipe(
      failure === null ? TE.right(undefined) : files.truncate(path, size),
      TE.chain(() => files.append(path, text)),
    )()
    if (E.isLeft(written)) {
      failure = written.left
      return
    }
    failure = null
    waiting = waiting.slice(lines.length)
    size += new TextEncoder().encode(text).length
  }
  const next = (): Promise<void> => {
    writing = writing.then(write)
    return writing
  }
  const flush: CaptureJournal['flush'] = async () => {
    await next()
    return failure === null ? E.right(undefined) : E.left(failure)
  }
  return {
    append: (record) => {
      waiting = [...waiting, recordLine(record)]
      return next()
    },
    flush,
    close: async () => {
      const flushed = await flush()
      await release()
      return flushed
    },
    problem: () => (failure === null ? null : `${describe(failure)}; ${waiting.length} records wait`),
  }
}

/** A journal with the sessions that its file has. */
type OpenedJournal = { readonly journal: CaptureJournal } & Pick<ReadCapture, 'sessions'>

/** The journal of a file that is locked. */
const readJournal = (file: JournalFile): TE.TaskEither<FormatFailure | FileFailure, OpenedJournal> => {
  const { path, files } = file
  return pipe(
    files.append(path, '', 'private'), // what agents and models said is nobody else's
    TE.chain(() => fileBytes(path, files)),
    TE.chainW((source) => async () => {
      const read = await readCapture(source)
      if (E.isLeft(read)) return read
      const { sessions, wholeBytes, lineFeed } = read.right
      const mended = await pipe(
        wholeBytes < source.size ? files.truncate(path, wholeBytes) : TE.right(undefined),
        TE.chain(() => (lineFeed === 'missing' ? files.append(path, '\n') : TE.right(undefined))),
      )()
      const size = wholeBytes + (lineFeed === 'missing' ? 1 : 0)
      return E.isLeft(mended) ? mended : E.right({ journal: journalAt(file, size), sessions })
    }),
  )
}

/**
 * Opens a file of captured sessions to go on with it; one that does not exist is empty. A last line that a crash has cut off is cut away.
 *
 * Errors   `Left(LockFailure)` with the id of the process that has the file open; `Left(FormatFailure)` for a file of something else, or
 *          damaged before its end: it is left as it is; `Left(FileFailure)`.
 * Effects  reads the whole file; makes it if there is none, readable by this user alone. Holds a lock, `PATH.lock`, until `close`.
 */
export const openJournal = (
  path: string,
  files: Files = liveFiles,
  locks: Locks = liveLocks,
): TE.TaskEither<FormatFailure | FileFailure | LockFailure, OpenedJournal> =>
  pipe(
    locks.take(`${path}.lock`),
    TE.chainW(({ release }) =>
      pipe(
        readJournal({ path, files, release }),
        TE.orElseFirstTaskK(() => release),
      ),
    ),
  )
