/** Runs a whole training run as a stream of events. */
import {
  checkOptions,
  child,
  describe,
  FailureError,
  type FileFailure,
  type Key,
  keyFromSeed,
  orThrow,
} from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { engineReport } from '@tandem-rl/tfjs-onnxruntime'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { stepName } from '../../data/runLayout.js'
import type { TrainedTokens } from '../../learners/steps/trainedTokens.js'
import { type Alarm, changedInputsAlarm, DEFAULT_ALARM_LIMITS, endingAlarm, isCollapse } from '../metrics/alarms.js'
import type { EvaluationResult, Evaluator } from '../metrics/evaluation.js'
import { type EvaluationRecord, type RunSummary, type StepRecord, summarizeRun } from '../metrics/records.js'
import { TRAIN_OPTIONS } from '../optionKinds.js'
import type { AnyRun } from '../parts/run.js'
import { finishRun } from '../report/report.js'
import { type KeptBatch, learnedEntries, saveAlarms, saveBatch } from '../store/batchFolder.js'
import { recordMachine, startNow } from '../store/machineRecord.js'
import type { TrainOptions } from '../store/options.js'
import type { LineLog } from '../store/runFolder.js'
import { type OpenStore, openStore } from '../store/store.js'
import { type AlarmWatch, alarmWatch, type RaisedAlarms } from './alarmWatch.js'
import type { RunEvent } from './events.js'
import { bestStep, checkpointSteps, exportTrained, saveProgress } from './keep.js'
import { type Session, secondsTotal } from './session.js'
import { describeStep, learnStep, type OpenRun, type Progress, type SampledStep, sampleStep } from './step.js'
import { shownRows, trajectoryRecordsOf } from './trajectoryRecords.js'

/** Throws RangeError that lists every unknown option, or every one that is out of range. */
const checkTrain = (options: TrainOptions): void => {
  checkOptions('train', options, TRAIN_OPTIONS)
  const count = (name: string, n: number | undefined, least: number): readonly string[] =>
    n !== undefined && !(Number.isSafeInteger(n) && n >= least)
      ? [`${name} must be an integer of at least ${least}, got ${n}`]
      : []
  const problems = [
    ...count('steps', options.steps, 1),
    ...count('every.evaluate', options.every?.evaluate, 1),
    ...count('every.checkpoint', options.every?.checkpoint, 1),
    ...count('keep.trajectories', options.keep?.trajectories, 0),
    ...count('keep.batchEvery', options.keep?.batchEvery, 1),
    ...count('keep.batches', options.keep?.batches, 1),
    ...count('keep.historyBytes', options.keep?.historyBytes, 0),
  ]
  if (problems.length > 0) throw new RangeError(`train: ${problems.join('; ')}`)
}

/**
 * Emits alarms and saves their batch. If saving fails, the error is appended to the message and
 * returned.
 */
async function* raise(
  { store }: Session,
  { alarms, batch }: RaisedAlarms,
): AsyncGenerator<RunEvent, E.Either<FileFailure, void>> {
  const path = store === null ? null : `${store.paths.alarms}/${stepName(batch.step)}`
  const kept: E.Either<FileFailure, void> =
    store === null || path === null ? E.right(undefined) : await saveAlarms(store.files, path, { alarms, batch })()
  const rest = E.isRight(kept) ? '' : ` (saving its batch failed: ${describe(kept.left)})`
  for (const alarm of alarms)
    yield { type: 'alarm', path: E.isRight(kept) ? path : null, ...alarm, message: `${alarm.message}${rest}` }
  return kept
}

/**
 * Adds the newest checkpoint before the trouble began to the alarms that end a run. The first bad
 * step was sampled after the update of the step before it, whose checkpoint is bad, too. Alarms are
 * raised even if the checkpoints cannot be listed.
 */
