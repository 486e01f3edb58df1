/**
 * Checkpoints: everything a run needs to resume exactly, in one folder that is written atomically.
 */
import {
  type Digest,
  type FileFailure,
  type Files,
  fitSchema,
  type Json,
  type ModelFailure,
  parseJson,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { fileProblem } from '../../data/folderFiles.js'
import { inOrder, stepName, stepOf } from '../../data/runLayout.js'
import type { Learner } from '../../learners/learner.js'
import { digestFile } from './fileDigest.js'
import type { LogMark } from './runFolder.js'

const markSchema: z.ZodType<LogMark> = z.strictObject({ bytes: z.number().int().nonnegative(), digest: z.string() })

const stateSchema = z.strictObject({
  format: z.literal(3),
  /** Steps done. */
  step: z.number().int().nonnegative(),
  /** The position of the batch source. */
  position: z.json(),
  /** KL coefficient of the next step. */
  klCoefficient: z.number().nonnegative(),
  /** Wall-clock seconds of the run so far. */
  secondsTotal: z.number(),
  checkpointSeconds: z.number(),
  /** The logs at this point. Resume truncates them here, because later steps run again. */
  metrics: markSchema,
  trajectories: markSchema,
  /** SHA-256 of every other file of the checkpoint. */
  digests: z.record(z.string(), z.string()),
  /** SHA-256 of this file without this field. */
  digest: z.string(),
})

/** The contents of state.json. */
export type CheckpointState = Omit<
  Readonly<z.infer<typeof stateSchema>>,
  'position' | 'digests' | 'digest' | 'format'
> & {
  readonly position: Json
}

export type CheckpointFailure = FileFailure | ModelFailure

const STATE_FILE = 'state.json'

const written = (state: object): string => `${JSON.stringify(state, undefined, 2)}\n`

/** Returns the files of a checkpoint: the learner's files, and state.json. */
export const checkpointFiles = (
  learner: Pick<Learner<never, unknown>, 'files'>,
  state: CheckpointState,
  digest: Digest,
): Readonly<Record<string, Uint8Array | string>> => {
  const files = learner.files()
  const digests = Object.fromEntries(Object.entries(files).map(([name, contents]) => [name, digest(contents)]))
  const whole = { format: 3, ...state, digests }
  return { ...files, [STATE_FILE]: written({ ...whole, digest: digest(written(whole)) }) }
}

/** The checkpoints to retain. */
interface Kept {
  /** Number of newest checkpoints to retain. */
  readonly keep: number
  /** Steps whose checkpoints are also retained. Default: none. */
  readonly also?: readonly number[]
}

/** Writes a checkpoint, then removes unfinished ones and those not to be retained. */
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

/** Lists the complete checkpoints of a folder up to step `steps`, newest first. */
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

const CHANGED = 'its bytes are not those that were saved: the file was changed or damaged'

const OLD = z.object({ format: z.literal(2) })

/** Parses state.json, and checks it against its digest. */
const parsedState = (
  folder: string,
  text: string,
  digest: Digest,
): E.Either<ModelFailure, z.infer<typeof stateSchema>> =>
  pipe(
    parseJson(text),
    E.filterOrElse(
      (json) => !OLD.safeParse(json).success,
      () => 'written by Tandem 0.1: finish the run with that version, or start a new run from this model',
    ),
    E.chain((json) =>
      pipe(
        fitSchema(stateSchema, json),
        E.filterOrElse(
          ({ digest: expected }) => {
            const { digest: _, ...fields } = json as { readonly digest: string } // by the schema, which may reorder fields
            return digest(written(fields)) === expected
          },
          () => CHANGED,
        ),
      ),
    ),
    E.mapLeft((reason) => fileProblem(folder, STATE_FILE, reason)),
  )

/** Checks every file of a checkpoint against its digest. */
const verified = (
  files: Files,
  folder: string,
  { digests, digest }: { readonly digests: Readonly<Record<string, string>>; readonly digest: Digest },
): TE.TaskEither<CheckpointFailure, void> =>
  pipe(
    Object.entries(digests),
    TE.traverseSeqArray(([name, expected]) =>
      pipe(
        digestFile(files, `${folder}/${name}`, { digest }),
        TE.filterOrElseW(
          (running) => running.value() === expected,
          (): CheckpointFailure => fileProblem(folder, name, CHANGED),
        ),
      ),
    ),
    TE.map(() => undefined),
  )

/**
 * Reads the state of a checkpoint and verifies all of its files.
 *
 * Errors   `Left` naming the file that is missing, malformed or changed since it was written.
 */
export const readCheckpoint = (
  files: Files,
  folder: string,
  digest: Digest,
): TE.TaskEither<CheckpointFailure, CheckpointState> =>
  pipe(
    files.readText(`${folder}/${STATE_FILE}`),
    TE.chainEitherKW((text) => parsedState(folder, text, digest)),
    TE.chainFirstW(({ digests }) => verified(files, folder, { digests, digest })),
    TE.map(({ digests, digest: _, format, ...state }) => state as CheckpointState), // JSON by the schema
  )

/** Reads the digests stored in a checkpoint. */
export const checkpointDigests = (
  files: Files,
  folder: string,
  digest: Digest,
): TE.TaskEither<CheckpointFailure, Readonly<Record<string, string>>> =>
  pipe(
    files.readText(`${folder}/${STATE_FILE}`),
    TE.chainEitherKW((text) => parsedState(folder, text, digest)),
    TE.map(({ digests }) => digests),
  )
