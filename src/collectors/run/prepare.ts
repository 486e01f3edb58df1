/** Opening a run, new or old, and closing it. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../../core/capabilities.js'
import type { ConfigFailure, FileFailure, ModelFailure } from '../../core/failure.js'
import { liveFiles } from '../../live/files.js'
import { type Adapter, initialLora } from '../../modules/lora/adapter.js'
import { loadPretrained, type Pretrained } from '../../modules/pretrained.js'
import { latestCheckpoint, loadAdapterCheckpoint, loadCheckpoint } from './checkpoint.js'
import { runKeys } from './pipeline.js'
import type { RunSummary } from './records.js'
import { renderReport } from './report.js'
import {
  createRun,
  openLog,
  openRun,
  type RunFailure,
  type RunPaths,
  readMetrics,
  readTrajectories,
  writeSettings,
} from './runFolder.js'
import { loraOf, parseSettings, type RunSettings, resumeSettings } from './settings.js'
import { openTasks, type TasksFailure } from './tasks.js'
import type { TrainOptions } from './train.js'

/** What to run: a new folder with settings, or an old one with the settings that somebody wants changed. */
export type RunRequest =
  | { readonly _tag: 'New'; readonly folder: string; readonly settings: RunSettings }
  | { readonly _tag: 'Resume'; readonly folder: string; readonly asked: Partial<RunSettings> }

export type PrepareFailure = RunFailure | TasksFailure | ModelFailure | ConfigFailure

/** All that `train` needs. */
export type PreparedRun = Omit<TrainOptions, 'signal'>

/** The adapter that a run begins with; null if it trains the model's own weights. */
const newAdapter = (settings: RunSettings, { config }: Pretrained): E.Either<ConfigFailure, Adapter | null> => {
  const lora = loraOf(settings)
  return lora === null ? E.right(null) : initialLora(config, lora, runKeys(settings.seed).adapter)
}

/** Model and tasks for settings. Everything is read before a folder is made, so that a mistake leaves nothing behind. */
const loadInputs = (
  settings: RunSettings,
  files: Files,
): TE.TaskEither<PrepareFailure, Pick<PreparedRun, 'settings' | 'model' | 'adapter' | 'tasks' | 'evalTasks'>> =>
  pipe(
    loadPretrained(settings.model, files),
    TE.bindTo('model'),
    TE.bindW('adapter', ({ model }) => TE.fromEither(newAdapter(settings, model))),
    TE.bindW('tasks', () => openTasks(settings)),
    TE.map(({ model, adapter, tasks }) => ({
      adapter,
      settings: { ...settings, evalProblems: tasks.evalProblems },
      model,
      tasks: tasks.train,
      evalTasks: tasks.evaluation,
    })),
  )

const newRun = (folder: string, settings: RunSettings, files: Files): TE.TaskEither<PrepareFailure, PreparedRun> =>
  pipe(
    TE.fromEither(parseSettings(settings)),
    TE.chainW((valid) => loadInputs(valid, files)),
    TE.chainW((inputs) =>
      pipe(
        createRun(files, folder, inputs.settings),
        TE.map((paths) => ({ ...inputs, paths, files })),
      ),
    ),
  )

/** The last checkpoint with the records up to it; undefined if the run had not saved any. */
const resumePoint = (
  paths: RunPaths,
  { settings, model }: Pick<PreparedRun, 'settings' | 'model'>,
  files: Files,
): TE.TaskEither<PrepareFailure, PreparedRun['resume']> =>
  pipe(
    latestCheckpoint(files, paths.checkpoints),
    TE.chainW((folder): TE.TaskEither<PrepareFailure, PreparedRun['resume']> => {
      if (folder === undefined) return TE.right(undefined)
      return pipe(
        loraOf(settings) === null ? loadCheckpoint(files, folder) : loadAdapterCheckpoint(files, folder, model.config),
        TE.bindTo('checkpoint'),
        // What was written after the checkpoint belongs to steps that are done again: it is cut off before the records are read.
        TE.chainFirstW(({ checkpoint }) => openLog(files, paths.metrics, checkpoint.state.metricsBytes)),
        TE.bindW('records', () => readMetrics(files, paths)),
      )
    }),
  )

const oldRun = (
  folder: string,
  asked: Partial<RunSettings>,
  files: Files,
): TE.TaskEither<PrepareFailure, PreparedRun> =>
  pipe(
    openRun(files, folder),
    TE.bindW('agreed', ({ settings }) => TE.fromEither(resumeSettings(settings, asked))),
    TE.bindW('inputs', ({ agreed }) => loadInputs(agreed, files)),
    TE.bindW('resume', ({ paths, inputs }) => resumePoint(paths, inputs, files)),
    TE.chainFirstW(({ paths, inputs }) => writeSettings(files, paths, inputs.settings)),
    TE.map(({ paths, inputs, resume }) => ({ ...inputs, paths, files, ...(resume && { resume }) })),
  )

/**
 * Opens a run.
 *
 * Errors   `Left` for a folder that holds a run already (new) or none (resume), for settings that differ from the stored ones, and for any
 *          model, dataset or checkpoint file that is missing or not usable. A new folder is made only when everything else was fine.
 */
export const prepareRun = (
  request: RunRequest,
  files: Files = liveFiles,
): TE.TaskEither<PrepareFailure, PreparedRun> =>
  request._tag === 'New'
    ? newRun(request.folder, request.settings, files)
    : oldRun(request.folder, request.asked, files)

/** Writes summary.json and report.html. */
export const finishRun = (
  paths: RunPaths,
  summary: RunSummary,
  files: Files = liveFiles,
): TE.TaskEither<RunFailure | FileFailure, void> =>
  pipe(
    files.write(paths.summary, `${JSON.stringify(summary, undefined, 2)}\n`),
    TE.chainW(() => readMetrics(files, paths)),
    TE.bindTo('metrics'),
    TE.bindW('trajectories', () => readTrajectories(files, paths)),
    TE.bindW('settings', () =>
      pipe(
        openRun(files, paths.folder),
        TE.map(({ settings }) => settings),
      ),
    ),
    TE.bindW('page', ({ metrics, trajectories, settings }) =>
      renderReport({ summary, settings, metrics, trajectories }),
    ),
    TE.chainW(({ page }) => files.write(paths.report, page)),
  )
