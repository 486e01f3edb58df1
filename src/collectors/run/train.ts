/** A whole training run, from its settings to its summary, as a stream of events. */
import type { Clock, Files } from '../../core/capabilities.js'
import { orThrow } from '../../core/failure.js'
import type { StopReason } from '../../data/policy.js'
import type { TaskSource } from '../../data/task.js'
import { raggedRow, raggedRows, rowLengths } from '../../data/tensorDict/leaf.js'
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
import type { TrainerState } from '../steps/lossStep.js'
import { inProcessUpdater } from '../weightSync.js'
import {
  adapterCheckpointFiles,
  type Checkpoint,
  type CheckpointState,
  checkpointFiles,
  saveCheckpoint,
} from './checkpoint.js'
import { klControllerOf, scheduleOf } from './choices.js'
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

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)

/** The part of a step's record that describes what was sampled. */
const describeBatch = (batch: CollectedBatch<TrainingState>, settings: RunSettings) => {
  const numbers = (values: ArrayLike<number>): readonly number[] => Array.from(values)
  const rewards = numbers(get(batch, 'next', 'reward').dataSync())
  const stops: readonly StopReason[] = get(batch, 'stopReason').items.toArray()
  const flat = Array.from({ length: rewards.length / settings.group }, (_, i) =>
    rewards.slice(i * settings.group, (i + 1) * settings.group),
  )
  return {
    reward: mean(rewards),
    accuracy: mean(numbers(get(batch, 'next', 'rewardRight').dataSync())),
    worked: mean(numbers(get(batch, 'next', 'rewardThink').dataSync())),
    answered: mean(numbers(get(batch, 'next', 'rewardAnswer').dataSync())),
    completionKL: mean(raggedRows(get(batch, 'next', 'klPenalty')).map((row) => row.reduce((sum, kl) => sum + kl, 0))),
    truncated: mean(stops.map((reason) => (reason === 'length' ? 1 : 0))),
    completionTokens: mean(rowLengths(get(batch, 'tokens', 'response'))),
    groupsWithoutSignal: flat.filter((group) => group.every((r) => r === group[0])).length,
    policyVersion: get(batch, 'policyVersion').items.first() ?? -1,
  }
}

/** The first completions of a batch, to be looked at: two of each group, as many groups as fit. */
const sampleTrajectories = (
  batch: CollectedBatch<TrainingState>,
  grouped: GroupedRows,
  context: { readonly step: number; readonly settings: RunSettings; readonly decode: (id: number) => string },
): readonly TrajectoryRecord[] => {
  const { step, settings, decode } = context
  const advantages = new Map(grouped.rows.map((row, i) => [row, grouped.advantages[i]!]))
  const rewards = get(batch, 'next', 'reward').dataSync()
  const [size = 0] = batch.batchShape
  const rows = Array.from({ length: size }, (_, i) => i).filter((i) => i % settings.group < 2)
  return rows.slice(0, settings.trajectories).map((i) => ({
    step,
    groupId: get(batch, 'groupId').items.get(i)!,
    query: get(batch, 'query').items.get(i)!,
    answer: get(batch, 'answer').items.get(i)!,
    tokens: Array.from(raggedRow(get(batch, 'tokens', 'response'), i), decode),
    logProbs: Array.from(raggedRow(get(batch, 'logProbs', 'response'), i), (x) => Number(x.toFixed(4))),
    reward: rewards[i]!,
    advantage: advantages.get(i) ?? null,
    stopReason: get(batch, 'stopReason').items.get(i)!,
    policyVersion: get(batch, 'policyVersion').items.get(i)!,
  }))
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

/** One step of the run: collect, learn, update the policy. */
const runStep = async (
  session: Session,
  progress: Progress,
): Promise<{
  readonly progress: Progress
  readonly record: StepRecord
  readonly samples: readonly TrajectoryRecord[]
}> => {
  const { pipeline, options, clock } = session
  const { settings, model } = options
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
  const updates = learn(session, pipeline.miniBatches(rows, grouped, step), learningRate)
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
  const decode = (id: number): string => model.text.tokenizer.decode([id], 'keep')
  return {
    progress: { step, position: collected.position, klCoefficient },
    record,
    samples: sampleTrajectories(batch, grouped, { step, settings, decode }),
  }
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
      startedAt,
      secondsBefore: state?.secondsTotal ?? 0,
      checkpointSeconds: state?.checkpointSeconds ?? 0,
    }
    yield { type: 'start', ...countsOf(model, weights), firstStep: progress.step + 1, settings }
    if (state !== undefined && state.policyVersion > 0)
      await pushWeights(session, trainer.last.value, state.policyVersion)
    if (!session.records.some(({ type }) => type === 'evaluation')) yield* evaluate(session, progress.step)
    let saved = progress.step
    while (progress.step < settings.steps && options.signal?.aborted !== true) {
      const result = await runStep(session, progress)
      progress = result.progress
      session.records.push(result.record)
      orThrow(await session.metrics.append([result.record])())
      orThrow(await session.trajectories.append(result.samples)())
      yield result.record
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
