/** Digests of files, block by block. */
import {
  type Digest,
  type FileFailure,
  type Files,
  fileFailure,
  type OpenFile,
  type RunningDigest,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Bytes that are read at once. */
const BLOCK = 2 ** 22

const addBlocks = async (
  file: OpenFile,
  running: RunningDigest,
  bytes: number,
): Promise<E.Either<FileFailure, void>> => {
  const block = new Uint8Array(Math.min(BLOCK, bytes))
  for (let at = 0; at < bytes; at += BLOCK) {
    const part = block.subarray(0, Math.min(BLOCK, bytes - at))
    const read = await file.read(part, at)()
    if (E.isLeft(read)) return read
    running.add(part)
  }
  return E.right(undefined)
}

/**
 * Starts a digest with the first `bytes` bytes of a file, by default all.
 *
 * Errors   `Left(FileFailure)` if the file cannot be read or is shorter.
 */
export const digestFile = (
  files: Pick<Files, 'open'>,
  path: string,
  { digest, bytes }: { readonly digest: Digest; readonly bytes?: number },
): TE.TaskEither<FileFailure, RunningDigest> =>
  TE.bracket(
    files.open(path),
    (file) => async () => {
      const wanted = bytes ?? file.size
      if (file.size < wanted) {
        const reason = `the file has ${file.size} bytes, fewer than the ${wanted} that were kept`
        return E.left(fileFailure('read', path, { code: 'UNKNOWN', reason }))
      }
      const running = digest.start()
      const added = await addBlocks(file, running, wanted)
      return E.isLeft(added) ? added : E.right(running)
    },
    ({ close }) => close,
  )
