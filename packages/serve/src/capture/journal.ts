/**
 * An append-only file of captured sessions. After a crash, every line is either whole or absent.
 */
import {
  describe,
  type FileFailure,
  type Files,
  type FormatFailure,
  type LockFailure,
  type Locks,
} from '@tandem-rl/base'
import { fileBytes, liveFiles, liveLocks } from '@tandem-rl/host'
import { type CaptureRecord, type ReadCapture, readCapture, recordLine } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** A destination for records. */
export interface CaptureJournal {
  /**
   * Resolves when the record is written, or when writing failed; the record is then retried with
   * the next one. Never rejects.
   */
  readonly append: (record: CaptureRecord) => Promise<void>
  /** Writes pending records. */
  readonly flush: TE.TaskEither<FileFailure, void>
  /** Returns the reason why records are pending, or `null`. */
  readonly problem: () => string | null
  /** Writes pending records and unlocks the file for other processes. */
  readonly close: TE.TaskEither<FileFailure, void>
}

/** A journal that discards its records. */
export const noJournal: CaptureJournal = {
  append: async () => {},
  flush: TE.right(undefined),
  problem: () => null,
  close: TE.right(undefined),
}

/** The file of a journal, locked by this process. */
interface JournalFile {
  readonly path: string
  readonly files: Files
  readonly release: () => Promise<void>
}

/** Makes a journal that appends to a file of `wholeBytes` bytes. */
const journalAt = ({ path, files, release }: JournalFile, wholeBytes: number): CaptureJournal => {
  let size = wholeBytes
  let waiting: string[] = []
  let failure: FileFailure | null = null
  let writing: Promise<void> = Promise.resolve()

  /** Writes pending records. Truncates the remains of a failed write first. */
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

/** A journal with the sessions of its file. */
type OpenedJournal = { readonly journal: CaptureJournal } & Pick<ReadCapture, 'sessions'>

/** Reads a locked file and makes its journal. */
const readJournal = (file: JournalFile): TE.TaskEither<FormatFailure | FileFailure, OpenedJournal> => {
  const { path, files } = file
  return pipe(
    files.append(path, '', 'private'), // conversations are private
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
 * Opens a file of captured sessions for appending. A missing file is created. An incomplete last
 * line, left by a crash, is removed.
 *
 * Errors   `Left(LockFailure)` with the id of the process that has the file open.
 *          `Left(FormatFailure)` for other files, or a file damaged before its last line, which is
 *          left unchanged. `Left(FileFailure)`.
 * Effects  reads the whole file, or creates it readable only by this user. Holds a lock,
 *          `PATH.lock`, until `close`.
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
