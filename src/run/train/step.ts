/** One step of a run: collect, train, push the new weights to the policy, and record the step. */
import { type Clock, type Json, orThrow } from '@tandem-rl/base'
import { residentBytes } from '@tandem-rl/base/host'
import { engineReport } from '@tandem-rl/tfjs-onnxruntime'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { raggedLength, raggedRows } from '../../data/tensorDict/leaf.js'
import { assign } from '../../data/tensorDict/merge.js'
import { findData, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { TrainedTokens } from '../../learners/steps/trainedTokens.js'
import { raggedAt } from '../metrics/batchEntries.js'
import { batchMetrics } from '../metrics/batchMetrics.js'
import type { MemoryRecord, PhaseSeconds, StepRecord } from '../metrics/records.js'
import type { AnyRun } from '../parts/run.js'
import type { OpenSource, SourceBatch } from '../parts/source.js'

/** The state of a run between two steps. */
export interface Progress {
  /** Number of steps done. */
  readonly step: number
  /** KL coefficient of the next step. */
  readonly klCoefficient: number
  readonly position: Json
}

/** A run with its open source. */
export interface OpenRun {
  readonly run: AnyRun
  readonly source: OpenSource
  readonly clock: Clock
}

/** The collected batch of a step, and the part of it to train on. Disposing frees both. */
export interface SampledStep extends Disposable, Pick<SourceBatch, 'position' | 'sampling' | 'overlap'> {
  readonly step: number
  readonly batch: TensorDict
  /** The batch with advantages, without dropped groups. */
  readonly rated: TensorDict
  readonly before: Progress
  readonly seconds: Pick<PhaseSeconds, 'generation' | 'environment' | 'reference'>
  /** Clock time at which the batch was complete. */
  readonly collectedAt: number
}

/** Divides the seconds of collecting. The environment has those that are left. */
const collectingSeconds = (
  total: number,
  { generation, reference }: Pick<PhaseSeconds, 'generation' | 'reference'>,
): SampledStep['seconds'] => ({
  generation,
  environment: Math.max(0, total - generation - (reference ?? 0)),
  ...(reference !== undefined && { reference }),
})

/** Collects the batch of the next step. Throws FailureError if environment or policy fails. */
export const sampleStep = async ({ run, source, clock }: OpenRun, before: Progress): Promise<SampledStep> => {
  const started = clock.now()
  const scoredBefore = run.referenceSeconds?.() ?? 0
  const collected = orThrow(await source.collect(before)())
  const held: Owned<unknown>[] = [collected.batch]
  const release = (): void => {
    for (const owned of held) owned.release()
  }
  try {
    const batch = collected.batch.value
    const entries = run.rate === undefined ? {} : orThrow(await run.rate(batch)())
    const collectedAt = clock.now()
    const rated = own(scope(() => run.advantage(assign(batch, entries))))
    held.push(rated)
    // overlapped sampling scores while it samples: that time is part of its wait
    const reference = collected.overlap === null ? run.referenceSeconds?.() : undefined
    const generation = (findData(batch, ['generationMs']) ?? []).reduce((sum: number, ms) => sum + Number(ms), 0) / 1000
    return {
      step: before.step + 1,
      batch,
      rated: rated.value,
      before,
      position: collected.position,
      sampling: collected.sampling,
      overlap: collected.overlap,
      seconds: collectingSeconds((collectedAt - started) / 1000, {
        generation,
        ...(reference !== undefined && { reference: reference - scoredBefore }),
      }),
      collectedAt,
      [Symbol.dispose]: release,
    }
  } catch (error) {
    release()
    throw error
  }
}

/**
 * Returns the mean KL of a completion in nats, or `null` if the environment does not measure it.
 */
const completionKL = (batch: TensorDict): number | null => {
  const penalty = raggedAt(batch, ['next', 'klPenalty'])
  if (penalty === undefined || raggedLength(penalty) === 0) return null
  const each = raggedRows(penalty).map((row) => row.reduce((sum, kl) => sum + kl, 0))
  return each.reduce((a, b) => a + b, 0) / each.length
}

const groupsOf = (td: TensorDict): number =>
  new Set(findData(td, ['groupId']) ?? findData(td, ['trajectoryId']) ?? []).size

/** Returns the part of a step's record that describes the sampled batch. */
export const describeStep = ({ run }: OpenRun, { batch, rated, sampling, overlap, before }: SampledStep) => {
  const groups = groupsOf(batch)
  const used = groupsOf(rated)
  return {
    ...batchMetrics(batch),
    sampling,
    overlap,
    groupsUsed: used,
    groupsDropped: groups - used,
    completionKL: completionKL(batch),
    klCoefficient: before.klCoefficient,
    metrics: run.record.metrics?.(batch) ?? {},
  }
}

const memoryNow = (): MemoryRecord => {
  const { graphs, graphBytes } = engineReport()
  return { residentBytes: residentBytes(), graphs, graphBytes }
}

/**
 * Trains on the batch of a step and pushes the new weights.
 *
 * Errors   throws FailureError if the learner (also for a loss that is not finite) or the policy
 *          fails.
 */
export const learnStep = async (
  open: OpenRun,
  sampled: SampledStep,
): Promise<{
  readonly record: StepRecord
  readonly progress: Progress
  /** Numbers of the trained tokens, one list for each row of `rated`. */
  readonly tokens?: TrainedTokens
}> => {
  const { run, source, clock } = open
  const { step, batch, rated, before } = sampled
  const its = rated as TensorDict<never> // the batch is the learner's, by the types of the run's parts
  const update = orThrow(await run.learner.update(its)())
  const trainedAt = clock.now()
  orThrow(await source.trained(step)())
  const described = describeStep(open, sampled)
  const record: StepRecord = {
    type: 'step',
    step,
    ...described,
    correction: update.correction,
    learningRate: update.learningRate,
    update: update.metrics,
    updates: update.steps,
    memory: memoryNow(),
    seconds: {
      ...sampled.seconds,
      training: (trainedAt - sampled.collectedAt) / 1000,
      weightSync: (clock.now() - trainedAt) / 1000,
    },
  }
  const { kl } = run.source
  const klCoefficient =
    kl === null
      ? before.klCoefficient
      : kl.next(before.klCoefficient, described.completionKL ?? 0, batch.batchShape[0] ?? 0)
  return {
    record,
    progress: { step, position: sampled.position, klCoefficient },
    ...(update.tokens && { tokens: update.tokens }),
  }
}
