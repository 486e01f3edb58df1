/** Real files whose writes fail on demand. */
import { appendFileSync } from 'node:fs'
import { type Files, fileFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Asks `trouble` at each write of something: `half` leaves the first half of what is appended. */
export const faultyFiles = (trouble: () => 'none' | 'fails' | 'half'): Files => {
  const full = TE.left(fileFailure('append to', '', { code: 'ENOSPC', reason: 'full' }))
  return {
    ...liveFiles,
    append: (path, contents) => {
      const how = contents.length === 0 ? 'none' : trouble()
      if (how === 'half') appendFileSync(path, contents.slice(0, contents.length >> 1))
      return how === 'none' ? liveFiles.append(path, contents) : full
    },
    write: (path, contents) => (trouble() === 'none' ? liveFiles.write(path, contents) : full),
    truncate: (path, length) => (trouble() === 'none' ? liveFiles.truncate(path, length) : full),
  }
}
