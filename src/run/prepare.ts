/** Opening a run, new or old, and closing it. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type MemoryEstimate, type MemoryFailure, memoryEstimate, requireMemory } from '../collectors/memoryEstimate.js'
import type { Files, Machine } from '../core/capabilities.js'
import type { ConfigFailure, FileFailure, FormatFailure, ModelFailure } from '../core/failure.js'
import type { TaskSource } from '../data/task.js'
import { liveFiles } from '../live/files.js'
import { liveMachine } from '../live/machine.js'
import { type Adapter, initialLora } from '../modules/lora/adapter.js'
import { loadPretrained, type Pretrained } from '../modules/pretrained.js'
import { type BatchFailure, type ReadBatch, readBatch } from './batchFolder.js'
import {
  type Checkpoint,
  type CheckpointFailure,
  latestCheckpoint,
  loadAdapterCheckpoint,
  loadCheckpoint,
} from './checkpoint.js'
import { promptTokens, runMemoryRequest } from './memory.js'
import { optimizerOf } from './optimizerChoice.js'
import { runKeys } from './pipeline.js'
import type { RunSummary } from './records.js'
import type { ReplayOptions } from './replay.js'
import { renderReport } from './report.js'
import {
  clearUnfinished,
  createRun,
  openLog,
  openRun,
  type RunFailure,
  type RunPaths,
  readMetrics,
  readSteps,
  readTrajectories,
  writeSettings,
} from './runFolder.js'
import type { TrainOptions } from './session.js'
import { loraOf, parseSettings, type RunSettings, resumeSettings } from './settings.js'
import { stepName } from './stepName.js'
import { openTasks, type TasksFailure } from './tasks.js'
import type { Trainable } from './weights.js'

/** What to run: a new folder with settings, or an old one with the settings that somebody wants changed. */
export type RunRequest =
  | { readonly _tag: 'New'; readonly folder: string; readonly settings: RunSettings }
  | { readonly _tag: 'Resume'; readonly folder: string; readonly asked: Partial<RunSettings> }

export type PrepareFailure =
  | RunFailure
  | TasksFailure
  | ModelFailure
  | ConfigFailure
  | MemoryFailure
  | BatchFailure
  | FormatFailure

/** All that `train` needs. */
export interface PreparedRun extends Omit<TrainOptions, 'signal'> {
  readonly memory: MemoryEstimate
}

/** How a run is prepared. */
export interface PrepareOptions {
  readonly files?: Files
  /** Whether a run that takes more memory than there is is refused. Default check. */
  readonly memory?: 'check' | 'ignore'
  readonly machine?: Machine
}

type Surroundings = Required<PrepareOptions>

/** Questions that the length of prompts is taken from. */
const LOOKED_AT = 16

/** The adapter that a run begins with; null if it trains the model's own weights. */
const newAdapter = (settings: RunSettings, { config }: Pretrained): E.Either<ConfigFailure, Adapter | null> => {
  const lora = loraOf(settings)
  return lora === null ? E.right(null) : initialLora(config, lora, runKeys(settings.seed).adapter)
}

/** What the run will take, if there is as much or if nobody asks. A row that cannot be read is told when the run comes to it. */
const memoryOf = (
  settings: RunSettings,
  { model, adapter, source }: Trainable & { readonly source: TaskSource },
  { memory, machine }: Surroundings,
): E.Either<MemoryFailure, MemoryEstimate> => {
  const count = source.size === 'endless' ? LOOKED_AT : Math.min(LOOKED_AT, source.size)
  const questions = Array.from({ length: count }, (_, i) => source.at(i)).flatMap((task) =>
    E.isRight(task) ? [task.right.query] : [],
  )
  const request = runMemoryRequest(settings, { model, adapter }, promptTokens(model, questions))
  return memory === 'ignore' ? E.right(memoryEstimate(request)) : requireMemory(request, machine.memoryBytes())
}

