/**
 * Checkpoints of trained models in a folder: `MODEL/weights/NAME` and `MODEL/sampler_weights/NAME`.
 */
import { type Calendar, type Failure, type Files, parseJsonAs } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { loraSchema } from '../protocol/jsonWire.js'
import { type CheckpointPath, formatTinkerPath } from '../protocol/paths.js'
import { OUTPUT_LAYER } from './clientModel.js'

const INFO_FILE = 'tinker.json'

/** The settings of an adapter, as in PEFT. */
const ADAPTER_CONFIG = 'adapter_config.json'

const infoSchema = z.object({
  base_model: z.string(),
  lora: loraSchema.nullable(),
  time: z.string(),
  size_bytes: z.number(),
  public: z.boolean(),
  /** The client that saved it, if there are several: see `Desk.owner`. */
  owner: z.string().optional(),
  /** The time after which it is deleted; absent for a checkpoint that is kept. */
  expires_at: z.string().optional(),
})

/** The part of an adapter's settings that lists its modules. */
const targetsSchema = z.object({ target_modules: z.array(z.string()) })

/** The stored record of a checkpoint. */
type CheckpointInfo = z.infer<typeof infoSchema>

/** A checkpoint as the protocol lists it. */
export interface ListedCheckpoint {
  readonly path: CheckpointPath
  readonly info: CheckpointInfo
}

/** A mutable value: the folder of checkpoints. */
export interface Checkpoints {
  readonly folderOf: (path: CheckpointPath) => string
  /** Saves files, for `ttlSeconds` if it is not null. */
  readonly save: (
    path: CheckpointPath,
    about: Pick<CheckpointInfo, 'base_model' | 'lora'> & { readonly ttlSeconds: number | null },
    files: Readonly<Record<string, Uint8Array | string>>,
  ) => TE.TaskEither<Failure, void>
  /** Errors: `Left` if there is no such checkpoint, or if it has expired. */
  readonly info: (path: CheckpointPath) => TE.TaskEither<Failure, CheckpointInfo>
  readonly publish: (path: CheckpointPath, visibility: 'public' | 'private') => TE.TaskEither<Failure, void>
  readonly remove: (path: CheckpointPath) => TE.TaskEither<Failure, void>
  readonly models: () => TE.TaskEither<Failure, readonly string[]>
  readonly list: (modelId: string) => TE.TaskEither<Failure, readonly ListedCheckpoint[]>
  /** The files of a checkpoint, without what is stored about it. */
  readonly files: (path: CheckpointPath) => TE.TaskEither<Failure, Readonly<Record<string, Uint8Array>>>
}

/** The number of bytes of files. */
const sizeOf = (files: Readonly<Record<string, Uint8Array | string>>): number =>
  Object.values(files).reduce(
    (sum, each) => sum + (typeof each === 'string' ? new TextEncoder().encode(each) : each).length,
    0,
  )

const missing = (path: CheckpointPath): Failure => ({
  _tag: 'MissingCheckpoint',
  reason: `there is no checkpoint ${formatTinkerPath(path)}`,
})

const KINDS = ['weights', 'sampler_weights'] as const

/** The capabilities of a folder of checkpoints, and the client that it is seen by. */
interface CheckpointWorld {
  readonly files: Files
  readonly calendar: Calendar
  /** Sees its own checkpoints, those without an owner, and can read public ones. Null: sees all. */
  readonly owner: string | null
}

/**
 * Returns the stored record with the parts that its adapter has: earlier servers recorded
 * `train_unembed` without training it.
 */
const trained =
  (files: Files, folder: string) =>
  (found: CheckpointInfo): TE.TaskEither<Failure, CheckpointInfo> =>
    found.lora?.train_unembed !== true
      ? TE.right(found)
      : pipe(
          files.readText(`${folder}/${ADAPTER_CONFIG}`),
          TE.map((text) => {
            const settings = parseJsonAs(targetsSchema, text)
            const hasHead = E.isLeft(settings) || settings.right.target_modules.includes(OUTPUT_LAYER)
            return hasHead ? found : { ...found, lora: { ...found.lora!, train_unembed: false } }
          }),
          TE.orElse(() => TE.right(found)), // without the file, loading refuses the checkpoint
        )

