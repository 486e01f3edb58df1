/** The folder of a run: its layout, and functions to create, open, read and append to it. */
import { type Digest, type FileFailure, type Files, type Json, parseJsonAs, type RunningDigest } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { calibrationSchema } from '../metrics/calibration.js'
import type { EvaluationRecord, StepRecord, TrajectoryRecord } from '../metrics/records.js'
import type { SettingsFailure } from '../parts/recipe.js'
import { digestFile } from './fileDigest.js'

/** Paths inside a run folder. */
export interface RunPaths {
  readonly folder: string
  readonly config: string
  /** The processor, engine and threads of the last session. */
  readonly machine: string
  readonly metrics: string
  readonly trajectories: string
  readonly checkpoints: string
  /** Saved batches of steps that raised alarms. */
  readonly alarms: string
  /** Batches saved for replay. */
  readonly batches: string
  readonly summary: string
  readonly report: string
  /** The exported best weights. */
  readonly best: string
}

export const runPaths = (folder: string): RunPaths => ({
  folder,
  config: `${folder}/config.json`,
  machine: `${folder}/machine.json`,
  metrics: `${folder}/metrics.jsonl`,
  trajectories: `${folder}/trajectories.jsonl`,
  checkpoints: `${folder}/checkpoints`,
  alarms: `${folder}/alarms`,
  batches: `${folder}/batches`,
  summary: `${folder}/summary.json`,
  report: `${folder}/report.html`,
  best: `${folder}/best`,
})

/** Returns the path of a run's lock, which `train` holds. */
export const runLock = (folder: string): string => `${folder}/run.lock`

/** The folder cannot be used for the requested operation. */
interface RunFolderFailure {
  readonly _tag: 'RunFolderFailure'
  /** The run folder. */
  readonly where: string
  readonly reason: string
}

export type RunFailure = RunFolderFailure | FileFailure | SettingsFailure

/** Makes the failure of a run folder. */
export const runFolderFailure = (folder: string, reason: string): RunFolderFailure => ({
  _tag: 'RunFolderFailure',
  where: folder,
  reason,
})

/** Suffix that `Files` gives to unfinished files and folders. */
const UNFINISHED = /\.tmp-\d+-\d+$/

const json: z.ZodType<Json> = z.json()

/** Schema of `RunStart`. */
const startSchema = z.strictObject({
  /** The time in ISO format. */
  at: z.string(),
  /** The version of Tandem. */
  version: z.string(),
  /** The program and its arguments. */
  command: z.string(),
  processor: z.string(),
  /** The version of Node. */
  node: z.string(),
})

/** The start of a run: its time, command line, machine and versions. */
export type RunStart = Readonly<z.infer<typeof startSchema>>

export const configSchema = z.strictObject({
  format: z.literal(2),
  /** The recipe that made the run, or `null` if a program made it. */
  recipe: z.strictObject({ name: z.string(), file: z.string().nullable() }).nullable(),
  /** The settings of the recipe. */
  settings: z.record(z.string(), json),
  /** The description of the run's parts. */
  run: z.record(z.string(), json),
  /** The digests of the run's inputs by name. Absent in older folders. */
  inputs: z.record(z.string(), z.string()).exactOptional(),
  /** The first session. Absent in older folders. */
  start: startSchema.exactOptional(),
  /** The measurements that chose threads, workers and micro-batch, with `--calibrate`. */
  calibration: calibrationSchema.exactOptional(),
})

/** The contents of config.json, which identify the run when it is resumed. */
export type RunConfig = Readonly<z.infer<typeof configSchema>>

/** Writes config.json. */
export const writeConfig = (files: Files, paths: RunPaths, config: RunConfig): TE.TaskEither<FileFailure, void> =>
  files.write(paths.config, `${JSON.stringify(config, undefined, 2)}\n`)

/** Removes unfinished files and folders that a killed process left in a run folder. */
export const clearUnfinished = (files: Files, paths: RunPaths): TE.TaskEither<FileFailure, void> =>
  pipe(
    [paths.folder, paths.checkpoints, paths.alarms, paths.batches],
    TE.traverseSeqArray((folder) =>
      pipe(
        files.list(folder),
        TE.map((names) => names.filter((name) => UNFINISHED.test(name)).map((name) => `${folder}/${name}`)),
      ),
    ),
    TE.chain((found) => TE.traverseSeqArray(files.remove)(found.flat())),
    TE.map(() => undefined),
  )

/**
 * Checks that a folder can hold a new run. Errors: `Left(RunFolderFailure)` if it already holds
 * one.
 */
export const checkFree = (files: Files, folder: string): TE.TaskEither<RunFailure, void> =>
  pipe(
    Object.values(runPaths(folder)).filter((path) => path !== folder),
    TE.traverseSeqArray(files.exists),
    TE.filterOrElseW(
      (exist) => !exist.includes(true),
      () =>
        runFolderFailure(
          folder,
          'the folder already holds a run: resume it with --resume, or choose another folder with --out',
        ),
    ),
    TE.map(() => undefined),
  )

/**
 * Creates the folder of a new run.
 *
 * Errors   `Left(RunFolderFailure)` if the folder already holds a run. Nothing is overwritten.
 */
