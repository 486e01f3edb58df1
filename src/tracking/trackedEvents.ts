/** What a training run tells trackers. */

import type { RunEvent } from '../training/events.js'
import type { EvaluationRecord, StepRecord, TrajectoryRecord } from '../training/records.js'
import { phaseSpans } from './phases.js'
import type { SampleText, SettingValue, TrackedEvent } from './sink.js'

/** The session that an event belongs to. */
export interface TrackedSession {
  /** Of the run, shown to people. */
  readonly run: string
  readonly isResumed: boolean
  /** Time of the event: milliseconds since 1970. */
  readonly at: number
  /** When the run went on after its last event. Without it, what an event tells of ended with it. */
  readonly since?: number
}

/** Numbers of a step's record that describe what was learned; the others describe what was sampled. */
const LEARNED: ReadonlySet<string> = new Set<keyof StepRecord>([
  'learningRate',
  'klCoefficient',
  'completionKL',
  'correction',
])

type Named = Readonly<Record<string, number>>

/** The numbers of a record and of the records in it, each under the names that lead to it. Lists have none. */
const numbersOf = (record: object): readonly (readonly [name: string, value: number])[] =>
  Object.entries(record).flatMap(([name, value]: readonly [string, unknown]) => {
    if (typeof value === 'number') return [[name, value] as const]
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
    return numbersOf(value).map(([inner, number]) => [`${name}/${inner}`, number] as const)
  })

/** The numbers of a record but for its step, each under its group. */
const namedBy = (record: object, groupOf: (name: string) => string): Named =>
  Object.fromEntries(
    numbersOf(record)
      .filter(([name]) => name !== 'step')
      .map(([name, value]) => [`${groupOf(name.split('/', 1).join())}/${name}`, value]),
  )

/** The numbers of a step by name. */
const stepValues = ({ seconds: _, update, updates: __, parts, metrics, memory, ...record }: StepRecord): Named => ({
  ...namedBy({ ...record, ...parts }, (name) => (LEARNED.has(name) ? 'train' : 'rollout')),
  ...namedBy(update, () => 'train'),
  ...namedBy(metrics, () => 'metrics'),
  ...namedBy(memory, () => 'memory'),
})

/** The numbers of an evaluation by name. */
const evaluationValues = ({ name, tasks, scores }: EvaluationRecord): Named =>
  namedBy({ tasks, ...scores }, () => `eval/${name}`)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Settings one by one, each under its dotted path; lists as JSON. */
const flatSettings = (
  settings: Readonly<Record<string, unknown>>,
  path: readonly string[] = [],
): Readonly<Record<string, SettingValue>> =>
  Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]): readonly (readonly [string, SettingValue])[] => {
      const place = [...path, name]
      if (isRecord(value)) return Object.entries(flatSettings(value, place))
      const isPlain = value === null || ['string', 'number', 'boolean'].includes(typeof value)
      return [[place.join('.'), isPlain ? (value as SettingValue) : JSON.stringify(value)]] // by the test before it
    }),
  )

/** What is told of a step or an evaluation. */
const scalars = (step: number, values: Named, seconds: Named, session: TrackedSession): TrackedEvent => ({
  ...{ type: 'scalars', at: session.at, step, values, seconds, spans: phaseSpans(seconds, session) },
})

/** Question, completion and what it earned. */
const sampleText = ({ query, tokens, answer, reward }: TrajectoryRecord, i: number): SampleText => ({
  name: String(i),
  text: [query, tokens.join(''), `${answer === null ? '' : `answer ${answer}, `}reward ${reward}`].join('\n\n'),
})

/**
 * The events that a tracker gets for an event of a run: none for progress within an evaluation.
 *
 * Every number of a step's record is a scalar: under `rollout/` if it describes what was sampled, under `train/` if it describes the
 * update, under `memory/` if it is of the process, under `metrics/` if it is one of the run's own; the scores of an evaluator are under `eval/` and its name. Numbers of a record in
 * the record follow its name: `rollout/sampling/tokens`. A value of null is left out. Settings have dotted paths.
 *
 * @example
 * trackedEvents({ type: 'alarm', alarm: 'truncation', step: 2, since: 2, value: 1, limit: 0.5, message: 'cut', path: 'a' }, { run: 'r', isResumed: false, at: 5 }) // [{ type: 'alarm', at: 5, step: 2, name: 'truncation', text: 'cut' }]
 */
export const trackedEvents = (event: RunEvent, session: TrackedSession): readonly TrackedEvent[] => {
  const { run, isResumed, at, since = at } = session
  switch (event.type) {
    case 'start':
      return [{ type: 'start', at, run, from: isResumed ? event.firstStep : 0, settings: flatSettings(event.settings) }]
    case 'step':
      return [scalars(event.step, stepValues(event), { ...event.seconds }, session)]
    case 'evaluation':
      return [scalars(event.step, evaluationValues(event), { evaluation: event.seconds }, session)]
    case 'samples':
      return event.samples.length === 0
        ? []
        : [{ type: 'samples', at, step: event.step, samples: event.samples.map(sampleText) }]
    case 'alarm':
      return [{ type: 'alarm', at, step: event.step, name: event.alarm, text: event.message }]
    case 'checkpoint':
      return [
        {
          ...{ type: 'saved', at, step: event.step, what: 'checkpoint', path: event.path },
          spans: [{ name: 'checkpoint', from: Math.min(since, at), to: at }],
        },
      ]
    case 'end':
      return [{ type: 'end', at, step: event.summary.steps, status: event.summary.status }]
    case 'evaluating':
    case 'warning':
      return []
  }
}
