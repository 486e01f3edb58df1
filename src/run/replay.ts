/** One step of a run done again, alone: on its own batch, from the state before it. Nothing of the run is changed. */

import { combineUpdates, type StepMetrics } from '../collectors/stepMetrics.js'
import { NonFiniteLoss } from '../collectors/steps/lossStep.js'
import type { Clock } from '../core/capabilities.js'
import type { HostArray } from '../data/codecs/safetensors.js'
import { liveClock } from '../live/clock.js'
import { hostArrays } from '../modules/pretrained.js'
import type { ReadBatch } from './batchFolder.js'
import type { Checkpoint } from './checkpoint.js'
import { scheduleOf } from './choices.js'
import { type Learner, type LearnerOptions, openLearner, type Progress } from './learner.js'
import type { StepRecord } from './records.js'
import { learnStep, sampleStep } from './trainingStep.js'

/** Something that is not what it was. Undefined is shown as absent. */
export interface Difference {
  /** A field of the step's record, `weights`, or `end`. */
  readonly what: string
  readonly was: string
  readonly is: string
}

export type ReplayEvent =
  /** A step between the checkpoint and the one that is asked for. */
  | { readonly type: 'caught-up'; readonly step: number; readonly differences: readonly Difference[] }
  | {
      readonly type: 'replayed'
      readonly step: number
      /** Where its batch came from: it was kept, or sampled again. */
      readonly batch: 'kept' | 'sampled'
      /** Of each update that was done. */
      readonly updates: readonly StepMetrics[]
      /** Why the step was not done, as for a loss that is no number; null if it was. */
      readonly end: string | null
      /** What the run knew of the step: fields that were compared, and weights if there is a checkpoint after it. */
      readonly compared: readonly string[]
      readonly differences: readonly Difference[]
    }

export interface ReplayOptions extends LearnerOptions {
  /** Counted from 1; after that of the checkpoint. */
  readonly step: number
  /** Null samples it again. */
  readonly batch: ReadBatch | null
  /** What the run wrote down of its steps. */
  readonly records: readonly StepRecord[]
  /** Weights after the step, if they were kept. */
  readonly after?: Checkpoint['trained']
  readonly clock?: Clock
}

const shown = (value: unknown): string => (value === undefined ? 'absent' : JSON.stringify(value))

/** What a record says of a step, without how long it took. */
const compared = (record: object): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(record)
      .filter(([name]) => name !== 'seconds')
      .map(([name, value]) => [name, shown(value)]),
  )

/** Fields of `is` that differ in a record. */
const differences = (was: object, is: object): readonly Difference[] => {
  const before = compared(was)
  return [...compared(is)].flatMap(([what, now]) => {
    const then = before.get(what) ?? shown(undefined)
    return then === now ? [] : [{ what, was: then, is: now }]
  })
}

const sameBits = (a: HostArray, b: HostArray): boolean => {
  const bits = ({ data }: HostArray): Uint32Array => new Uint32Array(data.buffer, data.byteOffset, data.length)
  const [one, other] = [bits(a), bits(b)]
  return one.length === other.length && one.every((word, i) => word === other[i])
}

const weightDifferences = (was: Checkpoint['trained'], is: Checkpoint['trained']): readonly Difference[] => {
  const other = [...is].filter(([name, array]) => !was.has(name) || !sameBits(array, was.get(name)!))
  return other.length === 0
    ? []
    : [{ what: 'weights', was: `${was.size} tensors`, is: `${other.length} others, ${other[0]![0]} first` }]
}

/** How a step ended that was done, or was not: null if it was. */
const endDifferences = (said: string | null, was: StepRecord | undefined, is: string | null): readonly Difference[] => {
  const end = (why: string | null): string => why ?? 'the step was done'
  if (said === null && was === undefined) return [] // the run says nothing of the step
  return said === is ? [] : [{ what: 'end', was: end(said), is: end(is) }]
}

/** Steps up to the one that is asked for, each compared with what the run wrote down. */
async function* catchUp(learner: Learner, { step, records, clock = liveClock }: ReplayOptions) {
  let progress: Progress = learner.start
  while (progress.step + 1 < step) {
    using sampled = await sampleStep(learner, progress, clock)
    const { record, progress: next } = await learnStep(learner, sampled, clock)
    const known = records.find((each) => each.step === record.step)
    const event: ReplayEvent = {
      ...{ type: 'caught-up', step: record.step },
      differences: known === undefined ? [] : differences(known, record),
    }
    yield event
    progress = next
  }
  return progress
}

/** What a step measures, on the batch that was kept or on one that is sampled again. */
const again = async (learner: Learner, before: Progress, options: ReplayOptions): Promise<Partial<StepRecord>> => {
  const { step, batch, settings, clock = liveClock } = options
  if (batch === null) {
    using sampled = await sampleStep(learner, before, clock)
    return (await learnStep(learner, sampled, clock)).record
  }
  const learningRate = scheduleOf(settings)(step - 1)
  const updates = await learner.learn(learner.pipeline.miniBatches(batch.rows, batch, step), learningRate)
  return { learningRate, ...combineUpdates(updates), updates }
}

/**
 * Does step `step` of a run again. The steps between the checkpoint and it are done again before, which gives the state that it began with.
 *
 * What the run wrote down of the step is compared: on a batch that was kept, loss, gradient norm and what else its updates measured; on
 * one that is sampled again all of its record; and the weights after it, bit for bit, where they were kept.
 *
 * Errors   throws FailureError where environment or policy fail. A loss that is no number is the result: `end`.
 * Effects  none on the run; holds its tensors until the end.
 */
export async function* replay(options: ReplayOptions): AsyncGenerator<ReplayEvent> {
  const { step, batch, records, after } = options
  const learner = await openLearner(options)
  const event = { type: 'replayed', step, batch: batch === null ? 'sampled' : 'kept' } as const
  try {
    const before = yield* catchUp(learner, options)
    const was = records.find((each) => each.step === step)
    try {
      const is = await again(learner, before, options)
      const weights = hostArrays(learner.trainer().params)
      yield {
        ...event,
        updates: is.updates ?? [],
        end: null,
        compared: [
          ...(was === undefined ? (batch?.end ? ['end'] : []) : compared(is).keys()),
          ...(after === undefined ? [] : ['weights']),
        ],
        differences: [
          ...(was === undefined ? endDifferences(batch?.end ?? null, was, null) : differences(was, is)),
          ...(after === undefined ? [] : weightDifferences(after, weights)),
        ],
      }
    } catch (error) {
      if (!(error instanceof NonFiniteLoss)) throw error
      const differs = endDifferences(batch?.end ?? null, was, error.message)
      yield { ...event, updates: [], end: error.message, compared: ['end'], differences: differs }
    }
  } finally {
    await learner.close()
  }
}
