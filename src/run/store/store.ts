/** Run stores: folders that are opened for a new run or to resume one. */
import { type Digest, differingSettings, type Files, type LockFailure, type Locks } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { filesBelow, liveLocks } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { changedInputs, type Inputs } from '../../data/inputs.js'
import type { EvaluationRecord, StepRecord } from '../metrics/records.js'
import { type CheckpointFailure, type CheckpointState, checkpointsIn, readCheckpoint } from './checkpoint.js'
import {
  checkLog,
  clearUnfinished,
  createRun,
  type LineLog,
  openLog,
  openRun,
  type RunConfig,
  type RunFailure,
  type RunPaths,
  readMetrics,
  runFolderFailure,
  runLock,
  runPaths,
  writeConfig,
} from './runFolder.js'

/** A folder for a run. Nothing is read or written until `train` opens it. */
export interface RunStore {
  readonly folder: string
  /** The action if the folder holds a run. Default `resume`. */
  readonly existing: 'resume' | 'refuse'
  /** The action if the folder holds no run. Default `create`. */
  readonly missing: 'create' | 'refuse'
  /**
   * The action if inputs of the run (rows, tokenizer, chat template, recipe file) have changed.
   * `accept` resumes, and raises the alarm `changed-inputs`. Default `refuse`.
   */
  readonly changes: 'refuse' | 'accept'
  readonly files: Files
  readonly digest: Digest
  readonly locks: Locks
}

/**
 * Describes the folder of a run. By default it is created, or resumed if it holds a run.
 *
 * @example
 * runFolder('runs/first').folder // 'runs/first'
 */
export const runFolder = (folder: string, options: Partial<Omit<RunStore, 'folder'>> = {}): RunStore => ({
  folder,
  existing: 'resume',
  missing: 'create',
  changes: 'refuse',
  files: filesBelow(folder),
  digest: liveDigest,
  locks: liveLocks,
  ...options,
})

/** The checkpoint from which a run resumes. */
interface ResumePoint {
  readonly folder: string
  readonly state: CheckpointState
}

/** An open store. */
export interface OpenStore extends RunStore {
  readonly paths: RunPaths
  /** `null` for a new run. */
  readonly resume: ResumePoint | null
  readonly records: readonly (StepRecord | EvaluationRecord)[]
  /** The names of the inputs that have changed since the last session. */
  readonly changed: readonly string[]
  readonly metrics: LineLog
  readonly trajectories: LineLog
  /** Releases the folder's lock. */
  readonly release: () => Promise<void>
}

/** An open store without its lock. */
type Contents = Omit<OpenStore, 'release'>

export type StoreFailure = RunFailure | CheckpointFailure | LockFailure

const shown = (value: unknown): string => JSON.stringify(value) ?? 'nothing'

/** The fields of a description that depend on rows. */
const OF_ROWS: readonly string[] = ['data.rows', 'data.rowsDigest']

/** Fails if the parts of the stored run differ from those of the run that resumes it. */
const disagreement = ({ folder, changes }: RunStore, was: RunConfig, is: RunConfig): E.Either<RunFailure, void> => {
  const different = differingSettings(was.run, is.run).filter(
    ({ path }) => changes === 'refuse' || !OF_ROWS.includes(path),
  )
  if (different.length === 0) return E.right(undefined)
  const list = different.map(({ path, was: before, is: now }) =>
    path.endsWith('fingerprint')
      ? `${path}: the formula has changed, from ${shown(before)} to ${shown(now)}`
      : `${path} was ${shown(before)} and is ${shown(now)}`,
  )
  const wayOut = different.every(({ path }) => OF_ROWS.includes(path)) ? `, ${ACCEPT}` : ''
  const reason = `the folder holds a run with other parts: ${list.join('; ')}. Resume it with its original parts${wayOut}, or choose another folder`
  return E.left(runFolderFailure(folder, reason))
}

const ACCEPT = 'accept the change with --accept-changes (in a program: runFolder with changes: accept)'

/** Returns the names of the inputs that have changed. Fails unless changes are accepted. */
export const acceptedChanges = (
  { folder, changes }: Pick<RunStore, 'folder' | 'changes'>,
  was: RunConfig,
  is: Inputs,
): E.Either<RunFailure, readonly string[]> => {
  const names = was.inputs === undefined ? [] : changedInputs(was.inputs, is)
  return names.length === 0 || changes === 'accept'
    ? E.right(names)
    : E.left(
        runFolderFailure(
          folder,
          `inputs of the run have changed since its last session: ${names.join('; ')}. Restore them, ${ACCEPT}, or start a new run`,
        ),
      )
}

