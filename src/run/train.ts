/** A whole training run, from its settings to its summary, as a stream of events. */
import * as E from 'fp-ts/lib/Either.js'
import { NonFiniteLoss } from '../collectors/steps/lossStep.js'
import { describe, FailureError, type FileFailure, orThrow } from '../core/failure.js'
import { engineReport } from '../engine/report.js'
import { liveClock } from '../live/clock.js'
import { liveFiles } from '../live/files.js'
import { parameterCount } from '../modules/transformer/params.js'
import { type Alarm, alarmLimits, endingAlarm } from './alarms.js'
import { alarmWatch, type RaisedAlarms } from './alarmWatch.js'
import { type KeptBatch, saveAlarms, saveBatch } from './batchFolder.js'
import { describeBatch, shownRows } from './describeBatch.js'
import { evaluateProblems, type ProblemResult, scoresOf } from './evaluate.js'
import type { RunEvent } from './events.js'
import { bestStep, exportTrained, saveProgress } from './keep.js'
import { type Learner, openLearner, type Progress } from './learner.js'
import { runKeys } from './pipeline.js'
import { type EvaluationRecord, type RunSummary, type StepRecord, summarize } from './records.js'
import { openLog } from './runFolder.js'
import { type Session, secondsTotal, type TrainOptions } from './session.js'
import { stepName } from './stepName.js'
import { learnStep, type SampledStep, sampleStep, trajectoriesOf } from './trainingStep.js'
import { countsOf } from './weights.js'

/** Tells alarms, and keeps their batch. What hinders that is told with them, and is the result. */
async function* raise(
  { files, options }: Session,
  { alarms, batch }: RaisedAlarms,
): AsyncGenerator<RunEvent, E.Either<FileFailure, void>> {
  const path = `${options.paths.alarms}/${stepName(batch.step)}`
  const kept = await saveAlarms(files, path, { alarms, batch })()
  const rest = E.isRight(kept) ? '' : ` (its batch is not kept: ${describe(kept.left)})`
  for (const alarm of alarms)
    yield { type: 'alarm', path: E.isRight(kept) ? path : null, ...alarm, message: `${alarm.message}${rest}` }
  return kept
}

/** What is kept of a batch that was collected. */
const keptBatch = (learner: Learner, sampled: SampledStep, record: object): KeptBatch => ({
  step: sampled.step,
  record,
  learned: { rows: sampled.rows, groupIds: sampled.grouped.groupIds },
  trajectories: trajectoriesOf(learner, sampled),
})

/** Why a step that ends the run was not done, if that is nobody's mistake. */
const endOf = (step: number, error: unknown): Alarm | undefined => {
  if (error instanceof NonFiniteLoss) return endingAlarm('non-finite', step, error.message)
  return error instanceof FailureError ? endingAlarm('failed', step, error.message) : undefined
}

/** Does a part of a step. If that ends the run, it is told with the batch that it happened with, as far as there is one, and thrown. */
async function* orTell<T>(
  session: Session,
  before: Progress,
  part: {
    readonly run: () => Promise<T>
    readonly batch: () => Pick<KeptBatch, 'record' | 'learned' | 'trajectories'>
  },
): AsyncGenerator<RunEvent, T> {
  const step = before.step + 1
  try {
    return await part.run()
  } catch (error) {
    const alarm = endOf(step, error)
    if (alarm !== undefined && session.options.settings.alarms !== 'off')
      yield* raise(session, { alarms: [alarm], batch: { step, ...part.batch() } }) // the error is thrown, whether it was kept or not
    throw error
  }
}

/** One step of the run, written down. */
async function* runStep(session: Session, before: Progress): AsyncGenerator<RunEvent, Progress> {
  const { learner, options, clock } = session
  const { settings } = options
  const start = { type: 'step', step: before.step + 1, klCoefficient: before.klCoefficient, position: before.position }
  using sampled = yield* orTell(session, before, {
    run: () => sampleStep(learner, before, clock),
    batch: () => ({ record: start, learned: null, trajectories: [] }),
  })
  const { record, progress } = yield* orTell(session, before, {
    run: () => learnStep(learner, sampled, clock),
    batch: () =>
      keptBatch(learner, sampled, {
        ...{ ...start, ...describeBatch(sampled.batch, settings), learningRate: sampled.learningRate },
      }),
  })
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  const shown = trajectoriesOf(learner, sampled, shownRows(sampled.batch, settings))
  orThrow(await session.trajectories.append(shown)())
  if (settings.saveBatches !== null && record.step % settings.saveBatches === 0) {
    const place = { folder: options.paths.batches, keep: settings.keepBatches }
    orThrow(await saveBatch(session.files, keptBatch(learner, sampled, record), place)())
  }
  yield record
  const samples = shown.slice(0, options.samples ?? 0)
  if (samples.length > 0) yield { type: 'samples', step: record.step, samples }
  for (const raised of session.watch?.see(record, () => keptBatch(learner, sampled, record)) ?? []) {
    if (settings.alarms === 'stop') session.state.isStopped = true
    orThrow(yield* raise(session, raised))
  }
  return progress
}

