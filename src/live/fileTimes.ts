/** Times of files. */
import * as fs from 'node:fs/promises'

/** When a file was made and last changed, in ISO format. */
export interface FileTimes {
  readonly created: string
  readonly modified: string
}

/** Returns the times of a file, or `null` if it cannot be read. */
export const fileTimes = async (path: string): Promise<FileTimes | null> => {
  try {
    const { birthtime, mtime } = await fs.stat(path)
    return { created: birthtime.toISOString(), modified: mtime.toISOString() }
  } catch {
    return null
  }
}
