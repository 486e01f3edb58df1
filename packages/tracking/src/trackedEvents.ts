/** Converts events of a training run to tracker events. */
import type { RunEvent } from 'tandem-rl'
import type { EvaluationRecord, StepRecord, TrajectoryRecord } from 'tandem-rl/run'
import { phaseSpans } from './phases.js'
import type { SampleText, SettingValue, TrackedEvent } from './sink.js'

/** The session of an event. */
export interface TrackedSession {
  /** Display name of the run. */
  readonly run: string
  readonly isResumed: boolean
  /** Time of the event: milliseconds since 1970. */
  readonly at: number
  /** Time at which the run continued after its last event. Default: `at`. */
  readonly since?: number
}

/** Fields of a step record about training. The others are about sampling. */
const LEARNED: ReadonlySet<string> = new Set<keyof StepRecord>([
  'learningRate',
  'klCoefficient',
  'completionKL',
  'correction',
])

type Named = Readonly<Record<string, number>>

/** Lists the numbers of nested records with their paths. Lists are skipped. */
const numbersOf = (record: object): readonly (readonly [name: string, value: number])[] =>
  Object.entries(record).flatMap(([name, value]: readonly [string, unknown]) => {
    if (typeof value === 'number') return [[name, value] as const]
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
    return numbersOf(value).map(([inner, number]) => [`${name}/${inner}`, number] as const)
  })

/** Names the numbers of a record, except the step, by group. */
const namedBy = (record: object, groupOf: (name: string) => string): Named =>
  Object.fromEntries(
    numbersOf(record)
      .filter(([name]) => name !== 'step')
      .map(([name, value]) => [`${groupOf(name.split('/', 1).join())}/${name}`, value]),
  )

/** Returns the numbers of a step by name. */
const stepValues = ({ seconds: _, update, updates: __, parts, metrics, memory, ...record }: StepRecord): Named => ({
  ...namedBy({ ...record, ...parts }, (name) => (LEARNED.has(name) ? 'train' : 'rollout')),
  ...namedBy(update, () => 'train'),
  ...namedBy(metrics, () => 'metrics'),
  ...namedBy(memory, () => 'memory'),
})

/** Returns the numbers of an evaluation by name. */
const evaluationValues = ({ name, tasks, scores }: EvaluationRecord): Named =>
  namedBy({ tasks, ...scores }, () => `eval/${name}`)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Flattens settings to dotted paths. Lists become JSON. */
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

/** Makes the `scalars` event of a step or an evaluation. */
const scalars = (step: number, values: Named, seconds: Named, session: TrackedSession): TrackedEvent => ({
  type: 'scalars',
  at: session.at,
  step,
  values,
  seconds,
  spans: phaseSpans(seconds, session),
})

/** Formats query, completion and reward. */
const sampleText = ({ query, tokens, answer, reward }: TrajectoryRecord, i: number): SampleText => ({
  name: String(i),
  text: [query, tokens.join(''), `${answer === null ? '' : `answer ${answer}, `}reward ${reward}`].join('\n\n'),
})

/**
 * Converts an event of a run to tracker events. Evaluation progress gives none.
 *
 * Every number of a step record is a scalar: under `rollout/` for sampling, `train/` for the
 * update, `memory/` for the process, and `metrics/` for custom metrics. Scores of an evaluator are
 * under `eval/NAME/`. Numbers of nested records have paths, such as `rollout/sampling/tokens`. Null
 * values are omitted. Settings have dotted paths.
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
          type: 'saved',
          at,
          step: event.step,
          what: 'checkpoint',
          path: event.path,
          spans: [{ name: 'checkpoint', from: Math.min(since, at), to: at }],
        },
      ]
    case 'end':
      return [{ type: 'end', at, step: event.summary.steps, status: event.summary.status }]
    case 'calibration':
    case 'evaluating':
    case 'warning':
      return []
  }
}