async function* evaluate(session: Session, step: number): AsyncGenerator<RunEvent> {
  const { options, clock, learner } = session
  const { settings, model } = options
  const started = clock.now()
  const results: ProblemResult[] = []
  const parts = evaluateProblems({
    text: model.text,
    policy: learner.pipeline.policy.withSampling({ temperature: 0 }),
    source: options.evalTasks,
    problems: settings.evalProblems,
    key: runKeys(settings.seed).evaluation,
  })
  for await (const part of parts) {
    results.push(...part)
    yield { type: 'evaluating', step, done: results.length, problems: settings.evalProblems }
  }
  const seconds = (clock.now() - started) / 1000
  const record: EvaluationRecord = { type: 'evaluation', step, ...scoresOf(results), seconds }
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  yield record
}

/**
 * Runs the algorithm of the settings: evaluates, then collects, learns and updates for the given number of steps, with evaluations and checkpoints on the way.
 *
 * Every step is a function of the settings and the state before it, so a run that is resumed from a checkpoint ends with the same
 * parameters, bit for bit, as one that was never stopped.
 *
 * Errors   throws FailureError for files, weights, environment and policy, and NonFiniteLoss; what was saved stays whole.
 * Effects  writes to the run folder: metrics, trajectories, checkpoints. The caller writes summary and report.
 */
export async function* train(options: TrainOptions): AsyncGenerator<RunEvent> {
  const { settings, paths, model, files = liveFiles, clock = liveClock, resume } = options
  const startedAt = clock.now()
  const learner = await openLearner({ ...options, ...(resume && { checkpoint: resume.checkpoint }) })
  const state = resume?.checkpoint.state
  let progress = learner.start
  try {
    const session: Session = {
      options,
      files,
      clock,
      learner,
      metrics: orThrow(await openLog(files, paths.metrics, state?.metricsBytes ?? 0)()),
      trajectories: orThrow(await openLog(files, paths.trajectories, state?.trajectoriesBytes ?? 0)()),
      records: [...(resume?.records ?? [])],
      watch:
        settings.alarms === 'off'
          ? null
          : alarmWatch(
              alarmLimits(settings.alarmLimits),
              resume?.records.filter((record) => record.type === 'step') ?? [],
            ),
      startedAt,
      secondsBefore: state?.secondsTotal ?? 0,
      state: { isStopped: false, checkpointSeconds: state?.checkpointSeconds ?? 0 },
    }
    yield { type: 'start', ...countsOf(model, learner.weights), firstStep: progress.step + 1, settings }
    if (!session.records.some(({ type }) => type === 'evaluation')) yield* evaluate(session, progress.step)
    let saved = progress.step
    while (progress.step < settings.steps && !session.state.isStopped && options.signal?.aborted !== true) {
      progress = yield* runStep(session, progress)
      const isLast = progress.step === settings.steps
      if (progress.step % settings.evalEvery === 0 || isLast) yield* evaluate(session, progress.step)
      const isBest = bestStep(session) === progress.step
      if (progress.step % settings.checkpointEvery === 0 || isLast || isBest) {
        yield await saveProgress(session, progress)
        saved = progress.step
      }
    }
    if (saved !== progress.step || progress.step === 0) yield await saveProgress(session, progress)
    yield* exportTrained(session, progress)
    yield { type: 'end', summary: summaryOf(session, progress) }
  } finally {
    await learner.close()
  }
}

const summaryOf = (session: Session, progress: Progress): RunSummary => {
  const { settings, model } = session.options
  const { records, learner } = session
  return summarize(
    records.filter((record): record is StepRecord => record.type === 'step'),
    records.filter((record): record is EvaluationRecord => record.type === 'evaluation'),
    {
      status: progress.step >= settings.steps ? 'finished' : 'interrupted',
      seed: settings.seed,
      completionsPerStep: settings.prompts * settings.group,
      secondsTotal: secondsTotal(session),
      checkpointSeconds: session.state.checkpointSeconds,
      policyVersion: learner.pipeline.policy.version(),
      parameters: parameterCount(model.config),
      engine: engineReport(),
    },
  )
}
