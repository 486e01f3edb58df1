/** GGUF files on disk: opening reads only headers, and tensors are read on demand. */
import type { FileFailure, Files, FormatFailure, OpenFile } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { blockType, restoreBlocks } from './blocks.js'
import { GGUF_LIMITS, type GgufEntry, type GgufHeader, type GgufValue, parseHeader } from './header.js'

/** A failure of the file system or of the format. Both name the path. */
export type GgufReadFailure = FileFailure | FormatFailure

/** The numbers of a tensor, row-major. */
export interface GgufArray {
  readonly shape: readonly number[]
  readonly data: Float32Array<ArrayBuffer>
}

/** The tensors of a model in one file or several, read on demand. */
export interface OpenGguf {
  /** Values by key; those of the first file of a split model. */
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** Tensors by name, such as `blk.0.attn_q.weight`. */
  readonly entries: ReadonlyMap<string, GgufEntry>
  /**
   * Reads a tensor in float32.
   *
   * Errors   throws RangeError for a name that is not in `entries`. `Left(FileFailure)` if the file
   *          can no longer be read.
   * Cost     memory of the result and of 4 MB of blocks.
   */
  readonly read: (name: string) => TE.TaskEither<FileFailure, GgufArray>
  /** Closes the files. Call it once, after the last read. */
  readonly close: TE.TaskEither<FileFailure, void>
}

/** The bytes of the header that are read at first. They double until the header fits. */
const FIRST_BYTES = 2 ** 20

const refuse = (path: string, reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'GGUF', where: path, reason })

const readHeader = (
  path: string,
  file: OpenFile,
  bytes = Math.min(FIRST_BYTES, file.size),
): TE.TaskEither<GgufReadFailure, GgufHeader> => {
  const piece = new Uint8Array(bytes)
  return pipe(
    file.read(piece, 0),
    TE.chainW((): TE.TaskEither<GgufReadFailure, GgufHeader> => {
      const header = parseHeader(piece, file.size)
      if (E.isRight(header)) return TE.right(header.right)
      if (header.left !== 'truncated') return TE.left({ ...header.left, where: path })
      if (bytes === file.size) return TE.fromEither(refuse(path, `it ends in its header, at byte ${bytes}`))
      if (bytes === GGUF_LIMITS.headerBytes)
        return TE.fromEither(refuse(path, `the header is longer than ${bytes} bytes`))
      return readHeader(path, file, Math.min(2 * bytes, file.size, GGUF_LIMITS.headerBytes))
    }),
  )
}

/** The number of bytes of blocks per read. */
const SLICE_BYTES = 2 ** 22

const readEntry = (file: OpenFile, { type, shape, begin, end }: GgufEntry): TE.TaskEither<FileFailure, GgufArray> => {
  const { numbers, bytes } = blockType(type)
  const slice = Math.floor(SLICE_BYTES / bytes) * bytes
  const data = new Float32Array(((end - begin) / bytes) * numbers) // the file holds these blocks
  const piece = new Uint8Array(Math.min(end - begin, slice))
  return pipe(
    Array.from({ length: Math.ceil((end - begin) / slice) }, (_, i) => i * slice),
    TE.traverseSeqArray((start) => {
      const blocks = piece.subarray(0, Math.min(end - begin - start, slice))
      const first = (start / bytes) * numbers
      return pipe(
        file.read(blocks, begin + start),
        TE.map(() => restoreBlocks(type, blocks, data.subarray(first, first + (blocks.byteLength / bytes) * numbers))),
      )
    }),
    TE.map(() => ({ shape, data })),
  )
}

/** One file of a model. */
interface Part {
  readonly path: string
  readonly header: GgufHeader
  readonly file: OpenFile
}

const openPart = (path: string, files: Pick<Files, 'open'>): TE.TaskEither<GgufReadFailure, Part> =>
  pipe(
    files.open(path),
    TE.chainW((file) =>
      pipe(
        readHeader(path, file),
        TE.orElseW((failure) =>
          pipe(
            file.close,
            TE.chainW(() => TE.left(failure)),
          ),
        ),
        TE.map((header) => ({ path, header, file })),
      ),
    ),
  )