export const createRun = (files: Files, folder: string, config: RunConfig): TE.TaskEither<RunFailure, RunPaths> => {
  const paths = runPaths(folder)
  return pipe(
    checkFree(files, folder),
    TE.chainW(() => files.makeFolder(folder)),
    TE.chainW(() => clearUnfinished(files, paths)),
    TE.chainW(() => writeConfig(files, paths, config)),
    TE.map(() => paths),
  )
}

/** Reads config.json. Errors: `Left` if the folder holds no run or the file is malformed. */
export const openRun = (
  files: Files,
  folder: string,
): TE.TaskEither<RunFailure, { readonly paths: RunPaths; readonly config: RunConfig }> => {
  const paths = runPaths(folder)
  return pipe(
    files.readText(paths.config),
    TE.mapLeft(
      (failure): RunFailure =>
        failure.code === 'ENOENT'
          ? runFolderFailure(folder, 'there is no run in this folder (no config.json)')
          : failure,
    ),
    TE.chainEitherKW((text) =>
      pipe(
        parseJsonAs(configSchema, text),
        E.mapLeft((reason): RunFailure => runFolderFailure(folder, `config.json: ${reason}`)),
      ),
    ),
    TE.map((config) => ({ paths, config })),
  )
}

/** The length of a log in bytes, and the digest of these bytes. */
export interface LogMark {
  readonly bytes: number
  readonly digest: string
}

/** An append-only file of JSON lines. */
export interface LineLog {
  readonly mark: () => LogMark
  readonly append: (records: readonly object[]) => TE.TaskEither<FileFailure, void>
}

/** The part of a log that is kept: its length, and its digest, which later records continue. */
export interface KeptLog {
  readonly bytes: number
  readonly running: RunningDigest
}

/**
 * Checks the part of a log that is kept; `null` keeps nothing. Changes nothing.
 *
 * Errors   `Left` if the log is shorter than that part, or the part was changed.
 */
export const checkLog = (
  files: Files,
  path: string,
  { kept, digest }: { readonly kept: LogMark | null; readonly digest: Digest },
): TE.TaskEither<RunFailure, KeptLog> => {
  if (kept === null) return TE.right({ bytes: 0, running: digest.start() })
  const { bytes } = kept
  const changed = `its first ${bytes} bytes are not those that were saved: the file was changed or damaged`
  return pipe(
    digestFile(files, path, { digest, bytes }),
    TE.filterOrElseW(
      (running) => running.value() === kept.digest,
      (): RunFailure => runFolderFailure(path, changed),
    ),
    TE.map((running) => ({ bytes, running })),
  )
}

/** Opens a file of JSON lines for appending, truncated to the part that is kept, or creates it. */
export const openLog = (
  files: Files,
  path: string,
  { bytes, running }: KeptLog,
): TE.TaskEither<FileFailure, LineLog> => {
  let length = bytes
  return pipe(
    files.append(path, ''),
    TE.chain(() => files.truncate(path, bytes)),
    TE.map(() => ({
      mark: () => ({ bytes: length, digest: running.value() }),
      append: (records) => {
        const added = new TextEncoder().encode(records.map((record) => `${JSON.stringify(record)}\n`).join(''))
        return pipe(
          files.append(path, added),
          TE.map(() => {
            length += added.length
            running.add(added)
          }),
        )
      },
    })),
  )
}

/** Parses JSON lines. */
export const parseLines = <T>(path: string, text: string): E.Either<RunFolderFailure, readonly T[]> => {
  const records: T[] = []
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue
    try {
      records.push(JSON.parse(line) as T) // written by this module
    } catch {
      return E.left(runFolderFailure(path, `line ${i + 1} is not JSON: the file was changed or cut off`))
    }
  }
  return E.right(records)
}

/** Reads a file of JSON lines. Returns an empty list if there is no file. */
const readLines = <T>(files: Files, path: string): TE.TaskEither<RunFailure, readonly T[]> =>
  pipe(
    files.exists(path),
    TE.chainW((exists) => (exists ? files.readText(path) : TE.right(''))),
    TE.chainEitherKW((text) => parseLines<T>(path, text)),
  )

/** Reads metrics.jsonl. */
export const readMetrics = (
  files: Files,
  paths: RunPaths,
): TE.TaskEither<RunFailure, readonly (StepRecord | EvaluationRecord)[]> => readLines(files, paths.metrics)

/**
 * Reads the steps of metrics.jsonl. Skips an incomplete last line, because the run may be active.
 */
export const readSteps = (files: Files, paths: RunPaths): TE.TaskEither<RunFailure, readonly StepRecord[]> =>
  pipe(
    files.readText(paths.metrics),
    TE.chainEitherKW((text) =>
      parseLines<StepRecord | EvaluationRecord>(paths.metrics, text.slice(0, text.lastIndexOf('\n') + 1)),
    ),
    TE.map((records) => records.filter((record) => record.type === 'step')),
  )

/** Reads trajectories.jsonl. */
export const readRunTrajectories = (
  files: Files,
  paths: RunPaths,
): TE.TaskEither<RunFailure, readonly TrajectoryRecord[]> => readLines(files, paths.trajectories)
