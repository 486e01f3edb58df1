/** A whole training run, from its settings to its summary, as a stream of events. */
import type { Clock, Files } from '../../core/capabilities.js'
import { orThrow } from '../../core/failure.js'
import type { TaskSource } from '../../data/task.js'
import { get } from '../../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../../data/weights.js'
import { engineReport } from '../../engine/report.js'
import { type Owned, own, scope } from '../../engine/scope.js'
import { liveClock } from '../../live/clock.js'
import { liveFiles } from '../../live/files.js'
import { parameterCount } from '../../modules/transformer/params.js'
import { TransformersWrapper } from '../../modules/transformersWrapper.js'
import type { GroupedRows } from '../groups.js'
import type { CollectedBatch, CollectorPosition } from '../llmCollector.js'
import { combineUpdates, type StepMetrics } from '../stepMetrics.js'
import type { TrainingRows } from '../stepRows.js'
import { NonFiniteLoss, type TrainerState } from '../steps/lossStep.js'
import { inProcessUpdater } from '../weightSync.js'
import { type AlarmedStep, alarmedFiles, alarmFolder } from './alarmFolder.js'
import { type Alarm, type AlarmState, alarmLimits, nonFiniteAlarm, watchStep, watchSteps } from './alarms.js'
import {
  adapterCheckpointFiles,
  type Checkpoint,
  type CheckpointState,
  checkpointFiles,
  saveCheckpoint,
} from './checkpoint.js'
import { klControllerOf, scheduleOf } from './choices.js'
import { describeBatch, sampleTrajectories, shownRows } from './describeBatch.js'
import { evaluateProblems, type ProblemResult, scoresOf } from './evaluate.js'
import { restoredState } from './optimizerState.js'
import { makePipeline, type Pipeline, runKeys, type TrainingState } from './pipeline.js'
import { type EvaluationRecord, type RunSummary, type StepRecord, summarize, type TrajectoryRecord } from './records.js'
import { type LineLog, openLog, type RunPaths } from './runFolder.js'
import type { RunSettings } from './settings.js'
import { countsOf, originOf, type RunWeights, startWeights, type Trainable, trainedFolders } from './weights.js'

/** What happens during a run, in order. */
export type RunEvent =
  | {
      readonly type: 'start'
      readonly parameters: number
      /** How many numbers are trained. */
      readonly trained: number
      readonly firstStep: number
      readonly settings: RunSettings
    }
  | { readonly type: 'evaluating'; readonly step: number; readonly done: number; readonly problems: number }
  | EvaluationRecord
  | StepRecord
  | ({ readonly type: 'alarm'; readonly path: string } & Alarm)
  | { readonly type: 'checkpoint'; readonly step: number; readonly path: string }
  | { readonly type: 'export'; readonly path: string }
  | { readonly type: 'end'; readonly summary: RunSummary }

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

interface Progress {
  readonly step: number
  /** Weight of the divergence in the step that comes. */
  readonly klCoefficient: number
  readonly position: CollectorPosition
}

/** Gives the policy what was trained, with what it needs besides. */
const pushWeights = async (
  { pipeline, weights }: Pick<Session, 'pipeline' | 'weights'>,
  { params }: TrainerState<object>,
  version: number,
): Promise<void> => {
  orThrow(await inProcessUpdater(pipeline.policy).push({ ...weights.frozen, ...params }, version)())
}

/** Learns from mini-batches, one after the other. Weights that were replaced are freed at once; after a failure the last ones are there. */
const learn = (session: Session, batches: readonly TrainingRows[], learningRate: number): readonly StepMetrics[] =>
  batches.map((rows) => {
    const { state, metrics } = session.pipeline.step.update(session.trainer.last.value, rows, learningRate)
    session.trainer.last.release()
    session.trainer.last = state
    return metrics
  })

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

/** A batch that was sampled for a step, and what is learned from it. */
interface Sampled {
  readonly step: number
  readonly batch: CollectedBatch<TrainingState>
  readonly grouped: GroupedRows
  readonly rows: TrainingRows
}

const trajectoriesOf = (
  { options: { model } }: Session,
  { step, batch, grouped }: Sampled,
  rows?: readonly number[],
): readonly TrajectoryRecord[] =>
  sampleTrajectories(batch, grouped, {
    step,
    decode: (id) => model.text.tokenizer.decode([id], 'keep'),
    ...(rows && { rows }),
  })

/** Learns from a batch. If that gives no numbers, the batch is kept and the run ends. */
async function* learnFrom(
  session: Session,
  sampled: Sampled,
  learningRate: number,
): AsyncGenerator<RunEvent, readonly StepMetrics[]> {
  const { step, batch, grouped, rows } = sampled
  const { settings } = session.options
  try {
    return learn(session, session.pipeline.miniBatches(rows, grouped, step), learningRate)
  } catch (error) {
    if (error instanceof NonFiniteLoss && settings.alarms !== 'off') {
      const record = { type: 'step', step, ...describeBatch(batch, settings), learningRate }
      const alarms = [nonFiniteAlarm(step, error.message)]
      yield* raise(session, { alarms, record, rows, trajectories: trajectoriesOf(session, sampled) })
    }
    throw error
  }
}

