/** The folder that a run is kept in: opened for a new run or an old one. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files, Locks } from '../core/capabilities.js'
import type { Digest } from '../core/digest.js'
import type { LockFailure } from '../core/failure.js'
import { liveDigest } from '../live/digest.js'
import { liveFiles } from '../live/files.js'
import { liveLocks } from '../live/lock.js'
import { type CheckpointFailure, type CheckpointState, checkpointsIn, readCheckpoint } from './checkpoint.js'
import { differingSettings } from './recipe.js'
import type { EvaluationRecord, StepRecord } from './records.js'
import {
  clearUnfinished,
  createRun,
  openLog,
  openRun,
  type RunConfig,
  type RunFailure,
  type RunPaths,
  readMetrics,
  runPaths,
  writeConfig,
} from './runFolder.js'

/** A place for a run: nothing is read or written before `train` opens it. */
export interface RunStore {
  readonly folder: string
  /** A folder with a run: go on with it, or refuse. Default `resume`. */
  readonly existing: 'resume' | 'refuse'
  /** A folder without a run: make it, or refuse. Default `create`. */
  readonly missing: 'create' | 'refuse'
  readonly files: Files
  readonly digest: Digest
  readonly locks: Locks
}

/**
 * A folder for a run: made if it is not there, gone on with if it is.
 *
 * @example
 * runFolder('runs/first').folder // 'runs/first'
 */
export const runFolder = (folder: string, options: Partial<Omit<RunStore, 'folder'>> = {}): RunStore => ({
  folder,
  existing: 'resume',
  missing: 'create',
  files: liveFiles,
  digest: liveDigest,
  locks: liveLocks,
  ...options,
})

/** Where an old run goes on. */
interface ResumePoint {
  readonly folder: string
  readonly state: CheckpointState
}

/** A store that is open. */
export interface OpenStore extends RunStore {
  readonly paths: RunPaths
  /** Null at the beginning of a run. */
  readonly resume: ResumePoint | null
  readonly records: readonly (StepRecord | EvaluationRecord)[]
  /** Lets other processes open the folder. */
  readonly release: () => Promise<void>
}

/** A store that is open, before its lock is added. */
type Contents = Omit<OpenStore, 'release'>

export type StoreFailure = RunFailure | CheckpointFailure | LockFailure

const shown = (value: unknown): string => JSON.stringify(value) ?? 'nothing'

/** What differs between the run of a folder and the one that is to go on with it. */
const disagreement = (folder: string, was: RunConfig, is: RunConfig): E.Either<RunFailure, void> => {
  const different = differingSettings(was.run, is.run)
  if (different.length === 0) return E.right(undefined)
  const list = different.map(({ path, was: before, is: now }) => `${path} was ${shown(before)} and is ${shown(now)}`)
  return E.left({
    _tag: 'RunFolderFailure',
    folder,
    reason: `the folder holds a run of other parts: ${list.join('; ')}. Go on with the parts that it began with, or choose another folder`,
  })
}

/** The newest checkpoint with the records up to it; null if the run had not saved any. */
const resumePoint = (store: RunStore, paths: RunPaths): TE.TaskEither<StoreFailure, ResumePoint | null> =>
  pipe(
    checkpointsIn(store.files, paths.checkpoints),
    TE.chainW((found): TE.TaskEither<StoreFailure, ResumePoint | null> => {
      const [newest, ...older] = found
      if (newest === undefined) return TE.right(null)
      return pipe(
        readCheckpoint(store.files, newest, store.digest),
        TE.bimap(
          (failure) =>
            failure._tag === 'ModelFailure' && older[0] !== undefined
              ? { ...failure, reason: `${failure.reason}. Remove this checkpoint to go on from ${older[0]}` }
              : failure,
          (state) => ({ folder: newest, state }),
        ),
      )
    }),
  )

const oldRun = (store: RunStore, paths: RunPaths, config: RunConfig): TE.TaskEither<StoreFailure, Contents> => {
  const { files, folder } = store
  return pipe(
    openRun(files, folder),
    TE.chainFirstEitherKW((stored) => disagreement(folder, stored.config, config)),
    TE.chainW(() => resumePoint(store, paths)),
    TE.bindTo('resume'),
    // What was written after the checkpoint belongs to steps that are done again: it is cut off before the records are read.
    TE.chainFirstW(({ resume }) =>
      resume === null ? TE.right(undefined) : openLog(files, paths.metrics, resume.state.metricsBytes),
    ),
    TE.bindW('records', ({ resume }) => (resume === null ? TE.right([]) : readMetrics(files, paths))),
    TE.chainFirstW(() => clearUnfinished(files, paths)),
    TE.chainFirstW(() => writeConfig(files, paths, config)),
    TE.map((found) => ({ ...store, paths, ...found })),
  )
}

const newRun = (store: RunStore, config: RunConfig): TE.TaskEither<StoreFailure, Contents> =>
  pipe(
    createRun(store.files, store.folder, config),
    TE.map((paths) => ({ ...store, paths, resume: null, records: [] })),
  )

/**
 * Opens a store for a run.
 *
 * Errors   `Left` for a folder that holds a run of other parts (naming them), for one that holds a run or none where that is refused, and
 *          for a checkpoint that is not as it was written (naming the one before it). `Left(LockFailure)`, with nothing changed, while another
 *          process has the folder open.
 * Effects  holds the lock of the folder until `release`.
 */
export const openStore = (store: RunStore, config: RunConfig): TE.TaskEither<StoreFailure, OpenStore> => {
  const paths = runPaths(store.folder)
  const missing: RunFailure = {
    _tag: 'RunFolderFailure',
    folder: store.folder,
    reason: 'there is no run in this folder (no config.json)',
  }
  const opened = (exists: boolean): TE.TaskEither<StoreFailure, Contents> =>
    exists && store.existing === 'resume' ? oldRun(store, paths, config) : newRun(store, config)
  return pipe(
    store.files.exists(paths.config),
    TE.filterOrElseW(
      (exists) => exists || store.missing === 'create',
      () => missing,
    ),
    TE.chainFirstW(() => store.files.makeFolder(store.folder)),
    TE.chainW(() => store.locks.take(`${store.folder}/run.lock`)),
    // Looked at again: another process may have made a run before it let go of the lock.
    TE.chainW(({ release }) =>
      pipe(
        store.files.exists(paths.config),
        TE.chainW(opened),
        TE.map((found): OpenStore => ({ ...found, release })),
        TE.orElseFirstTaskK(() => release),
      ),
    ),
  )
}