const withWayBack = async ({ store }: Session, { alarms, batch }: RaisedAlarms): Promise<RaisedAlarms> => {
  const steps = store === null ? E.right([]) : await checkpointSteps(store)()
  const back = (since: number): string => {
    if (E.isLeft(steps)) return `The run ends here (${describe(steps.left)}).`
    const good = steps.right.findLast((step) => step < since - 1)
    return store === null || good === undefined
      ? 'The run ends here, without a checkpoint from before: start it again.'
      : `The run ends here. The last checkpoint before is ${store.paths.checkpoints}/${stepName(good)}, from which a new run can go on (--model).`
  }
  return { alarms: alarms.map((alarm) => ({ ...alarm, message: `${alarm.message}. ${back(alarm.since)}` })), batch }
}

/** Raises the alarm of a run that continues with other inputs, in every mode of alarms. */
async function* raiseChanged(
  session: Session,
  { step, position }: Progress,
  names: readonly string[],
): AsyncGenerator<RunEvent> {
  const batch = { step: step + 1, record: { step: step + 1, position }, learned: null, trajectories: [] }
  orThrow(yield* raise(session, { alarms: [changedInputsAlarm(step + 1, names)], batch }))
}

/** Returns the part of a collected batch that is saved. */
const keptBatch = (
  open: OpenRun,
  sampled: SampledStep,
  { record, tokens }: { readonly record: object; readonly tokens?: TrainedTokens | undefined },
): KeptBatch => ({
  step: sampled.step,
  record,
  learned: learnedEntries(sampled.rated),
  trajectories: trajectoryRecordsOf(open.run, sampled, { tokens }),
})

const isInterruption = (error: unknown): boolean =>
  error instanceof FailureError && error.failure._tag === 'Interrupted'

/** Returns the alarm for an error that ends the run, if the error is an expected one. */
const endOf = (step: number, error: unknown): Alarm | undefined => {
  if (!(error instanceof FailureError) || isInterruption(error)) return undefined
  const { failure } = error
  const isNumber = failure._tag === 'LearnerFailure' && 'kind' in failure && failure.kind === 'non-finite'
  return endingAlarm(isNumber ? 'non-finite' : 'failed', step, error.message)
}

/** Runs a part of a step. If it fails, raises an alarm with the batch and rethrows the error. */
async function* orRaise<T>(
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
    if (alarm !== undefined && session.options.alarms?.mode !== 'off')
      yield* raise(session, { alarms: [alarm], batch: { step, ...part.batch() } }) // rethrown even if saving fails
    throw error
  }
}

/** Runs and records one step. */
async function* runStep(session: Session, before: Progress): AsyncGenerator<RunEvent, Progress> {
  const { open, options, store } = session
  const { batchEvery, batches = 20, trajectories = 8 } = options.keep ?? {}
  const start = { type: 'step', step: before.step + 1, klCoefficient: before.klCoefficient, position: before.position }
  using sampled = yield* orRaise(session, before, {
    run: () => sampleStep(open, before),
    batch: () => ({ record: start, learned: null, trajectories: [] }),
  })
  const { record, progress, tokens } = yield* orRaise(session, before, {
    run: () => learnStep(open, sampled),
    batch: () => keptBatch(open, sampled, { record: { ...start, ...describeStep(open, sampled) } }),
  })
  const kept = (): KeptBatch => keptBatch(open, sampled, { record, tokens })
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  const shown = trajectoryRecordsOf(open.run, sampled, { rows: shownRows(sampled.batch, trajectories), tokens })
  orThrow(await session.trajectories.append(shown)())
  if (store !== null && batchEvery !== undefined && record.step % batchEvery === 0)
    orThrow(await saveBatch(store.files, kept(), { folder: store.paths.batches, keep: batches })())
  yield record
  if (shown.length > 0) yield { type: 'samples', step: record.step, samples: shown }
  for (const raised of session.watch?.see(record, kept) ?? []) {
    const { mode = 'stop-at-collapse' } = options.alarms ?? {}
    const isEnd = mode === 'stop' || (mode === 'stop-at-collapse' && raised.alarms.some(isCollapse))
    if (isEnd) session.state.isStopped = true
    orThrow(yield* raise(session, isEnd ? await withWayBack(session, raised) : raised))
  }
  return progress
}

