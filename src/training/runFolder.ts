/** The folder of a run: what is in it, how it is made, found again and written to. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Files } from '../core/capabilities.js'
import type { FileFailure } from '../core/failure.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { SettingsFailure } from './recipe.js'
import type { EvaluationRecord, StepRecord, TrajectoryRecord } from './records.js'

/** Paths inside a run folder. */
export interface RunPaths {
  readonly folder: string
  readonly config: string
  /** Processor, engine and threads of the last session. */
  readonly machine: string
  readonly metrics: string
  readonly trajectories: string
  readonly checkpoints: string
  /** Batches of steps that raised alarms. */
  readonly alarms: string
  /** Batches that are kept to be replayed. */
  readonly batches: string
  readonly summary: string
  readonly report: string
  /** What was best, in the forms that the run exports. */
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

/** The folder cannot be used for what is asked. */
interface RunFolderFailure {
  readonly _tag: 'RunFolderFailure'
  readonly folder: string
  readonly reason: string
}

export type RunFailure = RunFolderFailure | FileFailure | SettingsFailure

const refuse = (folder: string, reason: string): RunFolderFailure => ({ _tag: 'RunFolderFailure', folder, reason })

/** How `Files` names what it has not written to its end. */
const UNFINISHED = /\.tmp-\d+-\d+$/

const json: z.ZodType<Json> = z.json()

const configSchema = z.strictObject({
  format: z.literal(2),
  /** The recipe that made the run; null for runs of a program. */
  recipe: z.strictObject({ name: z.string(), file: z.string().nullable() }).nullable(),
  /** Of the recipe. */
  settings: z.record(z.string(), json),
  /** The parts of the run, as they describe themselves. */
  run: z.record(z.string(), json),
})

/** config.json: what a run is, so that nothing else goes on with its folder. */
export type RunConfig = Readonly<z.infer<typeof configSchema>>

/** Writes config.json. */
export const writeConfig = (files: Files, paths: RunPaths, config: RunConfig): TE.TaskEither<FileFailure, void> =>
  files.write(paths.config, `${JSON.stringify(config, undefined, 2)}\n`)

/** Removes what a process that was killed had begun to write in a run folder: files and folders have other names until they are whole. */
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
 * Makes the folder of a new run.
 *
 * Errors   `Left(RunFolderFailure)` if the folder holds a run already: nothing is overwritten.
 */
export const createRun = (files: Files, folder: string, config: RunConfig): TE.TaskEither<RunFailure, RunPaths> => {
  const paths = runPaths(folder)
  return pipe(
    Object.values(runPaths(folder)).filter((path) => path !== folder),
    TE.traverseSeqArray(files.exists),
    TE.filterOrElseW(
      (exist) => !exist.includes(true),
      () => refuse(folder, 'there is a run already: go on with it by --resume, or choose another folder with --out'),
    ),
    TE.chainW(() => files.makeFolder(folder)),
    TE.chainW(() => clearUnfinished(files, paths)),
    TE.chainW(() => writeConfig(files, paths, config)),
    TE.map(() => paths),
  )
}

/** Reads what a run is. Errors: `Left` if there is no run in the folder, or if its config is not readable. */
export const openRun = (
  files: Files,
  folder: string,
): TE.TaskEither<RunFailure, { readonly paths: RunPaths; readonly config: RunConfig }> => {
  const paths = runPaths(folder)
  return pipe(
    files.readText(paths.config),
    TE.mapLeft(
      (failure): RunFailure =>
        failure.code === 'ENOENT' ? refuse(folder, 'there is no run in this folder (no config.json)') : failure,
    ),
    TE.chainEitherKW((text) =>
      pipe(
        E.tryCatch(
          () => JSON.parse(text) as unknown,
          (error): RunFailure => refuse(folder, `config.json is not JSON: ${String(error)}`),
        ),
        E.chainW((value) => {
          const parsed = configSchema.safeParse(value)
          return parsed.success
            ? E.right(parsed.data)
            : E.left(refuse(folder, `config.json: ${z.prettifyError(parsed.error)}`))
        }),
      ),
    ),
    TE.map((config) => ({ paths, config })),
  )
}

/** A text file that grows line by line, and how long it is. */
export interface LineLog {
  readonly bytes: () => number
  readonly append: (records: readonly object[]) => TE.TaskEither<FileFailure, void>
}

/** Continues a file of JSON lines at `bytes`: whatever is behind that is cut off. The file is made if there is none. */
export const openLog = (files: Files, path: string, bytes: number): TE.TaskEither<FileFailure, LineLog> => {
  let length = bytes
  return pipe(
    files.append(path, ''),
    TE.chain(() => files.truncate(path, bytes)),
    TE.map(() => ({
      bytes: () => length,
      append: (records) => {
        const text = records.map((record) => `${JSON.stringify(record)}\n`).join('')
        return pipe(
          files.append(path, text),
          TE.map(() => {
            length += new TextEncoder().encode(text).length
          }),
        )
      },
    })),
  )
}

const parseLines = <T>(path: string, text: string): E.Either<RunFolderFailure, readonly T[]> => {
  const records: T[] = []
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue
    try {
      records.push(JSON.parse(line) as T) // written by this module
    } catch {
      return E.left(refuse(path, `line ${i + 1} is not JSON: the file was changed or cut off`))
    }
  }
  return E.right(records)
}

/** The records of a file of JSON lines, none if there is no file. */
const readLines = <T>(files: Files, path: string): TE.TaskEither<RunFailure, readonly T[]> =>
  pipe(
    files.exists(path),
    TE.chainW((exists) => (exists ? files.readText(path) : TE.right(''))),
    TE.chainEitherKW((text) => parseLines<T>(path, text)),
  )

/** The records of metrics.jsonl. */
export const readMetrics = (
  files: Files,
  paths: RunPaths,
): TE.TaskEither<RunFailure, readonly (StepRecord | EvaluationRecord)[]> => readLines(files, paths.metrics)

/** The steps of metrics.jsonl, without a line that is not written to its end: the run may be going on. */
export const readSteps = (files: Files, paths: RunPaths): TE.TaskEither<RunFailure, readonly StepRecord[]> =>
  pipe(
    files.readText(paths.metrics),
    TE.chainEitherKW((text) =>
      parseLines<StepRecord | EvaluationRecord>(paths.metrics, text.slice(0, text.lastIndexOf('\n') + 1)),
    ),
    TE.map((records) => records.filter((record) => record.type === 'step')),
  )

/** The records of trajectories.jsonl. */
export const readTrajectories = (
  files: Files,
  paths: RunPaths,
): TE.TaskEither<RunFailure, readonly TrajectoryRecord[]> => readLines(files, paths.trajectories)
