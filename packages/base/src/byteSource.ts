/** Bytes that are read by range: a file of any size, or an array. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { FileFailure } from './failure.js'

/** A fixed number of bytes with a name. It keeps nothing open: every read is independent. */
export interface ByteSource {
  /** The name in failures, such as the path of a file. */
  readonly name: string
  readonly size: number
  /** Reads bytes `start .. end - 1`. Throws RangeError for a range outside `0 .. size`. */
  readonly read: (start: number, end: number) => TE.TaskEither<FileFailure, Uint8Array>
}

/** Throws RangeError unless `start .. end` is inside the source. */
export const requireRange = ({ name, size }: Omit<ByteSource, 'read'>, start: number, end: number): void => {
  if (![start, end].every(Number.isSafeInteger) || start < 0 || end < start || end > size) {
    throw new RangeError(`${name}: bytes ${start} to ${end} are not inside its ${size} bytes`)
  }
}

/**
 * Wraps bytes in memory as a source. They are not copied.
 *
 * Effects  none.
 *
 * @example
 * memoryBytes(new Uint8Array([1, 2, 3]), 'three').size // 3
 */
export const memoryBytes = (bytes: Uint8Array, name: string): ByteSource => ({
  name,
  size: bytes.length,
  read: (start, end) => {
    requireRange({ name, size: bytes.length }, start, end)
    return TE.right(bytes.subarray(start, end))
  },
})
