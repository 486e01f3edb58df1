/** Files in memory that count how many of them are open. */
import type { FileFailure, Files } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'

const failure = (path: string, reason: string): FileFailure => ({
  _tag: 'FileFailure',
  operation: 'read',
  path,
  where: path,
  code: 'ENOENT',
  reason,
})

export const memoryFiles = (
  contents: Readonly<Record<string, Uint8Array>>,
): { readonly files: Pick<Files, 'open'>; readonly open: () => number } => {
  let count = 0
  return {
    open: () => count,
    files: {
      open: (path) => {
        const bytes = contents[path]
        if (bytes === undefined) return TE.left(failure(path, 'no such file'))
        count++
        return TE.right({
          size: bytes.length,
          read: (target, position) => {
            if (position + target.length > bytes.length) return TE.left(failure(path, 'the file ends before'))
            target.set(bytes.subarray(position, position + target.length))
            return TE.right(undefined)
          },
          close: async () => {
            count--
            return { _tag: 'Right', right: undefined }
          },
        })
      },
    },
  }
}
