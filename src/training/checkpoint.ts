/** Everything that a run needs to go on exactly where it was, in one folder that is there completely or not at all. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Learner } from '../collectors/learners/learner.js'
import type { Files } from '../core/capabilities.js'
import type { Digest } from '../core/digest.js'
import type { FileFailure, ModelFailure } from '../core/failure.js'
import type { Json } from '../data/codecs/plainValues.js'
import { inOrder, stepName, stepOf } from '../data/runLayout.js'

const stateSchema = z.strictObject({
  format: z.literal(2),
  /** Steps done. */
  step: z.number().int().nonnegative(),
  /** Where the source of batches stands. */
  position: z.json(),
  /** Weight of the divergence in the next step. */
  klCoefficient: z.number().nonnegative(),
  /** Of the run so far. */
  secondsTotal: z.number(),
  checkpointSeconds: z.number(),
  /** Lengths of the run's logs at this point: what comes after was written by steps that are done again. */
  metricsBytes: z.number().int().nonnegative(),
  trajectoriesBytes: z.number().int().nonnegative(),
  /** SHA-256 of every other file of the checkpoint. */
  digests: z.record(z.string(), z.string()),
})

/** state.json */
export type CheckpointState = Omit<Readonly<z.infer<typeof stateSchema>>, 'position' | 'digests' | 'format'> & {
  readonly position: Json
}

export type CheckpointFailure = FileFailure | ModelFailure

const STATE_FILE = 'state.json'

/** The files of a checkpoint: those of the learner, and where the run stood. */
export const checkpointFiles = (
  learner: Pick<Learner<never, unknown>, 'files'>,
  state: CheckpointState,
  digest: Digest,
): Readonly<Record<string, Uint8Array | string>> => {
  const files = learner.files()
  const digests = Object.fromEntries(Object.entries(files).map(([name, contents]) => [name, digest(contents)]))
  return { ...files, [STATE_FILE]: `${JSON.stringify({ format: 2, ...state, digests }, undefined, 2)}\n` }
}

/** Which checkpoints stay. */
interface Kept {
  /** The newest so many. */
  readonly keep: number
  /** Those after these steps. Default: none. */
  readonly also?: readonly number[]
}

/** Writes a checkpoint and removes those that need not stay. */
export const writeCheckpoint = (
  files: Files,
  contents: Readonly<Record<string, Uint8Array | string>>,
  { folder, step, keep, also = [] }: Kept & { readonly folder: string; readonly step: number },
): TE.TaskEither<FileFailure, string> => {
  const path = `${folder}/${stepName(step)}`
  return pipe(
    files.makeFolder(folder),
    TE.chain(() => files.writeFolder(path, contents)),
    TE.chain(() => files.list(folder)),
    TE.chain((names) => {
      const old = inOrder(names)
        .slice(0, -keep)
        .filter((name) => !also.includes(stepOf(name)))
      const unfinished = names.filter((name) => name.includes('.tmp-'))
      return TE.traverseSeqArray((name: string) => files.remove(`${folder}/${name}`))([...old, ...unfinished])
    }),
    TE.map(() => path),
  )
}

/** The complete checkpoints of a folder after at most so many steps, the newest first. */
export const checkpointsIn = (
  files: Files,
  folder: string,
  steps = Number.POSITIVE_INFINITY,
): TE.TaskEither<FileFailure, readonly string[]> =>
  pipe(
    files.list(folder),
    TE.map((names) =>
      inOrder(names)
        .filter((each) => stepOf(each) <= steps)
        .map((name) => `${folder}/${name}`)
        .reverse(),
    ),
  )

const failure = (folder: string, file: string, reason: string): ModelFailure => ({
  _tag: 'ModelFailure',
  folder,
  file,
  reason,
})

const parsedState = (folder: string, text: string): E.Either<ModelFailure, z.infer<typeof stateSchema>> =>
  pipe(
    E.tryCatch(
      () => stateSchema.safeParse(JSON.parse(text)),
      (error) => failure(folder, STATE_FILE, `not JSON: ${String(error)}`),
    ),
    E.chain((result) =>
      result.success ? E.right(result.data) : E.left(failure(folder, STATE_FILE, z.prettifyError(result.error))),
    ),
  )

/** The files of a checkpoint whose bytes are not those that were written. */
const verified = (
  files: Files,
  folder: string,
  { digests, digest }: { readonly digests: Readonly<Record<string, string>>; readonly digest: Digest },
): TE.TaskEither<CheckpointFailure, void> =>
  pipe(
    Object.entries(digests),
    TE.traverseSeqArray(([name, expected]) =>
      pipe(
        files.readBytes(`${folder}/${name}`),
        TE.chainW(
          (bytes): TE.TaskEither<CheckpointFailure, void> =>
            digest(bytes) === expected
              ? TE.right(undefined)
              : TE.left(
                  failure(folder, name, 'its bytes are not those that were saved: the file was changed or damaged'),
                ),
        ),
      ),
    ),
    TE.map(() => undefined),
  )

/**
 * Reads where a run stood at a checkpoint, and checks all of its files.
 *
 * Errors   `Left` naming the file that is missing, malformed, or not as it was written.
 */
export const readCheckpoint = (
  files: Files,
  folder: string,
  digest: Digest,
): TE.TaskEither<CheckpointFailure, CheckpointState> =>
  pipe(
    files.readText(`${folder}/${STATE_FILE}`),
    TE.chainEitherKW((text) => parsedState(folder, text)),
    TE.chainFirstW(({ digests }) => verified(files, folder, { digests, digest })),
    TE.map(({ digests, format, ...state }) => state as CheckpointState), // JSON by the schema
  )

/** The digests of the files of a checkpoint, as they were written. */
export const checkpointDigests = (
  files: Files,
  folder: string,
): TE.TaskEither<CheckpointFailure, Readonly<Record<string, string>>> =>
  pipe(
    files.readText(`${folder}/${STATE_FILE}`),
    TE.chainEitherKW((text) => parsedState(folder, text)),
    TE.map(({ digests }) => digests),
  )
