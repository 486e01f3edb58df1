/** What a training run tells trackers. */
import type { EvaluationRecord, StepRecord } from '../run/records.js'
import type { RunEvent } from '../run/train.js'
import type { TrackedEvent } from './sink.js'

/** The session that an event belongs to. */
export interface TrackedSession {
  /** Of the run, shown to people. */
  readonly run: string
  readonly isResumed: boolean
  /** Time of the event: milliseconds since 1970. */
  readonly at: number
}

/** Numbers of a step that describe what was sampled; all others describe the update. */
const SAMPLED: ReadonlySet<string> = new Set<keyof StepRecord>([
  'reward',
  'accuracy',
  'worked',
  'answered',
  'truncated',
  'completionTokens',
  'groupsUsed',
  'groupsDropped',
  'groupsWithoutSignal',
  'policyVersion',
])

const numbersOf = (record: object): readonly (readonly [string, number])[] =>
  Object.entries(record).filter((entry): entry is [string, number] => typeof entry[1] === 'number')

type Named = Readonly<Record<string, number>>

/** The numbers of a record but for its step, each under its group. */
const namedBy = (record: object, groupOf: (name: string) => string): Named =>
  Object.fromEntries(
    numbersOf(record)
      .filter(([name]) => name !== 'step')
      .map(([name, value]) => [`${groupOf(name)}/${name}`, value]),
  )

const stepScalars = ({ seconds, ...record }: StepRecord): { readonly values: Named; readonly seconds: Named } => ({
  values: namedBy(record, (name) => (SAMPLED.has(name) ? 'rollout' : 'train')),
  seconds: { ...seconds },
})

const evaluationScalars = ({
  seconds,
  ...record
}: EvaluationRecord): { readonly values: Named; readonly seconds: Named } => ({
  values: namedBy(record, () => 'eval'),
  seconds: { evaluation: seconds },
})

/**
 * The events that a tracker is told of an event of a run: none for progress within an evaluation.
 *
 * Every number of a step's record is a scalar: under `rollout/` if it describes what was sampled, under `train/` otherwise; those of an
 * evaluation are under `eval/`. A value of null is left out.
 *
 * @example
 * trackedEvents({ type: 'checkpoint', step: 2, path: 'a' }, { run: 'r', isResumed: false, at: 5 }) // [{ type: 'saved', at: 5, step: 2, what: 'checkpoint', path: 'a' }]
 */
export const trackedEvents = (event: RunEvent, { run, isResumed, at }: TrackedSession): readonly TrackedEvent[] => {
  switch (event.type) {
    case 'start':
      return [{ type: 'start', at, run, from: isResumed ? event.firstStep : 0, settings: event.settings }]
    case 'step':
      return [{ type: 'scalars', at, step: event.step, ...stepScalars(event) }]
    case 'evaluation':
      return [{ type: 'scalars', at, step: event.step, ...evaluationScalars(event) }]
    case 'alarm':
      return [{ type: 'alarm', at, step: event.step, name: event.alarm, text: event.message }]
    case 'checkpoint':
      return [{ type: 'saved', at, step: event.step, what: 'checkpoint', path: event.path }]
    case 'end':
      return [{ type: 'end', at, step: event.summary.steps, status: event.summary.status }]
    case 'evaluating':
    case 'export':
      return []
  }
}
