/**
 * A file of captured sessions that only grows: every line whole or not there, also after a crash.
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../../core/capabilities.js'
import { describe, type FileFailure, type FormatFailure } from '../../core/failure.js'
import { type CaptureRecord, type ReadCapture, readCapture, recordLine } from '../../data/capture/records.js'
import { fileBytes } from '../../live/byteSource.js'
import { liveFiles } from '../../live/files.js'

/** Where records go. */
export interface CaptureJournal {
  /**
   * Resolves when the record is in the file, or when the file could not be written: then it waits
   * for the next attempt. Never rejects.
   */
  readonly append: (record: CaptureRecord) => Promise<void>
  /** Writes what waits. */
  readonly flush: TE.TaskEither<FileFailure, void>
  /** Why records wait; null if none does. */
  readonly problem: () => string | null
}

/** A journal that keeps nothing. */
export const noJournal: CaptureJournal = {
  append: async () => {},
  flush: TE.right(undefined),
  problem: () => null,
}

/** Records in a file that has `wholeBytes` already. */
const journalAt = (path: string, wholeBytes: number, files: Files): CaptureJournal => {
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
  return {
    append: (record) => {
      waiting = [...waiting, recordLine(record)]
      return next()
    },
    flush: async () => {
      await next()
      return failure === null ? E.right(undefined) : E.left(failure)
    },
    problem: () => (failure === null ? null : `${describe(failure)}; ${waiting.length} records wait`),
  }
}

/**
 * Opens a file of captured sessions to go on with it; one that does not exist is empty. A last line
 * that a crash has cut off is cut away.
 *
 * Errors   `Left(FormatFailure)` for a file of something else, or damaged before its end: it is
 *          left as it is; `Left(FileFailure)`.
 * Effects  reads the whole file. Creates it if necessary, readable only by this user.
 */
export const openJournal = (
  path: string,
  files: Files = liveFiles,
): TE.TaskEither<FormatFailure | FileFailure, { readonly journal: CaptureJournal } & Pick<ReadCapture, 'sessions'>> =>
  pipe(
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
      return E.isLeft(mended) ? mended : E.right({ journal: journalAt(path, size, files), sessions })
    }),
  )
