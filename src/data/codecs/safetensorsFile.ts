/**
 * safetensors files on disk: opening reads only the header, and tensors or rows are read on demand.
 */
import type { FileFailure, Files, FormatFailure, OpenFile } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  type SafetensorsFile,
  type SafetensorsOptions,
  safetensorsParts,
  storedArray,
  type WritableArray,
} from './safetensors.js'
import {
  headerLength,
  LENGTH_BYTES,
  parseSafetensorsHeader,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from './safetensorsHeader.js'
import { numbersFrom, type StoredArray, widenInto } from './storage.js'

/** A failure of the file system or of the format. Both name the path. */
export type SafetensorsReadFailure = FileFailure | FormatFailure

/** A range of the first axis: rows `start .. end - 1`. */
export interface RowRange {
  readonly start: number
  readonly end: number
}

/** The tensors of a file, or of the shards of a checkpoint, read on demand. */
export interface OpenSafetensors extends SafetensorsHeader {
  /**
   * Reads one tensor, or some of its rows. Only their bytes are read.
   *
   * Errors   throws RangeError for a name that is not in `entries`, and for rows outside the first
   *          axis. `Left(FileFailure)` if the file can no longer be read.
   */
  readonly read: (name: string, rows?: RowRange) => TE.TaskEither<FileFailure, StoredArray>
  /** Closes the files. Call it once, after the last read. */
  readonly close: TE.TaskEither<FileFailure, void>
}

/**
 * Returns the byte range and the shape of rows. Throws RangeError for rows that the tensor does not
 * have.
 */
const locate = (
  name: string,
  { type, shape, begin, end }: SafetensorsEntry,
  rows: RowRange | undefined,
): SafetensorsEntry => {
  if (rows === undefined) return { type, shape, begin, end }
  const [size, ...rest] = shape
  const fits = size !== undefined && Number.isInteger(rows.start) && Number.isInteger(rows.end)
  if (!fits || rows.start < 0 || rows.end < rows.start || rows.end > size) {
    throw new RangeError(
      `read: rows ${rows.start} to ${rows.end} of ${JSON.stringify(name)} are out of range, its shape is [${shape.join()}]`,
    )
  }
  const stride = size === 0 ? 0 : (end - begin) / size
  return {
    type,
    shape: [rows.end - rows.start, ...rest],
    begin: begin + rows.start * stride,
    end: begin + rows.end * stride,
  }
}

/** The number of bytes of 16-bit floats per read, so that a tensor is never in memory twice. */
const SLICE_BYTES = 2 ** 22

const readWide = (
  file: OpenFile,
  { type, shape, begin, end }: SafetensorsEntry & { readonly type: 'F16' | 'BF16' },
): TE.TaskEither<FileFailure, StoredArray> => {
  const data = new Float32Array((end - begin) / 2)
  const piece = new Uint16Array(Math.min(end - begin, SLICE_BYTES) / 2)
  const starts = Array.from({ length: Math.ceil((end - begin) / SLICE_BYTES) }, (_, i) => i * SLICE_BYTES)
  return pipe(
    starts,
    TE.traverseSeqArray((start) => {
      const words = piece.subarray(0, Math.min(end - begin - start, SLICE_BYTES) / 2)
      return pipe(
        file.read(new Uint8Array(words.buffer, 0, words.byteLength), begin + start),
        TE.map(() => widenInto(data.subarray(start / 2, start / 2 + words.length), words, type)),
      )
    }),
    TE.map(() => ({ type, shape, data })),
  )
}

const readEntry = (file: OpenFile, entry: SafetensorsEntry): TE.TaskEither<FileFailure, StoredArray> => {
  const { type, shape, begin, end } = entry
  if (type === 'F16' || type === 'BF16') return readWide(file, { type, shape, begin, end })
  const bytes = new Uint8Array(end - begin)
  return pipe(
    file.read(bytes, begin),
    TE.map(() => storedArray(type, shape, numbersFrom(type, bytes, 'share'))),
  )
}

/** Returns an entry. Throws RangeError for an unknown name. */
export const requireEntry = <T>(entries: ReadonlyMap<string, T>, name: string): T => {
  const entry = entries.get(name)
  if (entry !== undefined) return entry
  const some = [...entries.keys()].slice(0, 10).map((key) => JSON.stringify(key))
  throw new RangeError(
    `read: no tensor ${JSON.stringify(name)} among ${entries.size}: ${some.join(', ')}${entries.size > 10 ? ', ...' : ''}`,
  )
}

const readHeader = (file: OpenFile): TE.TaskEither<SafetensorsReadFailure, SafetensorsHeader> => {
  const first = new Uint8Array(Math.min(LENGTH_BYTES, file.size))
  return pipe(
    file.read(first, 0),
    TE.chainEitherKW(() => headerLength(first, file.size)),
    TE.chainW((length) => {
      const json = new Uint8Array(length) // no longer than the file, as `headerLength` checked
      return pipe(
        file.read(json, LENGTH_BYTES),
        TE.chainEitherKW(() => parseSafetensorsHeader(json, file.size)),
      )
    }),
  )
}

/** Adds the path to a failure of the format. */
const at =
  (path: string) =>
  (failure: SafetensorsReadFailure): SafetensorsReadFailure =>
    failure._tag === 'FormatFailure' ? { ...failure, where: path } : failure

/** Closes the file if the step after opening it fails. */
const closing = <E, T>(file: OpenFile, next: TE.TaskEither<E, T>): TE.TaskEither<E | FileFailure, T> =>
  pipe(
    next,
    TE.orElseW((failure) =>
      pipe(
        file.close,
        TE.chainW(() => TE.left(failure)),
      ),
    ),
  )

/**
 * Opens a file and reads its header.
 *
 * Errors   `Left(FileFailure)`, or `Left(FormatFailure)` for what `parseHeader` refuses. The file
 *          is closed in these cases.
 * Effects  the file is open until `close`. If it is replaced meanwhile, the old contents are read
 *          to the end.
 * Cost     memory for the header. `read` takes that of its result, and 4 MB more for 16-bit floats.
 */
export const openSafetensors = (
  path: string,
  files: Pick<Files, 'open'> = liveFiles,
): TE.TaskEither<SafetensorsReadFailure, OpenSafetensors> =>
  pipe(
    files.open(path),
    TE.chainW((file) =>
      closing(
        file,
        pipe(
          readHeader(file),
          TE.map((header) => ({
            ...header,
            read: (name: string, rows?: RowRange) =>
              readEntry(file, locate(name, requireEntry(header.entries, name), rows)),
            close: file.close,
          })),
        ),
      ),
    ),
    TE.mapLeft(at(path)),
  )

/** Reads all tensors of an open file or checkpoint, and closes it. */
export const readAll = (open: OpenSafetensors): TE.TaskEither<FileFailure, SafetensorsFile> =>
  TE.bracket(
    TE.right(open),
    ({ entries, metadata, read }) =>
      pipe(
        [...entries.keys()],
        TE.traverseSeqArray((name) =>
          pipe(
            read(name),
            TE.map((array) => [name, array] as const),
          ),
        ),
        TE.map((pairs) => ({ arrays: new Map(pairs), metadata })),
      ),
    ({ close }) => close,
  )

/**
 * Reads all tensors of a file, each into memory of its own: the file is never in memory twice.
 *
 * Errors   those of `openSafetensors`.
 */
export const readSafetensors = (
  path: string,
  files: Pick<Files, 'open'> = liveFiles,
): TE.TaskEither<SafetensorsReadFailure, SafetensorsFile> => pipe(openSafetensors(path, files), TE.chainW(readAll))

/**
 * Writes a file atomically, without a second copy of the numbers in memory.
 *
 * Errors   `Left(FileFailure)`; throws what `safetensorsParts` throws.
 */
export const writeSafetensors = (
  path: string,
  arrays: ReadonlyMap<string, WritableArray>,
  options: SafetensorsOptions & { readonly files?: Pick<Files, 'write'> } = {},
): TE.TaskEither<FileFailure, void> => {
  const { files = liveFiles, ...rest } = options
  return files.write(path, safetensorsParts(arrays, rest))
}
