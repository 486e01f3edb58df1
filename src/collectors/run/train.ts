/** A whole training run, from its settings to its summary, as a stream of events. */
import type { Clock, Files } from '../../core/capabilities.js'
import { orThrow } from '../../core/failure.js'
import type { TaskSource } from '../../data/task.js'
import { engineReport } from '../../engine/report.js'
import { liveClock } from '../../live/clock.js'
import { liveFiles } from '../../live/files.js'
import { parameterCount } from '../../modules/transformer/params.js'
import { NonFiniteLoss } from '../steps/lossStep.js'
import { type AlarmedStep, alarmedFiles, alarmFolder } from './alarmFolder.js'
import { type Alarm, type AlarmState, alarmLimits, nonFiniteAlarm, watchStep, watchSteps } from './alarms.js'
import {
  adapterCheckpointFiles,
  type Checkpoint,
  type CheckpointState,
  checkpointFiles,
  saveCheckpoint,
} from './checkpoint.js'
import { describeBatch, shownRows } from './describeBatch.js'
import { evaluateProblems, type ProblemResult, scoresOf } from './evaluate.js'
import type { RunEvent } from './events.js'
import { type Learner, openLearner, type Progress } from './learner.js'
import { runKeys } from './pipeline.js'
import { type EvaluationRecord, type RunSummary, type StepRecord, summarize } from './records.js'
import { type LineLog, openLog, type RunPaths } from './runFolder.js'
import type { RunSettings } from './settings.js'
import { learnStep, type SampledStep, sampleStep, trajectoriesOf } from './trainingStep.js'
import { countsOf, originOf, type Trainable, trainedFolders } from './weights.js'

export interface TrainOptions extends Trainable {
  readonly settings: RunSettings
  readonly paths: RunPaths
  readonly tasks: TaskSource
  readonly evalTasks: TaskSource
  /** Where to go on, with the records up to there. */
  readonly resume?: { readonly checkpoint: Checkpoint; readonly records: readonly (StepRecord | EvaluationRecord)[] }
  /** When aborted, the run finishes its step, saves and ends. */
  readonly signal?: AbortSignal
  readonly files?: Files
  readonly clock?: Clock
}

/** Keeps the batch of alarms and tells them. */
async function* raise(session: Session, alarmed: AlarmedStep): AsyncGenerator<RunEvent> {
  const [first] = alarmed.alarms
  if (first === undefined) return
  const path = alarmFolder(session.options.paths, first.step)
  orThrow(await session.files.writeFolder(path, alarmedFiles(alarmed))())
  for (const alarm of alarmed.alarms) yield { type: 'alarm', path, ...alarm }
}

/** The alarms of a step, which may end the run. */
const watch = (session: Session, record: StepRecord): readonly Alarm[] => {
  const { alarms: mode, alarmLimits: limits } = session.options.settings
  if (mode === 'off') return []
  const { state, alarms } = watchStep(session.watched, record, alarmLimits(limits))
  session.watched = state
  if (mode === 'stop' && alarms.length > 0) session.isStopped = true
  return alarms
}

/** Learns from a batch. If that gives no numbers, the batch is kept and the run ends. */
async function* learnFrom(
  session: Session,
  sampled: SampledStep,
): AsyncGenerator<RunEvent, Awaited<ReturnType<typeof learnStep>>> {
  const { learner, clock } = session
  const { settings } = session.options
  try {
    return await learnStep(learner, sampled, clock)
  } catch (error) {
    if (error instanceof NonFiniteLoss && settings.alarms !== 'off') {
      const { step, batch, rows, learningRate } = sampled
      const record = { type: 'step', step, ...describeBatch(batch, settings), learningRate }
      const alarms = [nonFiniteAlarm(step, error.message)]
      yield* raise(session, { alarms, record, rows, trajectories: trajectoriesOf(learner, sampled) })
    }
    throw error
  }
}