/** Checkpoints under a folder, which is made when the first one is saved. */
export const makeCheckpoints = (root: string, { files, calendar, owner }: CheckpointWorld): Checkpoints => {
  const isOwn = (found: CheckpointInfo): boolean => owner === null || found.owner === undefined || found.owner === owner
  const modelFolder = (modelId: string): string => `${root}/${modelId.replaceAll(':', '+')}` // not every system has colons
  const folderOf = ({ modelId, kind, name }: CheckpointPath): string => `${modelFolder(modelId)}/${kind}/${name}`
  const infoText = (info: CheckpointInfo): string => `${JSON.stringify(info, undefined, 2)}\n`
  const isOver = ({ expires_at: end }: CheckpointInfo): boolean =>
    end !== undefined && calendar.today() >= new Date(end)
  const stored = (path: CheckpointPath): TE.TaskEither<Failure, CheckpointInfo> =>
    pipe(
      files.readText(`${folderOf(path)}/${INFO_FILE}`),
      TE.mapLeft((): Failure => missing(path)),
      TE.chainEitherK((text) =>
        pipe(
          parseJsonAs(infoSchema, text),
          E.mapLeft(
            (reason): Failure => ({ _tag: 'MissingCheckpoint', reason: `${formatTinkerPath(path)}: ${reason}` }),
          ),
        ),
      ),
      TE.chain(trained(files, folderOf(path))),
    )
  const info = (path: CheckpointPath): TE.TaskEither<Failure, CheckpointInfo> =>
    pipe(
      stored(path),
      TE.filterOrElseW(
        (found) => !isOver(found) && (isOwn(found) || found.public),
        () => missing(path),
      ),
    )
  const ownInfo = (path: CheckpointPath): TE.TaskEither<Failure, CheckpointInfo> =>
    pipe(
      info(path),
      TE.filterOrElseW(isOwn, () => missing(path)),
    )
  /** The checkpoint, or nothing if it has expired. It is deleted then. */
  const unexpired = (path: CheckpointPath): TE.TaskEither<Failure, readonly ListedCheckpoint[]> =>
    pipe(
      stored(path),
      TE.chain(
        (found): TE.TaskEither<Failure, readonly ListedCheckpoint[]> =>
          isOver(found)
            ? pipe(
                files.remove(folderOf(path)),
                TE.map(() => []),
              )
            : TE.right(isOwn(found) ? [{ path, info: found }] : []),
      ),
    )
  return {
    folderOf,
    info,
    save: (path, { ttlSeconds, ...about }, contents) => {
      const now = calendar.today()
      const record = {
        ...about,
        time: now.toISOString(),
        size_bytes: sizeOf(contents),
        public: false,
        ...(owner !== null && { owner }),
        ...(ttlSeconds !== null && { expires_at: new Date(now.getTime() + 1000 * ttlSeconds).toISOString() }),
      }
      return files.writeFolder(folderOf(path), { ...contents, [INFO_FILE]: infoText(record) })
    },
    publish: (path, visibility) =>
      pipe(
        ownInfo(path),
        TE.chainW(
          (found): TE.TaskEither<Failure, void> =>
            files.write(`${folderOf(path)}/${INFO_FILE}`, infoText({ ...found, public: visibility === 'public' })),
        ),
      ),
    remove: (path) =>
      pipe(
        ownInfo(path),
        TE.chain((): TE.TaskEither<Failure, void> => files.remove(folderOf(path))),
      ),
    models: () =>
      pipe(
        files.list(root),
        TE.map((names) => names.map((name) => name.replaceAll('+', ':'))),
      ),
    list: (modelId) =>
      pipe(
        KINDS,
        TE.traverseSeqArray((kind) =>
          pipe(
            files.list(`${modelFolder(modelId)}/${kind}`),
            TE.chainW(TE.traverseSeqArray((name) => unexpired({ modelId, kind, name }))),
          ),
        ),
        TE.map((lists) => lists.flat(2)),
      ),
    files: (path) =>
      pipe(
        info(path),
        TE.chainW(() => files.list(folderOf(path))),
        TE.map((names) => names.filter((name) => name !== INFO_FILE)),
        TE.filterOrElseW(
          (names) => names.length > 0,
          (): Failure => missing(path),
        ),
        TE.chainW(
          TE.traverseSeqArray((name) =>
            pipe(
              files.readBytes(`${folderOf(path)}/${name}`),
              TE.map((bytes) => [name, bytes] as const),
            ),
          ),
        ),
        TE.map((entries) => Object.fromEntries(entries)),
      ),
  }
}