type Inputs = Pick<PreparedRun, 'settings' | 'model' | 'adapter' | 'tasks' | 'evalTasks' | 'memory'>

/** Model and tasks for settings. Everything is read before a folder is made, so that a mistake leaves nothing behind. */
const loadInputs = (settings: RunSettings, around: Surroundings): TE.TaskEither<PrepareFailure, Inputs> =>
  pipe(
    loadPretrained(settings.model, around.files),
    TE.bindTo('model'),
    TE.bindW('adapter', ({ model }) => TE.fromEither(newAdapter(settings, model))),
    TE.bindW('tasks', () => openTasks(settings)),
    TE.bindW('memory', ({ tasks, ...weights }) =>
      TE.fromEither(memoryOf(settings, { ...weights, source: tasks.train }, around)),
    ),
    TE.map(({ tasks, ...inputs }) => ({
      ...inputs,
      settings: { ...settings, evalProblems: tasks.evalProblems },
      tasks: tasks.train,
      evalTasks: tasks.evaluation,
    })),
  )

const newRun = (
  folder: string,
  settings: RunSettings,
  around: Surroundings,
): TE.TaskEither<PrepareFailure, PreparedRun> =>
  pipe(
    TE.fromEither(parseSettings(settings)),
    TE.chainW((valid) => loadInputs(valid, around)),
    TE.chainW((inputs) =>
      pipe(
        createRun(around.files, folder, inputs.settings),
        TE.map((paths) => ({ ...inputs, paths, files: around.files })),
      ),
    ),
  )

/** Reads a checkpoint of a run. */
const openCheckpoint = (
  files: Files,
  folder: string,
  { settings, model: { config } }: Pick<PreparedRun, 'settings' | 'model'>,
): TE.TaskEither<CheckpointFailure, Checkpoint> => {
  const optimizer = optimizerOf(settings, config)
  return loraOf(settings) === null
    ? loadCheckpoint(files, folder, optimizer)
    : loadAdapterCheckpoint(files, folder, { config, optimizer })
}

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
        openCheckpoint(files, folder, { settings, model }),
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
  around: Surroundings,
): TE.TaskEither<PrepareFailure, PreparedRun> => {
  const { files } = around
  return pipe(
    openRun(files, folder),
    TE.bindW('agreed', ({ settings }) => TE.fromEither(resumeSettings(settings, asked))),
    TE.bindW('inputs', ({ agreed }) => loadInputs(agreed, around)),
    TE.bindW('resume', ({ paths, inputs }) => resumePoint(paths, inputs, files)),
    TE.chainFirstW(({ paths }) => clearUnfinished(files, paths)),
    TE.chainFirstW(({ paths, inputs }) => writeSettings(files, paths, inputs.settings)),
    TE.map(({ paths, inputs, resume }) => ({ ...inputs, paths, files, ...(resume && { resume }) })),
  )
}

/**
 * Opens a run.
 *
 * Errors   `Left` for a folder that holds a run already (new) or none (resume), for settings that differ from the stored ones, and for any
 *          model, dataset or checkpoint file that is missing or not usable, and for a run that takes more memory than there is. A new folder is made only when everything else was fine.
 */
export const prepareRun = (
  request: RunRequest,
  options: PrepareOptions = {},
): TE.TaskEither<PrepareFailure, PreparedRun> => {
  const around: Surroundings = { files: liveFiles, memory: 'check', machine: liveMachine, ...options }
  return request._tag === 'New'
    ? newRun(request.folder, request.settings, around)
    : oldRun(request.folder, request.asked, around)
}

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

/** A step to do again. */
export interface ReplayRequest {
  /** Of the run. */
  readonly folder: string
  /** The number of the step, or the folder of its batch. */
  readonly batch: string
}

/** The first of some folders that holds a batch; undefined if none does. */
const batchAmong = (files: Files, folders: readonly string[]): TE.TaskEither<FileFailure, string | undefined> =>
  pipe(
    folders,
    TE.traverseSeqArray((folder) =>
      pipe(
        files.exists(`${folder}/rows.td`),
        TE.map((exists) => (exists ? [folder] : [])),
      ),
    ),
    TE.map((found) => found.flat()[0]),
  )