/** One step of the run, written down. */
async function* runStep(session: Session, before: Progress): AsyncGenerator<RunEvent, Progress> {
  const { learner, options } = session
  using sampled = await sampleStep(learner, before, session.clock)
  const { record, progress } = yield* learnFrom(session, sampled)
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  const shown = trajectoriesOf(learner, sampled, shownRows(sampled.batch, options.settings))
  orThrow(await session.trajectories.append(shown)())
  yield record
  const alarms = watch(session, record)
  if (alarms.length > 0)
    yield* raise(session, { alarms, record, rows: sampled.rows, trajectories: trajectoriesOf(learner, sampled) })
  return progress
}

interface Session {
  readonly options: TrainOptions
  readonly files: Files
  readonly clock: Clock
  readonly learner: Learner
  readonly metrics: LineLog
  readonly trajectories: LineLog
  readonly records: (StepRecord | EvaluationRecord)[]
  readonly startedAt: number
  /** Seconds of earlier sessions. */
  readonly secondsBefore: number
  watched: AlarmState
  /** By an alarm: the run saves and ends. */
  isStopped: boolean
  checkpointSeconds: number
}

const secondsTotal = ({ clock, startedAt, secondsBefore }: Session): number =>
  secondsBefore + (clock.now() - startedAt) / 1000

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

const checkpoint = async (session: Session, progress: Progress): Promise<RunEvent> => {
  const { options, files, clock, metrics, trajectories } = session
  const started = clock.now()
  const state: CheckpointState = {
    format: 1,
    step: progress.step,
    policyVersion: session.learner.pipeline.policy.version(),
    klCoefficient: progress.klCoefficient,
    position: { batch: progress.position.batch, remembered: { ...progress.position.remembered } },
    secondsTotal: secondsTotal(session),
    checkpointSeconds: session.checkpointSeconds,
    metricsBytes: metrics.bytes(),
    trajectoriesBytes: trajectories.bytes(),
  }
  const trainer = session.learner.trainer()
  const contents =
    options.adapter === null
      ? checkpointFiles(options.model, trainer, state)
      : adapterCheckpointFiles({ config: options.adapter.config, ...originOf(options) }, trainer, state)
  const path = orThrow(
    await saveCheckpoint(files, contents, { folder: options.paths.checkpoints, step: progress.step, keep: 2 })(),
  )
  session.checkpointSeconds += (clock.now() - started) / 1000
  return { type: 'checkpoint', step: progress.step, path }
}

/** Writes what was trained in the forms that the settings ask for. */
async function* exportTrained({ options, files, learner }: Session): AsyncGenerator<RunEvent> {
  for (const [path, contents] of trainedFolders(options, learner.weights, learner.trainer().params)) {
    orThrow(await files.writeFolder(path, contents)())
    yield { type: 'export', path }
  }
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
      watched: watchSteps(
        resume?.records.filter((record) => record.type === 'step') ?? [],
        alarmLimits(settings.alarmLimits),
      ).state,
      isStopped: false,
      startedAt,
      secondsBefore: state?.secondsTotal ?? 0,
      checkpointSeconds: state?.checkpointSeconds ?? 0,
    }
    yield { type: 'start', ...countsOf(model, learner.weights), firstStep: progress.step + 1, settings }
    if (!session.records.some(({ type }) => type === 'evaluation')) yield* evaluate(session, progress.step)
    let saved = progress.step
    while (progress.step < settings.steps && !session.isStopped && options.signal?.aborted !== true) {
      progress = yield* runStep(session, progress)
      const isLast = progress.step === settings.steps
      if (progress.step % settings.evalEvery === 0 || isLast) yield* evaluate(session, progress.step)
      if (progress.step % settings.checkpointEvery === 0 || isLast) {
        yield await checkpoint(session, progress)
        saved = progress.step
      }
    }
    if (saved !== progress.step || progress.step === 0) yield await checkpoint(session, progress)
    yield* exportTrained(session)
    yield { type: 'end', summary: summaryOf(session, progress) }
  } finally {
    learner.release()
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
      checkpointSeconds: session.checkpointSeconds,
      policyVersion: learner.pipeline.policy.version(),
      parameters: parameterCount(model.config),
      engine: engineReport(),
    },
  )
}
