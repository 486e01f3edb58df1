/**
 * Checkpoints of a custom training loop: model, optimizer and step in one folder, in the format of
 * run checkpoints.
 */
import { checkOptions, type FileFailure, type Files, type Json, refuse } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Learner, LearnerFailure } from '../../learners/learner.js'
import { LOAD_CHECKPOINT_OPTIONS, SAVE_CHECKPOINT_OPTIONS } from '../optionKinds.js'
import {
  type CheckpointFailure,
  checkpointFiles,
  checkpointsIn,
  readCheckpoint,
  writeCheckpoint,
} from './checkpoint.js'

/** The state of a loop between two steps. */
export interface LoopState<P> {
  /** Number of steps done. */
  readonly step: number
  /** The position of the next step as JSON data, such as the position of a collector. */
  readonly position: P
}

export interface SaveCheckpointOptions<P> extends LoopState<P> {
  readonly learner: Pick<Learner<never, unknown>, 'files'>
  /** Number of newest checkpoints to retain in the folder. Default 2. */
  readonly keep?: number
  /** Default: the file system. */
  readonly files?: Files
}

export interface LoadCheckpointOptions<P> {
  /** The learner to restore. Unchanged without a checkpoint. */
  readonly learner: Pick<Learner<never, unknown>, 'restore'>
  /** The initial position, for a loop without a checkpoint. */
  readonly position: P
  /** Default: the file system. */
  readonly files?: Files
}

const positionSchema: z.ZodType<Json> = z.json()

/**
 * Saves a checkpoint of a training loop as `folder/step-000010`: the model or adapter, the
 * optimizer's state, the step and a position, with a digest of each file. `loadPretrained` reads
 * the folder of a model.
 *
 * The checkpoint is written atomically. It has the format of a run's checkpoints. Page 2 of the
 * guide shows a loop that uses both functions.
 *
 * Returns  the path of the checkpoint.
 * Errors   `Left(FileFailure)` if it cannot be written; throws RangeError for unknown options, a
 *          step that is not a count, a position that is not JSON data, and fewer than one
 *          checkpoint to keep.
 * Effects  writes the folder, and removes checkpoints that are older than the newest `keep`.
 */
export const saveCheckpoint = <P>(
  folder: string,
  options: SaveCheckpointOptions<P>,
): TE.TaskEither<FileFailure, string> => {
  checkOptions('saveCheckpoint', options, SAVE_CHECKPOINT_OPTIONS)
  const { learner, step, keep = 2, files = liveFiles } = options
  const position = positionSchema.safeParse(options.position)
  refuse('saveCheckpoint', [
    !(Number.isSafeInteger(step) && step >= 0) && `step must be a count of steps, got ${step}`,
    !(Number.isSafeInteger(keep) && keep >= 1) && `keep must be a positive integer, got ${keep}`,
    !position.success && `position must be JSON data: ${position.error && z.prettifyError(position.error)}`,
  ])
  // Fields of runs that a loop does not have: KL coefficient, times, and logs.
  const noLog = { bytes: 0, digest: liveDigest('') }
  const ofRuns = { klCoefficient: 0, secondsTotal: 0, checkpointSeconds: 0, metrics: noLog, trajectories: noLog }
  return pipe(
    TE.fromIO(() => checkpointFiles(learner, { step, position: position.data!, ...ofRuns }, liveDigest)), // it is JSON, as was just checked
    TE.chain((contents) => writeCheckpoint(files, contents, { folder, step, keep })),
  )
}

/** Returns the folder if it is a checkpoint, else its newest checkpoint, or `undefined`. */
const checkpointAt = (folder: string, files: Files): TE.TaskEither<FileFailure, string | undefined> =>
  pipe(
    files.exists(`${folder}/state.json`),
    TE.chain((isOne) =>
      isOne
        ? TE.right(folder)
        : pipe(
            checkpointsIn(files, folder),
            TE.map(([newest]) => newest),
          ),
    ),
  )

/**
 * Continues a training loop from the newest checkpoint of a folder, or from one checkpoint by its
 * own path. The learner restores weights, optimizer state and version. The loop continues with the
 * saved step and position, bit-identical to an uninterrupted loop.
 *
 * Returns  the step and position of the checkpoint; step 0 and the given position if the folder has
 *          no checkpoint.
 * Errors   `Left` naming the file that is missing, malformed, changed since it was saved, or of
 *          another model or optimizer. The learner is unchanged then. Throws RangeError for unknown
 *          options.
 * Effects  reads the folder. The position is not checked: it must have been saved by this loop.
 */
export const loadCheckpoint = <P>(
  folder: string,
  options: LoadCheckpointOptions<P>,
): TE.TaskEither<CheckpointFailure | LearnerFailure, LoopState<P>> => {
  checkOptions('loadCheckpoint', options, LOAD_CHECKPOINT_OPTIONS)
  const { learner, position: start, files = liveFiles } = options
  return pipe(
    checkpointAt(folder, files),
    TE.chainW((path): TE.TaskEither<CheckpointFailure | LearnerFailure, LoopState<P>> => {
      if (path === undefined) return TE.right({ step: 0, position: start })
      return pipe(
        readCheckpoint(files, path, liveDigest),
        TE.chainFirstW(() => learner.restore(path, files)),
        TE.map(({ step, position }) => ({ step, position: position as P })), // saved by the same loop
      )
    }),
  )
}
