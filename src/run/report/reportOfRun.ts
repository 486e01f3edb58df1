/** The report of a run folder at any time: of a run that trains, has ended, or was killed. */
import { type FileFailure, type Files, parseJsonAs } from '@tandem-rl/base'
import { engineReport } from '@tandem-rl/tfjs-onnxruntime'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { recordedLimits } from '../metrics/alarms.js'
import {
  type EvaluationRecord,
  type RunSummary,
  type StepRecord,
  summarizeRun,
  type TrajectoryRecord,
} from '../metrics/records.js'
import { openRun, parseLines, type RunFailure, type RunPaths, runFolderFailure } from '../store/runFolder.js'
import { type ReportSummary, renderReport } from './report.js'

type Failed = RunFailure | FileFailure

const textOf = (files: Files, path: string): TE.TaskEither<FileFailure, string> =>
  pipe(
    files.exists(path),
    TE.chain((exists) => (exists ? files.readText(path) : TE.right(''))),
  )

/** Reads a file of JSON lines, without an incomplete last one: the run may be active. */
const wholeLines = <T>(files: Files, path: string): TE.TaskEither<Failed, readonly T[]> =>
  pipe(
    textOf(files, path),
    TE.chainEitherKW((text) => parseLines<T>(path, text.slice(0, text.lastIndexOf('\n') + 1))),
  )

const machineSchema = z.record(z.string(), z.string())

/** Reads the engine of the last session from machine.json. */
const engineOf = (files: Files, { machine }: RunPaths): TE.TaskEither<FileFailure, ReportSummary['engine']> =>
  pipe(
    textOf(files, machine),
    TE.map((text) =>
      pipe(
        parseJsonAs(machineSchema, text),
        E.getOrElse((): ReportSummary['engine'] => ({})),
      ),
    ),
  )

/** Summarizes a run without an end from its records. The time of checkpoints is not known. */
const summaryOf = (
  steps: readonly StepRecord[],
  evaluations: readonly EvaluationRecord[],
  engine: ReportSummary['engine'],
): ReportSummary => {
  const stepSeconds = steps.flatMap(({ seconds }) => Object.values(seconds))
  const seconds = [...stepSeconds, ...evaluations.map((each) => each.seconds)]
  const summary = summarizeRun(steps, evaluations, {
    status: 'interrupted',
    secondsTotal: seconds.reduce((a, b) => a + b, 0),
    checkpointSeconds: 0,
    policyVersion: steps.at(-1)?.step ?? 0,
    engine: engineReport(),
  })
  return { ...summary, engine } // of the run, not of this process
}

/** Returns summary.json, unless the run has trained on after it was written. */
const writtenSummary = (text: string, steps: readonly StepRecord[]): ReportSummary | undefined => {
  if (text === '') return undefined
  const { engine, ...summary } = JSON.parse(text) as RunSummary // written by a run
  return summary.steps === steps.length ? { ...summary, engine: { ...engine } } : undefined
}

/**
 * Renders the report of a run folder as one HTML page, also for a run that has not ended or was
 * killed.
 *
 * Errors   `Left(RunFailure)` if the folder holds no run, or no step was recorded yet.
 */
export const reportOfRun = (files: Files, folder: string): TE.TaskEither<Failed, string> =>
  pipe(
    openRun(files, folder),
    TE.bindW('metrics', ({ paths }) => wholeLines<StepRecord | EvaluationRecord>(files, paths.metrics)),
    TE.bindW('trajectories', ({ paths }) => wholeLines<TrajectoryRecord>(files, paths.trajectories)),
    TE.bindW('written', ({ paths }) => textOf(files, paths.summary)),
    TE.bindW('engine', ({ paths }) => engineOf(files, paths)),
    TE.chainW(({ config, metrics, trajectories, written, engine }): TE.TaskEither<Failed, string> => {
      const steps = metrics.filter((record) => record.type === 'step')
      const evaluations = metrics.filter((record) => record.type === 'evaluation')
      if (steps.length === 0) return TE.left(runFolderFailure(folder, 'no step was recorded yet'))
      return renderReport(
        {
          folder,
          config,
          metrics,
          trajectories,
          alarms: { limits: recordedLimits(config.settings) },
          summary: writtenSummary(written, steps) ?? summaryOf(steps, evaluations, engine),
        },
        files,
      )
    }),
  )