/** Runs a step. Returns `null` if the signal of the run ended the wait for its batch. */
async function* runWholeStep(session: Session, before: Progress): AsyncGenerator<RunEvent, Progress | null> {
  try {
    return yield* runStep(session, before)
  } catch (error) {
    if (isInterruption(error)) return null
    throw error
  }
}

/** Returns an evaluator's random key, the same in all runs, so that runs can be compared. */
export const evaluationKey = (name: string): Key => child(child(keyFromSeed(0), 'evaluation'), name)

/** The number of results that are recorded with an evaluation. */
const SAMPLES = 4

/** Selects results for inspection, the first ones: equal tasks in all evaluations of a run. */
const samplesOf = (results: readonly EvaluationResult[]): Pick<EvaluationRecord, 'samples'> => {
  const shown = results.filter(({ completion }) => completion !== '').slice(0, SAMPLES)
  return shown.length === 0
    ? {}
    : { samples: shown.map(({ query, completion, score }) => ({ query, completion, score })) }
}

async function* evaluateBy(session: Session, evaluator: Evaluator, step: number): AsyncGenerator<RunEvent> {
  const { clock } = session
  const started = clock.now()
  const results: EvaluationResult[] = []
  for await (const part of evaluator.run(evaluationKey(evaluator.name))) {
    results.push(...part.results)
    yield { type: 'evaluating', name: evaluator.name, step, done: part.done, tasks: part.tasks }
  }
  const record: EvaluationRecord = {
    type: 'evaluation',
    name: evaluator.name,
    step,
    tasks: evaluator.tasks,
    score: evaluator.score,
    measure: evaluator.measure,
    scores: evaluator.scoresOf(results),
    ...samplesOf(results),
    seconds: (clock.now() - started) / 1000,
  }
  session.records.push(record)
  orThrow(await session.metrics.append([record])())
  yield record
}

async function* evaluate(session: Session, step: number): AsyncGenerator<RunEvent> {
  const { refresh } = session.open.run
  if (refresh !== undefined && step > 0) orThrow(await refresh(step)())
  for (const evaluator of session.open.run.evaluate) yield* evaluateBy(session, evaluator, step)
}

/** A log that discards its records. */
const NO_LOG: LineLog = { mark: () => ({ bytes: 0, digest: '' }), append: () => TE.right(undefined) }

const watchOf = ({ alarms = {} }: TrainOptions, before: readonly StepRecord[]): AlarmWatch | null =>
  alarms.mode === 'off' ? null : alarmWatch(alarms.limits ?? DEFAULT_ALARM_LIMITS, before)

/** Restores learner and policy, and opens source and logs. Throws FailureError. */
const openSession = async (
  run: AnyRun,
  options: TrainOptions,
  store: OpenStore | null,
): Promise<readonly [Session, Progress]> => {
  const { clock = liveClock } = options
  const startedAt = clock.now()
  const resume = store?.resume ?? null
  await run.begin?.()
  if (resume !== null && store !== null) {
    orThrow(await run.learner.restore(resume.folder, store.files)())
    if (resume.state.step > 0) orThrow(await run.push(resume.state.step)())
  }
  const state = resume?.state
  const source = await run.source.open({
    step: state?.step ?? 0,
    lastStep: options.steps,
    push: run.push,
    position: state?.position ?? null,
    ...(options.signal && { signal: options.signal }),
  })
  const records = [...(store?.records ?? [])]
  const session: Session = {
    options,
    store,
    clock,
    startedAt,
    records,
    open: { run, source, clock },
    files: store?.files ?? liveFiles,
    metrics: store?.metrics ?? NO_LOG,
    trajectories: store?.trajectories ?? NO_LOG,
    watch: watchOf(
      options,
      records.filter((record) => record.type === 'step'),
    ),
    secondsBefore: state?.secondsTotal ?? 0,
    state: { isStopped: false, checkpointSeconds: state?.checkpointSeconds ?? 0 },
  }
  const { kl } = run.source
  return [
    session,
    state === undefined
      ? { step: 0, position: source.position, klCoefficient: kl?.coefficient ?? 0 }
      : { step: state.step, position: state.position, klCoefficient: state.klCoefficient },
  ]
}