interface AskedBatch {
  readonly batch: ReadBatch | null
  readonly step: number
  /** The folder of the batch; null if it is sampled again. */
  readonly from: string | null
}

/** The step, and its batch if that is kept. */
const batchToReplay = (files: Files, paths: RunPaths, asked: string): TE.TaskEither<PrepareFailure, AskedBatch> => {
  const read = (folder: string): TE.TaskEither<PrepareFailure, AskedBatch> =>
    pipe(
      readBatch(files, folder),
      TE.map((batch) => ({ batch, step: batch.step, from: folder })),
    )
  const step = Number(asked)
  const isStep = Number.isSafeInteger(step) && step > 0
  const places = isStep
    ? [paths.batches, paths.alarms].map((folder) => `${folder}/${stepName(step)}`)
    : [`${paths.folder}/${asked}`, asked]
  return pipe(
    batchAmong(files, places),
    TE.chainW((folder): TE.TaskEither<PrepareFailure, AskedBatch> => {
      if (folder !== undefined) return read(folder)
      return isStep ? TE.right({ batch: null, step, from: null }) : read(asked)
    }),
  )
}

/** All that `replay` needs, and where the batch is. */
interface PreparedReplay extends ReplayOptions, Pick<AskedBatch, 'from'> {
  /** The steps of the checkpoint that it begins at; 0 for the beginning of the run. */
  readonly checkpointStep: number
}

/**
 * Opens a run to do one of its steps again: reads its batch, the newest checkpoint before it and, if there is one, the checkpoint after it. Without a
 * checkpoint before it all steps from the beginning are done again.
 *
 * Errors   `Left` as `prepareRun`, and for a folder without a batch. Nothing is written.
 */
export const prepareReplay = (
  { folder, batch }: ReplayRequest,
  options: PrepareOptions = {},
): TE.TaskEither<PrepareFailure, PreparedReplay> => {
  const around: Surroundings = { files: liveFiles, memory: 'check', machine: liveMachine, ...options }
  const { files } = around
  return pipe(
    openRun(files, folder),
    TE.bindW('asked', ({ paths }) => batchToReplay(files, paths, batch)),
    TE.bindW('inputs', ({ settings }) => loadInputs(settings, around)),
    TE.bindW('records', ({ paths }) => readSteps(files, paths)),
    TE.bindW('before', ({ paths, inputs, asked }) =>
      pipe(
        latestCheckpoint(files, paths.checkpoints, asked.step - 1),
        TE.chainW((found) => (found === undefined ? TE.right(undefined) : openCheckpoint(files, found, inputs))),
      ),
    ),
    TE.bindW('after', ({ paths, inputs, asked }) => {
      const place = `${paths.checkpoints}/${stepName(asked.step)}`
      return pipe(
        files.exists(place),
        TE.chainW((exists) => (exists ? openCheckpoint(files, place, inputs) : TE.right(undefined))),
      )
    }),
    TE.filterOrElseW(
      ({ settings, asked, before }) =>
        settings.maxLag === 0 || (asked.batch !== null && before?.state.step === asked.step - 1),
      ({ asked }): BatchFailure => ({
        _tag: 'BatchFailure',
        folder,
        reason: `a run that samples beside learning (--max-lag) cannot be sampled again: step ${asked.step} needs its batch and the checkpoint before it, with --save-batches 1 and --checkpoint-every 1`,
      }),
    ),
    TE.map(({ inputs, asked, records, before, after }) => ({
      ...{ ...inputs, ...asked, records, settings: { ...inputs.settings, maxLag: 0 } },
      ...(before && { checkpoint: before }),
      ...(after && { after: after.trained }),
      checkpointStep: before?.state.step ?? 0,
    })),
  )
}
