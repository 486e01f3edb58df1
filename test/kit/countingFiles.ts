/** The real files, counting the bytes that are read at places, and the files that are open. */
import type { Files } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

export const countingFiles = (): { readonly files: Files; readonly seen: { bytes: number; open: number } } => {
  const seen = { bytes: 0, open: 0 }
  const open: Files['open'] = (path) =>
    pipe(
      liveFiles.open(path),
      TE.map((file) => {
        seen.open++
        return {
          size: file.size,
          read: (target: Uint8Array, position: number) => {
            seen.bytes += target.length
            return file.read(target, position)
          },
          close: pipe(
            file.close,
            TE.map(() => {
              seen.open--
            }),
          ),
        }
      }),
    )
  return { files: { ...liveFiles, open }, seen }
}
