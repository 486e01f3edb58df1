/** Files as byte sources. */
import * as fs from 'node:fs/promises'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type ByteSource, requireRange } from '../core/byteSource.js'
import type { FileFailure } from '../core/failure.js'

const failureOf =
  (operation: string, path: string) =>
  (error: unknown): FileFailure => {
    const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN'
    const message = error instanceof Error ? error.message : String(error)
    return {
      _tag: 'FileFailure',
      operation,
      path,
      code,
      reason: code === 'ENOENT' ? 'there is no such file or folder' : message,
    }
  }

const readRange = async (path: string, start: number, end: number): Promise<Uint8Array> => {
  const bytes = new Uint8Array(end - start)
  const file = await fs.open(path, 'r')
  try {
    let filled = 0
    while (filled < bytes.length) {
      const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled)
      if (bytesRead === 0)
        throw new Error(`the file became shorter while it was read: it ends at byte ${start + filled}`)
      filled += bytesRead
    }
    return bytes
  } finally {
    await file.close()
  }
}

/**
 * A file as a byte source. It is opened anew for every read, so that nothing has to be closed.
 *
 * Errors   `Left(FileFailure)` for a missing file, a folder, a refused read, and (from `read`) a file that has become shorter.
 * Effects  reads the file system.
 */
export const fileBytes = (path: string): TE.TaskEither<FileFailure, ByteSource> =>
  TE.tryCatch(
    async () => {
      const found = await fs.stat(path)
      if (!found.isFile()) throw new Error('this is not a file')
      return {
        name: path,
        size: found.size,
        read: (start, end) => {
          requireRange({ name: path, size: found.size }, start, end)
          return TE.tryCatch(() => readRange(path, start, end), failureOf('read', path))
        },
      }
    },
    failureOf('read', path),
  )
