/** Files as byte sources. */
import {
  type ByteSource,
  type FileFailure,
  type Files,
  fileFailure,
  type OpenFile,
  requireRange,
} from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { liveFiles } from './files.js'

const readRange = (
  path: string,
  file: OpenFile,
  { start, end }: { readonly start: number; readonly end: number },
): TE.TaskEither<FileFailure, Uint8Array> => {
  if (file.size < end) {
    const reason = `the file became shorter while it was read: it ends at byte ${file.size}`
    return TE.left(fileFailure('read', path, { code: 'UNKNOWN', reason }))
  }
  const bytes = new Uint8Array(end - start)
  return pipe(
    file.read(bytes, start),
    TE.map(() => bytes),
  )
}

/**
 * Makes a byte source of a file. The file is opened for every read, so nothing must be closed. Data
 * appended later is not part of the source.
 *
 * Errors   `Left(FileFailure)` for a missing file, a folder, a denied read, and (from `read`) a
 *          file that has become shorter.
 * Effects  reads the file system.
 */
export const fileBytes = (
  path: string,
  files: Pick<Files, 'open'> = liveFiles,
): TE.TaskEither<FileFailure, ByteSource> => {
  const opened = <T>(use: (file: OpenFile) => TE.TaskEither<FileFailure, T>): TE.TaskEither<FileFailure, T> =>
    TE.bracket(files.open(path), use, ({ close }) => close)
  return pipe(
    opened(({ size }) => TE.right(size)),
    TE.map((size) => ({
      name: path,
      size,
      read: (start, end) => {
        requireRange({ name: path, size }, start, end)
        return opened((file) => readRange(path, file, { start, end }))
      },
    })),
  )
}
