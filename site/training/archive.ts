/** A run folder as one file: an uncompressed archive that `tar xf` unpacks. */
import { type Files, orThrow } from 'tandem-rl'

const BLOCK = 512

/** Makes the header of a file in the format ustar. */
const header = (name: string, size: number): Uint8Array => {
  const block = new Uint8Array(BLOCK)
  const put = (text: string, at: number): void => block.set(new TextEncoder().encode(text), at)
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  put(name, 0)
  put(octal(0o644, 7), 100)
  put(octal(0, 7), 108)
  put(octal(0, 7), 116)
  put(octal(size, 11), 124)
  put(octal(0, 11), 136)
  put('        0', 148) // the checksum counts as spaces; type 0 is a file
  put('ustar\x0000', 257)
  put(
    `${octal(
      block.reduce((sum, byte) => sum + byte, 0),
      6,
    )} `,
    148,
  )
  return block
}

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
 *          characters.
 */
export const archive = async (files: Files, folder: string): Promise<Blob> => {
  const start = folder.lastIndexOf('/') + 1
  const parts: Uint8Array<ArrayBuffer>[] = []
  for (const path of await filesBelow(files, folder)) {
    const name = path.slice(start)
    if (name.length > 100) throw new RangeError(`archive: ${name} has more than 100 characters`)
    const bytes = orThrow(await files.readBytes(path)())
    parts.push(new Uint8Array(header(name, bytes.length)), new Uint8Array(bytes))
    parts.push(new Uint8Array((BLOCK - (bytes.length % BLOCK)) % BLOCK))
  }
  return new Blob([...parts, new Uint8Array(2 * BLOCK)], { type: 'application/x-tar' })
}
