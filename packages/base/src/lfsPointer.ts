/** Pointers that Git LFS puts in the place of large files until they are fetched. */

const START = 'version https://git-lfs.github.com/spec/'

/** The maximum size of a pointer in bytes, by the specification of Git LFS. */
const LFS_POINTER_BYTES = 1024

/** The first bytes of a pointer, which are not those of a binary file. */
const BINARY_START = new TextEncoder().encode(START.slice(0, 8))

const problemOf = (size: string | undefined): string =>
  `it is a Git LFS pointer${size === undefined ? '' : ` to ${size} bytes`}, not the file itself: fetch it with 'git lfs pull'`

/**
 * Returns a problem if a text is a pointer or the first line of one, else undefined.
 *
 * @example
 * lfsProblem('{}') // undefined
 */
export const lfsProblem = (text: string): string | undefined =>
  text.startsWith(START) ? problemOf(/^size (\d{1,20})$/m.exec(text.slice(0, LFS_POINTER_BYTES))?.[1]) : undefined

/** Returns a problem if the first 8 bytes of a file are those of a pointer, else undefined. */
export const lfsProblemOfBytes = (first: Uint8Array): string | undefined =>
  BINARY_START.every((byte, i) => byte === first[i]) ? problemOf(undefined) : undefined
