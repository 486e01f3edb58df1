/** Reading of zip archives: stored, deflated and Zstandard entries. */
import {
  type ByteSource,
  crc32,
  errorMessage,
  type FileFailure,
  type FormatFailure,
  optionalPackage,
  type PackageFailure,
} from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import { inflateRaw } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** An entry of an archive. */
export interface ZipEntry {
  readonly name: string
  /** Size after decompression. */
  readonly bytes: number
  /** The number of the compression method: 0 stored, 8 DEFLATE, 93 Zstandard. */
  readonly method: number
  readonly packedBytes: number
  readonly checksum: number
  /** Start of the entry in the archive. */
  readonly start: number
}

export type ZipFailure = FormatFailure | FileFailure | PackageFailure

const END = 0x06054b50
const CENTRAL = 0x02014b50
const LOCAL = 0x04034b50
const [END_BYTES, CENTRAL_BYTES, LOCAL_BYTES] = [22, 46, 30]

/** The longest comment after the end record. */
const LONGEST_COMMENT = 65_535

/** The most bytes of one decompressed entry. */
const LARGEST = 2 ** 29

const decoder = new TextDecoder()

const problem = ({ name }: ByteSource, reason: string): FormatFailure => ({
  _tag: 'FormatFailure',
  format: 'zip',
  reason: `${name} is not a zip archive, or is damaged: ${reason}`,
})

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Finds the end record in the last bytes of an archive. Returns -1 for other files. */
const endAt = (tail: DataView): number => {
  for (let at = tail.byteLength - END_BYTES; at >= 0; at--) if (tail.getUint32(at, true) === END) return at
  return -1
}

/** Parses the central directory. Returns the reason if it is malformed. */
const parseDirectory = (bytes: Uint8Array, count: number): E.Either<string, readonly ZipEntry[]> => {
  const view = viewOf(bytes)
  const entries: ZipEntry[] = []
  for (let at = 0; entries.length < count; ) {
    if (at + CENTRAL_BYTES > bytes.length || view.getUint32(at, true) !== CENTRAL)
      return E.left(`entry ${entries.length + 1} of ${count} is missing`)
    const [nameBytes, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true))
    const [checksum, packedBytes, size] = [16, 20, 24].map((offset) => view.getUint32(at + offset, true))
    const nameStart = at + CENTRAL_BYTES
    entries.push({
      name: decoder.decode(bytes.subarray(nameStart, nameStart + nameBytes!)),
      method: view.getUint16(at + 10, true),
      start: view.getUint32(at + 42, true),
      bytes: size!,
      packedBytes: packedBytes!,
      checksum: checksum!,
    })
    at = nameStart + nameBytes! + extra! + comment!
  }
  return E.right(entries)
}

/**
 * Reads the list of entries of a zip archive.
 *
 * Errors   `Left(FormatFailure)` for bytes that are not an archive, and for archives with more than
 *          65,534 entries or 4 GiB (Zip64). `Left(FileFailure)` from the source.
 */
export const zipEntries = (source: ByteSource): TE.TaskEither<ZipFailure, readonly ZipEntry[]> => {
  const from = Math.max(0, source.size - END_BYTES - LONGEST_COMMENT)
  return pipe(
    source.read(from, source.size),
    TE.chainW((bytes) => {
      const tail = viewOf(bytes)
      const at = endAt(tail)
      if (at < 0) return TE.left(problem(source, 'it has no end record'))
      const [count, size, start] = [
        tail.getUint16(at + 10, true),
        tail.getUint32(at + 12, true),
        tail.getUint32(at + 16, true),
      ]
      if (count === 0xffff || start === 0xffffffff) return TE.left(problem(source, 'Zip64 archives are not supported'))
      if (start + size > source.size) return TE.left(problem(source, 'its directory is outside of the file'))
      return pipe(
        source.read(start, start + size),
        TE.chainEitherKW((directory) =>
          pipe(
            parseDirectory(directory, count),
            E.mapLeft((reason) => problem(source, reason)),
          ),
        ),
      )
    }),
  )
}

type Decompress = (packed: Uint8Array) => Uint8Array

const decompressor = (source: ByteSource, { method, bytes }: ZipEntry): TE.TaskEither<ZipFailure, Decompress> => {
  if (method === 0) return TE.right((packed) => packed)
  if (method === 8) return TE.right((packed) => inflateRaw(packed, bytes))
  if (method !== 93) return TE.left(problem(source, `compression method ${method} is not supported`))
  return pipe(
    optionalPackage('hyparquet-compressors', 'reading zip archives with Zstandard', () =>
      importPackage<typeof import('hyparquet-compressors')>('hyparquet-compressors', import.meta),
    ),
    TE.map(
      ({ decompressZstd }): Decompress =>
        (packed) =>
          decompressZstd(packed, new Uint8Array(bytes)),
    ),
  )
}

/**
 * Reads one entry of a zip archive and checks its checksum.
 *
 * Errors   `Left(FormatFailure)` for a damaged entry, one of more than 512 MiB, and for other
 *          compression methods. `Left(FileFailure)` from the source; `Left(PackageFailure)` if
 *          Zstandard is needed and not installed.
 */
export const readZipEntry = (source: ByteSource, entry: ZipEntry): TE.TaskEither<ZipFailure, Uint8Array> => {
  const damaged = (reason: string) => problem(source, `${entry.name}: ${reason}`)
  const { start, packedBytes, bytes, checksum } = entry
  if (bytes > LARGEST) return TE.left(damaged(`it has ${bytes} bytes, and at most ${LARGEST} are read`))
  if (start + LOCAL_BYTES > source.size) return TE.left(damaged('it is outside of the file'))
  return pipe(
    source.read(start, start + LOCAL_BYTES),
    TE.chainW((header): TE.TaskEither<ZipFailure, Uint8Array> => {
      const view = viewOf(header)
      const from = start + LOCAL_BYTES + view.getUint16(26, true) + view.getUint16(28, true)
      if (view.getUint32(0, true) !== LOCAL || from + packedBytes > source.size)
        return TE.left(damaged('it does not start at the offset in the directory'))
      return source.read(from, from + packedBytes)
    }),
    TE.bindTo('packed'),
    TE.bindW('decompress', () => decompressor(source, entry)),
    TE.chainEitherKW(({ packed, decompress }): E.Either<ZipFailure, Uint8Array> => {
      const read = E.tryCatch(() => decompress(packed), errorMessage)
      if (E.isLeft(read)) return E.left(damaged(read.left))
      const isWhole = read.right.length === bytes && crc32(read.right) === checksum
      return isWhole ? read : E.left(damaged('its checksum differs'))
    }),
  )
}
