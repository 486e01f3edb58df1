/** Checkpoints in several files, with an index from tensors to shards. */
import {
  type FileFailure,
  type Files,
  type FormatFailure,
  isJsonObject,
  lfsProblem,
  parseStrictJson,
} from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  byteLength,
  type FileInParts,
  inFileOrder,
  requireWritable,
  type SafetensorsOptions,
  safetensorsParts,
  type WritableArray,
} from './safetensors.js'
import {
  type OpenSafetensors,
  openSafetensors,
  type RowRange,
  requireEntry,
  type SafetensorsReadFailure,
} from './safetensorsFile.js'
import type { StoredArray } from './storage.js'

/** The file of an unsharded checkpoint, and the index of a sharded one. */
const WHOLE = 'model.safetensors'
const INDEX = 'model.safetensors.index.json'

type OpenFiles = Pick<Files, 'open' | 'readText' | 'exists'>

const refuse = (path: string, reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'safetensors index', where: path, reason })

/** Parses the index: the shard of each tensor by name. */
const parseIndex = (path: string, text: string): E.Either<FormatFailure, ReadonlyMap<string, string>> => {
  const parsed = parseStrictJson(text)
  if (E.isLeft(parsed)) return refuse(path, lfsProblem(text) ?? `not JSON: ${parsed.left}`)
  const map = isJsonObject(parsed.right) ? parsed.right.get('weight_map') : undefined
  if (!isJsonObject(map)) return refuse(path, "'weight_map' is not an object")
  const shards = new Map<string, string>()
  for (const [name, file] of map) {
    if (typeof file !== 'string') return refuse(path, `the file of ${JSON.stringify(name)} is not a text`)
    if (!/^[\w.-]+\.safetensors$/.test(file))
      return refuse(path, `shard name ${JSON.stringify(file)} is not a file name`)
    shards.set(name, file)
  }
  return E.right(shards)
}

const closeAll = (shards: Iterable<OpenSafetensors>): TE.TaskEither<FileFailure, void> =>
  pipe(
    [...shards].map(({ close }) => close),
    TE.sequenceSeqArray,
    TE.map(() => undefined),
  )

/** Opens files one after the other. If one fails, those before it are closed. */
const openEach = (
  folder: string,
  names: readonly string[],
  files: OpenFiles,
): TE.TaskEither<SafetensorsReadFailure, ReadonlyMap<string, OpenSafetensors>> =>
  names.reduce<TE.TaskEither<SafetensorsReadFailure, ReadonlyMap<string, OpenSafetensors>>>(
    (opened, name) =>
      pipe(
        opened,
        TE.chain((shards) =>
          pipe(
            openSafetensors(`${folder}/${name}`, files),
            TE.orElse((failure) =>
              pipe(
                closeAll(shards.values()),
                TE.chain(() => TE.left<SafetensorsReadFailure, OpenSafetensors>(failure)),
              ),
            ),
            TE.map((shard): ReadonlyMap<string, OpenSafetensors> => new Map([...shards, [name, shard]])),
          ),
        ),
      ),
    TE.right(new Map()),
  )

/** Returns the first disagreement between index and shards, or undefined. */
const disagreement = (
  index: ReadonlyMap<string, string>,
  shards: ReadonlyMap<string, OpenSafetensors>,
): string | undefined => {
  for (const [name, file] of index) {
    if (!shards.get(file)!.entries.has(name)) return `${JSON.stringify(name)} should be in ${file}, but is not` // every file was opened
  }
  for (const [file, { entries }] of shards) {
    for (const name of entries.keys()) {
      const stated = index.get(name)
      if (stated !== file) {
        return `${JSON.stringify(name)} is in ${file}, but the index ${stated === undefined ? 'does not name it' : `names ${stated}`}`
      }
    }
  }
  return undefined
}

const joined = (index: ReadonlyMap<string, string>, shards: ReadonlyMap<string, OpenSafetensors>): OpenSafetensors => ({
  entries: new Map([...shards.values()].flatMap(({ entries }) => [...entries])),
  metadata: Object.assign({}, ...[...shards.values()].map(({ metadata }) => metadata)) as Readonly<
    Record<string, string>
  >, // of records of texts
  read: (name: string, rows?: RowRange) => shards.get(requireEntry(index, name))!.read(name, rows), // every file was opened
  close: closeAll(shards.values()),
})

