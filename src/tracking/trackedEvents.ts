/** What a training run tells trackers. */

import type { RunEvent } from '../run/events.js'
import type { StepRecord, TrajectoryRecord } from '../run/records.js'
import { phaseSpans } from './phases.js'
import type { SampleText, TrackedEvent } from './sink.js'

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

/** Numbers of a step that describe what was sampled; all others describe the update. */
const SAMPLED: ReadonlySet<string> = new Set<keyof StepRecord>([
  'reward',
  'sampling',
  'overlap',
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

/** What is told of a step or an evaluation. */
const scalars = (step: number, values: Named, seconds: Named, session: TrackedSession): TrackedEvent => ({
  ...{ type: 'scalars', at: session.at, step, values, seconds, spans: phaseSpans(seconds, session) },
})

/** Question, completion and what it earned. */
const sampleText = ({ query, tokens, answer, reward }: TrajectoryRecord, i: number): SampleText => ({
  name: String(i),
  text: [query, tokens.join(''), `answer ${answer}, reward ${reward}`].join('\n\n'),
})

/**
 * The events that a tracker is told of an event of a run: none for progress within an evaluation.
 *
 * Every number of a step's record is a scalar: under `rollout/` if it describes what was sampled, under `train/` otherwise; those of an
 * evaluation are under `eval/`. Numbers of a record in the record follow its name: `rollout/sampling/tokens`. A value of null is left out.
 *
 * @example
 * trackedEvents({ type: 'alarm', alarm: 'truncation', step: 2, since: 2, value: 1, limit: 0.5, message: 'cut', path: 'a' }, { run: 'r', isResumed: false, at: 5 }) // [{ type: 'alarm', at: 5, step: 2, name: 'truncation', text: 'cut' }]
 */
export const trackedEvents = (event: RunEvent, session: TrackedSession): readonly TrackedEvent[] => {
  const { run, isResumed, at, since = at } = session
  switch (event.type) {
    case 'start':
      return [{ type: 'start', at, run, from: isResumed ? event.firstStep : 0, settings: event.settings }]
    case 'step': {
      const { seconds, ...record } = event
      const values = namedBy(record, (name) => (SAMPLED.has(name) ? 'rollout' : 'train'))
      return [scalars(event.step, values, { ...seconds }, session)]
    }
    case 'evaluation': {
      const { seconds, ...record } = event
      return [
        scalars(
          event.step,
          namedBy(record, () => 'eval'),
          { evaluation: seconds },
          session,
        ),
      ]
    }
    case 'samples':
      return [{ type: 'samples', at, step: event.step, samples: event.samples.map(sampleText) }]
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
    case 'export':
      return []
  }
}
