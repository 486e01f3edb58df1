/** What pure code may ask of the world, as types. The real ones are in `src/live`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { FileFailure } from './failure.js'

/** Files. Paths are the caller's; every failure names the path, what was tried and what the system said. */
export interface Files {
  readonly readBytes: (path: string) => TaskEither<FileFailure, Uint8Array>
  readonly readText: (path: string) => TaskEither<FileFailure, string>
  /** The whole file or nothing: a crash or a full disk leaves the old contents. */
  readonly write: (path: string, contents: Uint8Array | string) => TaskEither<FileFailure, void>
  /**
   * A folder with all of these files or nothing: it appears under its name only when every byte is on disk. An existing folder
   * of that name is replaced.
   */
  readonly writeFolder: (
    path: string,
    files: Readonly<Record<string, Uint8Array | string>>,
  ) => TaskEither<FileFailure, void>
  /** Adds to the end of a file, which is made if there is none. */
  readonly append: (path: string, contents: string) => TaskEither<FileFailure, void>
  /** Cuts a file to its first `length` bytes. A file that is shorter is a failure. */
  readonly truncate: (path: string, length: number) => TaskEither<FileFailure, void>
  readonly makeFolder: (path: string) => TaskEither<FileFailure, void>
  /** Names in a folder, sorted; none if the folder does not exist. */
  readonly list: (path: string) => TaskEither<FileFailure, readonly string[]>
  readonly exists: (path: string) => TaskEither<FileFailure, boolean>
  /** Removes a file, or a folder with everything in it. No failure if there is none. */
  readonly remove: (path: string) => TaskEither<FileFailure, void>
}

/** Time, and turns of the event loop. */
export interface Clock {
  /** Milliseconds since some fixed moment. Never goes back. */
  readonly now: () => number
  /** Lets timers, signals and input be handled. */
  readonly breathe: () => Promise<void>
}