const closeAll = (parts: readonly Part[]): TE.TaskEither<FileFailure, void> =>
  pipe(
    parts.map(({ file }) => file.close),
    TE.sequenceSeqArray,
    TE.map(() => undefined),
  )

/** Closes files, and fails. */
const closing = (parts: readonly Part[], failure: GgufReadFailure): TE.TaskEither<GgufReadFailure, never> =>
  pipe(
    closeAll(parts),
    TE.chainW(() => TE.left(failure)),
  )

/** Returns the paths of the other files of a split model, by the name of one and their number. */
const otherPaths = ({ path, header }: Part): E.Either<FormatFailure, readonly string[]> => {
  const files = header.metadata.get('split.count') ?? 1
  if (files === 1 || files === 0) return E.right([])
  const [, stem, number, total] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(path) ?? []
  if (stem === undefined || number === undefined || Number(total) !== files) {
    return refuse(path, `it is one of ${String(files)} files, but its name does not end in -00001-of-NNNNN.gguf`)
  }
  if (files > GGUF_LIMITS.splitFiles) return refuse(path, `${files} files are more than ${GGUF_LIMITS.splitFiles}`)
  const paths = Array.from({ length: files }, (_, i) => `${stem}-${String(i + 1).padStart(5, '0')}-of-${total}.gguf`)
  return E.right(paths.filter((other) => other !== path))
}

const joined = (parts: readonly Part[]): E.Either<FormatFailure, OpenGguf> => {
  const first = parts.find(({ header }) => (header.metadata.get('split.no') ?? 0) === 0)
  if (first === undefined) return refuse(parts[0]!.path, 'no file of the split model has the number 0') // a model has a file
  const places = new Map<string, Part>()
  for (const part of parts) {
    for (const tensor of part.header.entries.keys()) {
      if (places.has(tensor)) return refuse(part.path, `tensor ${JSON.stringify(tensor)} is also in another file`)
      places.set(tensor, part)
    }
  }
  const stated = first.header.metadata.get('split.tensors.count')
  if (stated !== undefined && stated !== places.size) {
    return refuse(first.path, `the files have ${places.size} tensors, not ${String(stated)}`)
  }
  const entries = new Map(parts.flatMap(({ header }) => [...header.entries]))
  return E.right({
    metadata: first.header.metadata,
    entries,
    read: (tensor) => {
      const [part, entry] = [places.get(tensor), entries.get(tensor)]
      if (part === undefined || entry === undefined) {
        throw new RangeError(`read: there is no tensor ${JSON.stringify(tensor)}`)
      }
      return readEntry(part.file, entry)
    },
    close: closeAll(parts),
  })
}

/**
 * Opens a model in GGUF and reads its header. Of a split model, any of its files
 * (`-00001-of-00003.gguf`) opens all.
 *
 * Types    F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.
 * Errors   `Left(FileFailure)`, or `Left(FormatFailure)` for what is not GGUF of version 2 or 3,
 *          other types of tensors, tensors that overlap or that the file cannot hold, a header of
 *          more than 512 MB, and files that do not belong together. All files are closed then.
 * Effects  the files are open until `close`.
 * Cost     memory for the header, and once more while it is parsed.
 */
export const openGguf = (path: string, files: Pick<Files, 'open'>): TE.TaskEither<GgufReadFailure, OpenGguf> =>
  pipe(
    openPart(path, files),
    TE.chainW((part) =>
      pipe(
        TE.fromEither<GgufReadFailure, readonly string[]>(otherPaths(part)),
        TE.chain((paths) =>
          paths.reduce<TE.TaskEither<GgufReadFailure, readonly Part[]>>(
            (before, other) =>
              pipe(
                before,
                TE.chain((parts) =>
                  pipe(
                    openPart(other, files),
                    TE.orElseW((failure) => closing(parts.slice(1), failure)),
                    TE.map((next) => [...parts, next]),
                  ),
                ),
              ),
            TE.right([part]),
          ),
        ),
        TE.orElseW((failure) => closing([part], failure)),
        TE.chain((parts) =>
          pipe(
            TE.fromEither<GgufReadFailure, OpenGguf>(joined(parts)),
            TE.orElseW((failure) => closing(parts, failure)),
          ),
        ),
      ),
    ),
  )
