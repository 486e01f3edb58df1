/** A run folder as one file: an uncompressed archive that `tar xf` unpacks. */
import { tarArchive } from '@tandem-rl/base'
import { type Files, orThrow } from 'tandem-rl'

/** Lists the paths of all files below a folder. A path that lists nothing and can be read is a file. */
const filesBelow = async (files: Files, folder: string): Promise<readonly string[]> => {
  const found: string[] = []
  for (const name of orThrow(await files.list(folder)())) {
    const path = `${folder}/${name}`
    const opened = await files.open(path)()
    if (opened._tag === 'Right') {
      await opened.right.close()
      found.push(path)
    } else found.push(...(await filesBelow(files, path)))
  }
  return found
}

/**
 * Makes the archive of a folder. Names in it begin with the last part of the folder's path.
 *
 * Errors   throws FailureError if a file cannot be read, and RangeError for a path of more than 100
 *          bytes.
 */
export const archive = async (files: Files, folder: string): Promise<Blob> => {
  const start = folder.lastIndexOf('/') + 1
  const contents: [string, Uint8Array][] = []
  for (const path of await filesBelow(files, folder)) {
    contents.push([path.slice(start), orThrow(await files.readBytes(path)())])
  }
  return new Blob([new Uint8Array(tarArchive(Object.fromEntries(contents)))], { type: 'application/x-tar' })
}
