/** Formats the events of a run as lines of text. */
import { countOf } from '@tandem-rl/base'
import { candidateText } from '../metrics/calibration.js'
import { type EvaluationRecord, type StepRecord, scoreText } from '../metrics/records.js'
import type { RunEvent } from './events.js'

/** Returns the trained tokens per second of a step. */
export const tokensPerSecond = ({ seconds, update }: StepRecord): string => {
  const total = Object.values(seconds).reduce((sum: number, each: number) => sum + each, 0)
  return ((update.tokens ?? 0) / Math.max(total, 1e-9)).toFixed(0)
}

/** Returns the success rate as text, or `-` if the environment reports none. */
export const successText = ({ parts }: StepRecord): string =>
  parts.success === undefined ? '-' : scoreText('success', parts.success)

/** Returns reward and success as text, or an empty text for a step without rewards. */
const rewardText = (record: StepRecord): string =>
  record.reward === undefined ? '' : `reward ${record.reward.toFixed(3)}  success ${successText(record)}  `

/** The share of truncated completions from which on a step mentions it. */
const MANY_TRUNCATED = 0.25

/** Describes a step: its reward, loss and speed, and the truncated completions if they are many. */
const stepText = (record: StepRecord): string => {
  const { step, update, truncated = 0 } = record
  const speed = update.tokens === undefined ? [] : [`${tokensPerSecond(record)} tokens/s`]
  const cut = truncated >= MANY_TRUNCATED ? [`truncated ${scoreText('success', truncated)}`] : []
  return [`step ${step}`, `${rewardText(record)}loss ${update.loss.toFixed(4)}`, ...speed, ...cut].join('  ')
}

export const evaluationText = ({ name, scores, score, measure }: EvaluationRecord): string =>
  `${name}: ${score} ${scoreText(measure, scores[score] ?? Number.NaN)}`

export const alarmText = ({ step, message, path }: Extract<RunEvent, { readonly type: 'alarm' }>): string =>
  `alarm in step ${step}: ${message}${path === null ? '' : ` (the batch is in ${path})`}`

/** Returns the first sample of a step, in one line. */
export const sampleText = ({ samples }: Extract<RunEvent, { readonly type: 'samples' }>): string => {
  const [first] = samples
  return first === undefined ? '' : JSON.stringify(first.tokens.join('').slice(0, 160))
}

/**
 * Formats an event of a run as one line.
 *
 * @example
 * describeEvent({ type: 'checkpoint', step: 2, path: 'runs/first/checkpoints/step-000002' }) // 'saved runs/first/checkpoints/step-000002'
 */
export const describeEvent = (event: RunEvent): string => {
  switch (event.type) {
    case 'start':
      return event.firstStep > event.steps
        ? event.steps === 1
          ? 'the only step is done'
          : `all ${event.steps} steps are done`
        : `steps ${event.firstStep} to ${event.steps}`
    case 'calibration':
      return `calibrated: ${candidateText(event.chosen)}`
    case 'step':
      return stepText(event)
    case 'alarm':
      return alarmText(event)
    case 'evaluation':
      return `after ${countOf(event.step, 'step')}  ${evaluationText(event)}`
    case 'checkpoint':
      return `saved ${event.path}`
    case 'end':
      return `${event.summary.status} after ${countOf(event.summary.steps, 'step')}`
    case 'warning':
      return `warning: ${event.message}`
    case 'samples':
      return `sample of step ${event.step}: ${sampleText(event)}`
    case 'evaluating':
      return `${event.name}: ${event.done} of ${countOf(event.tasks, 'task')}`
  }
}