const summaryOf = (session: Session, progress: Progress): RunSummary => {
  const { records, open, options } = session
  return summarizeRun(
    records.filter((record): record is StepRecord => record.type === 'step'),
    records.filter((record): record is EvaluationRecord => record.type === 'evaluation'),
    {
      status: progress.step >= options.steps ? 'finished' : 'interrupted',
      secondsTotal: secondsTotal(session),
      checkpointSeconds: session.state.checkpointSeconds,
      policyVersion: open.run.learner.version(),
      engine: engineReport(),
    },
  )
}

async function* runSteps(session: Session, from: Progress): AsyncGenerator<RunEvent, Progress> {
  const { options, store, records, state } = session
  const { evaluate: evalEvery = 5, checkpoint: saveEvery = 10 } = options.every ?? {}
  let progress = from
  if (!records.some(({ type }) => type === 'evaluation')) yield* evaluate(session, progress.step)
  let saved = progress.step
  while (progress.step < options.steps && !state.isStopped && options.signal?.aborted !== true) {
    const next = yield* runWholeStep(session, progress)
    if (next === null) break
    progress = next
    const isLast = progress.step === options.steps
    if (progress.step % evalEvery === 0 || isLast) yield* evaluate(session, progress.step)
    const isBest = bestStep(session) === progress.step
    if (store !== null && (progress.step % saveEvery === 0 || isLast || isBest)) {
      yield await saveProgress(session, store, progress)
      saved = progress.step
    }
  }
  if (store !== null && (saved !== progress.step || progress.step === 0))
    yield await saveProgress(session, store, progress)
  return progress
}

/**
 * Trains: evaluates once, then repeats `steps` times: collect a batch, train on it, push the
 * weights. Evaluations and checkpoints are made at their intervals. If the store already holds the
 * run, training resumes from its newest checkpoint.
 *
 * Each step depends only on the parts and the state before it. A resumed run therefore ends with
 * weights that are bit-identical to an uninterrupted run's, except with asynchronous sampling or
 * workers.
 *
 * Errors   throws FailureError if files, weights, environment, policy or learner fail, and
 *          RangeError for invalid options. Data saved before the error stays valid.
 * Effects  writes to the run folder: metrics, trajectories, checkpoints, summary.json and
 *          report.html. Closes the run at the end.
 */
export async function* train(run: AnyRun, options: TrainOptions): AsyncGenerator<RunEvent> {
  let opened: Session | undefined
  let store: OpenStore | null = null
  try {
    checkTrain(options)
    const { store: place, recipe } = options
    const settings = recipe?.settings ?? {}
    const config = {
      format: 2 as const,
      settings,
      run: run.description,
      start: startNow(),
      recipe: recipe === undefined ? null : { name: recipe.name, file: recipe.file },
      inputs: { ...run.inputs(), ...(recipe?.digest !== undefined && { 'recipe file': recipe.digest }) },
      ...(recipe?.calibration && { calibration: recipe.calibration }),
    }
    store = place === undefined ? null : orThrow(await openStore(place, config)())
    const [session, from] = await openSession(run, options, store)
    opened = session
    const shown = recipe === undefined ? run.description : settings
    yield { type: 'start', firstStep: from.step + 1, steps: options.steps, settings: shown }
    if (recipe?.calibration !== undefined) yield { type: 'calibration', ...recipe.calibration }
    const warning = store === null ? null : orThrow(await recordMachine(store.files, store.paths)())
    if (warning !== null) yield { type: 'warning', message: warning }
    if (store !== null && store.changed.length > 0) yield* raiseChanged(session, from, store.changed)
    const progress = yield* runSteps(session, from)
    const summary = summaryOf(session, progress)
    if (store !== null) {
      await exportTrained(session, store, progress)
      orThrow(await finishRun(store.files, store.paths, { summary, alarms: options.alarms ?? {} })())
    }
    yield { type: 'end', summary }
  } finally {
    try {
      await opened?.open.source.close()
      await run.close()
    } finally {
      await store?.release()
    }
  }
}