/** One step of the run: collect, learn, update the policy, write down what happened. */
async function* runStep(session: Session, progress: Progress): AsyncGenerator<RunEvent, Progress> {
  const { pipeline, options, clock } = session
  const { settings } = options
  const started = clock.now()
  const collected = orThrow(await pipeline.collect(progress.position, progress.klCoefficient)())
  using held = collected.batch
  const batch = held.value
  const generation = get(batch, 'generationMs').value / 1000
  const collectedAt = clock.now()
  const grouped = pipeline.group(batch)
  const step = progress.step + 1
  const learningRate = scheduleOf(settings)(progress.step)
  const { rows, correction } = orThrow(await pipeline.rows(batch, grouped)())
  const sampled: Sampled = { step, batch, grouped, rows }
  const updates = yield* learnFrom(session, sampled, learningRate)
  const trainedAt = clock.now()
  await pushWeights(session, session.trainer.last.value, step)
  const described = describeBatch(batch, settings)
  const record: StepRecord = {
    type: 'step',
    step,
    ...described,
    klCoefficient: progress.klCoefficient,
    sampling: collected.sampling,
    correction,
    groupsUsed: grouped.groups,
    groupsDropped: grouped.dropped.length,
    learningRate,
    ...combineUpdates(updates),
    updates,
    seconds: {
      generation,
      environment: (collectedAt - started) / 1000 - generation,
      training: (trainedAt - collectedAt) / 1000,
      weightSync: (clock.now() - trainedAt) / 1000,
    },
  }
  const controller = klControllerOf(settings, progress.klCoefficient)
  const klCoefficient = controller.update(described.completionKL, batch.batchShape[0]!).coefficient
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  orThrow(await session.trajectories.append(trajectoriesOf(session, sampled, shownRows(batch, settings)))())
  yield record
  const alarms = watch(session, record)
  if (alarms.length > 0) yield* raise(session, { alarms, record, rows, trajectories: trajectoriesOf(session, sampled) })
  return { step, position: collected.position, klCoefficient }
}

interface Session {
  readonly options: TrainOptions
  readonly files: Files
  readonly clock: Clock
  readonly pipeline: Pipeline
  readonly weights: RunWeights
  readonly metrics: LineLog
  readonly trajectories: LineLog
  readonly records: (StepRecord | EvaluationRecord)[]
  readonly startedAt: number
  /** What the last update left. */
  readonly trainer: { last: Owned<TrainerState<object>> }
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
  const { options, clock, pipeline } = session
  const { settings, model } = options
  const started = clock.now()
  const results: ProblemResult[] = []
  const parts = evaluateProblems({
    text: model.text,
    policy: pipeline.policy.withSampling({ temperature: 0 }),
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
    policyVersion: session.pipeline.policy.version(),
    klCoefficient: progress.klCoefficient,
    position: { batch: progress.position.batch, remembered: { ...progress.position.remembered } },
    secondsTotal: secondsTotal(session),
    checkpointSeconds: session.checkpointSeconds,
    metricsBytes: metrics.bytes(),
    trajectoriesBytes: trajectories.bytes(),
  }
  const trainer = session.trainer.last.value
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
async function* exportTrained({ options, files, weights, trainer }: Session): AsyncGenerator<RunEvent> {
  for (const [path, contents] of trainedFolders(options, weights, trainer.last.value.params)) {
    orThrow(await files.writeFolder(path, contents)())
    yield { type: 'export', path }
  }
}

/** Where a run begins, or goes on. */
const firstProgress = ({ settings, resume }: TrainOptions, { start }: Pick<Pipeline, 'start'>): Progress => {
  const { step = 0, klCoefficient = settings.klCoefficient } = resume?.checkpoint.state ?? {}
  return { step, position: start, klCoefficient }
}

const startTrainer = (
  { step, optimizer }: Pick<Pipeline, 'step' | 'optimizer'>,
  params: NamedTensors,
  resume: TrainOptions['resume'],
): Owned<TrainerState<object>> =>
  own(
    scope(() =>
      resume === undefined
        ? step.init(params)
        : { params, optimizer: restoredState(optimizer, params, resume.checkpoint.optimizer) },
    ),
  )

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
  using held = startWeights(options, resume?.checkpoint.trained)
  const weights = held.value
  const reference = TransformersWrapper({ config: model.config, params: weights.first })
  const state = resume?.checkpoint.state
  const pipeline = makePipeline(settings, model, {
    params: { ...weights.frozen, ...weights.trained },
    frozen: weights.frozen,
    reference,
    tasks: options.tasks,
    ...(state && { start: state.position }),
  })
  const trainer = { last: startTrainer(pipeline, weights.trained, resume) }
  let progress = firstProgress(options, pipeline)
  try {
    const session: Session = {
      options,
      files,
      clock,
      pipeline,
      weights,
      trainer,
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
    yield { type: 'start', ...countsOf(model, weights), firstStep: progress.step + 1, settings }
    if (state !== undefined && state.policyVersion > 0)
      await pushWeights(session, trainer.last.value, state.policyVersion)
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
    trainer.last.release()
    pipeline.release()
    reference.release()
  }
}

const summaryOf = (session: Session, progress: Progress): RunSummary => {
  const { settings, model } = session.options
  const { records, pipeline } = session
  return summarize(
    records.filter((record): record is StepRecord => record.type === 'step'),
    records.filter((record): record is EvaluationRecord => record.type === 'evaluation'),
    {
      status: progress.step >= settings.steps ? 'finished' : 'interrupted',
      seed: settings.seed,
      completionsPerStep: settings.prompts * settings.group,
      secondsTotal: secondsTotal(session),
      checkpointSeconds: session.checkpointSeconds,
      policyVersion: pipeline.policy.version(),
      parameters: parameterCount(model.config),
      engine: engineReport(),
    },
  )
}
