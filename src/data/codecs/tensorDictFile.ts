/** TensorDict files on disk: written atomically, read as a whole or one entry at a time. */
import type { FileFailure, Files, FormatFailure, OpenFile } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { type Owned, own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Entry, TensorDict } from '../tensorDict/tensorDict.js'
import { type Block, blocksOf, type FilePlan, headerBytes, PREAMBLE_BYTES, parseTree } from './tensorDictFileHeader.js'
import { assemble, type FoundPlan, findPlan, type TensorDictReadOptions } from './tensorDictFileRead.js'
import { type TensorDictFileOptions, tensorDictParts } from './tensorDictFileWrite.js'

/** A failure of the file system or of the format. Both name the path. */
export type TensorDictReadFailure = FileFailure | FormatFailure

/**
 * Writes a TensorDict to a file atomically: after a crash or on a full disk the old file remains.
 *
 * Errors   `Left(FileFailure)`; throws what `encodeTensorDict` throws.
 * Effects  reads the tensors immediately: they may be freed while the file is being written.
 */
export const writeTensorDict = (
  path: string,
  td: TensorDict,
  options: TensorDictFileOptions & { readonly files?: Pick<Files, 'write'> } = {},
): TE.TaskEither<FileFailure, void> => (options.files ?? liveFiles).write(path, tensorDictParts(td, options))

const readPlan = (file: OpenFile): TE.TaskEither<TensorDictReadFailure, FilePlan> => {
  const preamble = new Uint8Array(Math.min(PREAMBLE_BYTES, file.size))
  return pipe(
    file.read(preamble, 0),
    TE.chainEitherKW(() => headerBytes(preamble, file.size)),
    TE.chainW((length) => {
      const header = new Uint8Array(length) // no longer than the file, as `headerBytes` checked
      header.set(preamble)
      return pipe(
        file.read(header.subarray(PREAMBLE_BYTES), PREAMBLE_BYTES),
        TE.chainEitherKW(() => parseTree(header, file.size)),
      )
    }),
  )
}

/** Reads each block into memory of its own, so that keeping one does not keep the others. */
const readBlocks = (
  file: OpenFile,
  start: number,
  blocks: readonly Block[],
): TE.TaskEither<FileFailure, ReadonlyMap<Block, Uint8Array>> =>
  pipe(
    blocks,
    TE.traverseSeqArray((block) => {
      const bytes = new Uint8Array(block.end - block.begin) // inside the file, as `parseTree` checked
      return pipe(
        file.read(bytes, start + block.begin),
        TE.map(() => [block, bytes] as const),
      )
    }),
    TE.map((pairs) => new Map(pairs)),
  )

/** An entry of the header, with the bytes of its blocks. */
interface FoundEntry {
  readonly found: FoundPlan
  readonly blocks: ReadonlyMap<Block, Uint8Array>
}

const readFrom = (file: OpenFile, path: readonly string[]): TE.TaskEither<TensorDictReadFailure, FoundEntry> =>
  pipe(
    readPlan(file),
    TE.chainW((plan) =>
      pipe(
        TE.fromEither(findPlan(plan.tree, path)),
        TE.chainW((found) =>
          pipe(
            readBlocks(file, plan.headerBytes, blocksOf(found.plan)),
            TE.map((blocks) => ({ found, blocks })),
          ),
        ),
      ),
    ),
  )

/** Options for reading a file. */
export interface TensorDictOpenOptions extends TensorDictFileOptions {
  readonly files?: Pick<Files, 'open'>
}

/**
 * Reads one entry of a file, a leaf or a whole node. Only the header and the bytes of that entry
 * are read.
 *
 * Errors   `Left(FileFailure)`, or `Left(FormatFailure)` for what `decodeTensorDictAt` refuses. The
 *          file is closed in any case.
 * Effects  creates tensors, which the result owns: release it.
 * Source   law 85.
 */
export const readTensorDictAt = (
  file: string,
  path: readonly string[],
  options: TensorDictOpenOptions = {},
): TE.TaskEither<TensorDictReadFailure, Owned<Entry>> =>
  pipe(
    TE.bracketW(
      (options.files ?? liveFiles).open(file),
      (opened) => readFrom(opened, path),
      (opened) => opened.close,
    ),
    TE.chainEitherKW(({ found, blocks }) => {
      const read: TensorDictReadOptions = { ...options, memory: 'share' } // the blocks have no other user
      return assemble(found, (block) => blocks.get(block)!, read) // all of them were read
    }),
    TE.map(own),
    TE.mapLeft((failure) => (failure._tag === 'FormatFailure' ? { ...failure, where: file } : failure)),
  )

/**
 * Reads a whole file.
 *
 * Errors   those of `readTensorDictAt`.
 * Effects  creates tensors, which the result owns: release it.
 */
export const readTensorDict = (
  file: string,
  options: TensorDictOpenOptions = {},
): TE.TaskEither<TensorDictReadFailure, Owned<TensorDict>> =>
  readTensorDictAt(file, [], options) as TE.TaskEither<TensorDictReadFailure, Owned<TensorDict>> // the empty path leads to the root
