/** Times and sizes of files. */
import * as fs from 'node:fs/promises'

/** The size of a file, and when it was made and last changed, in ISO format. */
interface FileTimes {
  readonly bytes: number
  readonly created: string
  readonly modified: string
}

/** Returns the times and the size of a file, or `null` if it cannot be read. */
export const fileTimes = async (path: string): Promise<FileTimes | null> => {
  try {
    const { birthtime, mtime, size } = await fs.stat(path)
    return { bytes: size, created: birthtime.toISOString(), modified: mtime.toISOString() }
  } catch {
    return null
  }
}