const openShards = (
  folder: string,
  index: ReadonlyMap<string, string>,
  files: OpenFiles,
): TE.TaskEither<SafetensorsReadFailure, OpenSafetensors> =>
  pipe(
    openEach(folder, [...new Set(index.values())].sort(), files),
    TE.chain((shards) => {
      const problem = disagreement(index, shards)
      if (problem === undefined) return TE.right(joined(index, shards))
      return pipe(
        closeAll(shards.values()),
        TE.chainEitherKW(() => refuse(`${folder}/${INDEX}`, problem)),
      )
    }),
  )

/**
 * Opens the weights of a model folder: the shards that `model.safetensors.index.json` names, or
 * `model.safetensors`. Only headers are read.
 *
 * Errors   `Left(FileFailure)` or `Left(FormatFailure)`, naming the file: missing, malformed, a
 *          shard outside of the folder, or an index that does not match the shards. All files are
 *          closed in these cases.
 * Effects  the files are open until `close`.
 */
export const openCheckpoint = (
  folder: string,
  files: OpenFiles = liveFiles,
): TE.TaskEither<SafetensorsReadFailure, OpenSafetensors> => {
  const path = `${folder}/${INDEX}`
  return pipe(
    files.exists(path),
    TE.chainW((isSharded) =>
      isSharded
        ? pipe(
            files.readText(path),
            TE.chainEitherKW((text) => parseIndex(path, text)),
            TE.chainW((index) => openShards(folder, index, files)),
          )
        : openSafetensors(`${folder}/${WHOLE}`, files),
    ),
  )
}

/** Options for splitting a checkpoint into files. */
export interface ShardOptions extends SafetensorsOptions {
  /** The maximum number of bytes of tensors in one file. A larger tensor gets a file of its own. */
  readonly maxShardBytes: number
}

/** Groups tensors in order, each group below the limit. */
const grouped = (
  ordered: readonly (readonly [string, StoredArray])[],
  limit: number,
): readonly (readonly (readonly [string, StoredArray])[])[] => {
  const groups: (readonly [string, StoredArray])[][] = []
  let room = 0
  for (const pair of ordered) {
    const bytes = byteLength(pair[1])
    if (groups.length === 0 || bytes > room) {
      groups.push([])
      room = limit
    }
    groups.at(-1)!.push(pair)
    room -= bytes
  }
  return groups
}

/**
 * Splits a checkpoint into shards, by file name, with their index. `openCheckpoint` and
 *          Transformers read them back. A checkpoint that fits into one shard becomes a single
 *          `model.safetensors` without index. Made for `Files.writeFolder`, which creates the
 *          pieces while writing.
 *
 * Errors   throws RangeError if `maxShardBytes` is not positive, and what `safetensorsParts`
 *          throws.
 */
export const shardedSafetensors = (
  arrays: ReadonlyMap<string, WritableArray>,
  { maxShardBytes, ...options }: ShardOptions,
): Readonly<Record<string, FileInParts | string>> => {
  if (!(maxShardBytes > 0))
    throw new RangeError(`shardedSafetensors: maxShardBytes must be positive, got ${maxShardBytes}`)
  requireWritable('shardedSafetensors', arrays)
  const groups = grouped(inFileOrder(arrays, options.float), maxShardBytes)
  if (groups.length < 2) return { [WHOLE]: safetensorsParts(arrays, options) }
  const number = (n: number): string => String(n).padStart(5, '0')
  const fileOf = (i: number): string => `model-${number(i + 1)}-of-${number(groups.length)}.safetensors`
  const places = groups.flatMap((group, i) => group.map(([name]) => [name, fileOf(i)] as const))
  const total = groups.flat().reduce((sum, [, array]) => sum + byteLength(array), 0)
  const index = { metadata: { total_size: total }, weight_map: Object.fromEntries(places) }
  return {
    ...Object.fromEntries(groups.map((group, i) => [fileOf(i), safetensorsParts(new Map(group), options)])),
    [INDEX]: `${JSON.stringify(index, undefined, 2)}\n`,
  }
}