/** Reads the newest checkpoint. Returns `null` if the run has none. */
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
              ? { ...failure, reason: `${failure.reason}. Remove this checkpoint to resume from ${older[0]}` }
              : failure,
          (state) => ({ folder: newest, state }),
        ),
      )
    }),
  )

type Logs = Pick<OpenStore, 'metrics' | 'trajectories'>

/** Opens both logs at the checkpoint from which a run resumes, unchanged if one is damaged. */
const openLogs = (
  { files, digest }: RunStore,
  paths: RunPaths,
  resume: ResumePoint | null,
): TE.TaskEither<StoreFailure, Logs> => {
  const check = (name: keyof Logs) => checkLog(files, paths[name], { kept: resume?.state[name] ?? null, digest })
  return pipe(
    TE.Do,
    TE.bind('first', () => check('metrics')),
    TE.bind('second', () => check('trajectories')),
    TE.bindW('metrics', ({ first }) => openLog(files, paths.metrics, first)),
    TE.bindW('trajectories', ({ second }) => openLog(files, paths.trajectories, second)),
  )
}

/** The config of a resumed run: start and calibration are those of its first session, if known. */
const resumedConfig = (first: RunConfig, { start: _, calibration: __, ...config }: RunConfig): RunConfig => ({
  ...config,
  ...(first.start && { start: first.start }),
  ...(first.calibration && { calibration: first.calibration }),
})

const oldRun = (store: RunStore, paths: RunPaths, config: RunConfig): TE.TaskEither<StoreFailure, Contents> => {
  const { files, folder } = store
  return pipe(
    openRun(files, folder),
    TE.chainFirstEitherKW((stored) => disagreement(store, stored.config, config)),
    TE.bindTo('stored'),
    TE.bindW('changed', ({ stored }) => TE.fromEither(acceptedChanges(store, stored.config, config.inputs ?? {}))),
    TE.bindW('resume', () => resumePoint(store, paths)),
    // Records after the checkpoint belong to steps that will run again, so they are truncated
    // first.
    TE.bindW('logs', ({ resume }) => openLogs(store, paths, resume)),
    TE.bindW('records', ({ resume }) => (resume === null ? TE.right([]) : readMetrics(files, paths))),
    TE.chainFirstW(() => clearUnfinished(files, paths)),
    TE.chainFirstW(({ stored }) => writeConfig(files, paths, resumedConfig(stored.config, config))),
    TE.map(({ resume, records, changed, logs: { metrics, trajectories } }) => ({
      ...store,
      paths,
      resume,
      records,
      changed,
      metrics,
      trajectories,
    })),
  )
}

const newRun = (store: RunStore, config: RunConfig): TE.TaskEither<StoreFailure, Contents> =>
  pipe(
    createRun(store.files, store.folder, config),
    TE.bindTo('paths'),
    TE.bindW('logs', ({ paths }) => openLogs(store, paths, null)),
    TE.map(({ paths, logs: { metrics, trajectories } }) => ({
      ...store,
      paths,
      resume: null,
      records: [],
      changed: [],
      metrics,
      trajectories,
    })),
  )

/**
 * Opens a store for a run.
 *
 * Errors   `Left` if the folder holds a run with other parts (which are named), if the store
 *          refuses an existing or a missing run, or if the newest checkpoint is damaged (the one
 *          before it is named). `Left(LockFailure)`, with nothing changed, while another process
 *          has the folder open.
 * Effects  holds the lock of the folder until `release`.
 */
export const openStore = (store: RunStore, config: RunConfig): TE.TaskEither<StoreFailure, OpenStore> => {
  const paths = runPaths(store.folder)
  const missing = runFolderFailure(store.folder, 'there is no run in this folder (no config.json)')
  return pipe(
    store.files.exists(paths.config),
    TE.filterOrElseW(
      (exists) => exists || store.missing === 'create',
      () => missing,
    ),
    TE.chainFirstW(() => store.files.makeFolder(store.folder)),
    TE.chainW(() => store.locks.take(runLock(store.folder))),
    // Checked again: another process may have created a run before it released the lock.
    TE.chainW(({ release }) =>
      pipe(
        store.files.exists(paths.config),
        TE.chainW(
          (exists): TE.TaskEither<StoreFailure, Contents> =>
            exists && store.existing === 'resume' ? oldRun(store, paths, config) : newRun(store, config),
        ),
        TE.map((found): OpenStore => ({ ...found, release })),
        TE.orElseFirstTaskK(() => release),
      ),
    ),
  )
}
