/** What a person sees of a run: a bar on a terminal, lines elsewhere, JSON where it is asked for. */
import cliProgress from 'cli-progress'
import type { RunEvent } from '../training/events.js'
import { type EvaluationRecord, type StepRecord, scoreText } from '../training/records.js'

/** Shows events as they come. `close` leaves the terminal as it was. */
export interface Display {
  readonly show: (event: RunEvent) => void
  readonly close: () => void
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const tokensPerSecond = ({ seconds, update }: StepRecord): string => {
  const total = seconds.generation + seconds.environment + seconds.training + seconds.weightSync
  return ((update.tokens ?? 0) / Math.max(total, 1e-9)).toFixed(0)
}

const success = ({ parts }: StepRecord): string => (parts.success === undefined ? '-' : percent(parts.success))

const evaluationText = ({ name, scores, score, measure }: EvaluationRecord): string =>
  `${name}: ${score} ${scoreText(measure, scores[score] ?? Number.NaN)}`

/** Reward and success of a step that has any. */
const rewardText = (record: StepRecord): string =>
  record.reward === undefined ? '' : `reward ${record.reward.toFixed(3)}  success ${success(record)}  `

const alarmText = ({ step, message, path }: Extract<RunEvent, { readonly type: 'alarm' }>): string =>
  `alarm in step ${step}: ${message}${path === null ? '' : ` (the batch is in ${path})`}`

/** The first sample of a step, in one line. */
const sampleText = ({ samples }: Extract<RunEvent, { readonly type: 'samples' }>): string => {
  const [first] = samples
  return first === undefined ? '' : JSON.stringify(first.tokens.join('').slice(0, 160))
}

/** One JSON object a line, every event. */
export const jsonDisplay = (write: (line: string) => void): Display => ({
  show: (event) => write(`${JSON.stringify(event)}\n`),
  close: () => undefined,
})

/** A line for each event. */
export const lineDisplay = (write: (line: string) => void): Display => {
  let steps = 0
  return {
    show: (event) => {
      switch (event.type) {
        case 'start':
          steps = event.steps
          write(event.firstStep > steps ? `all ${steps} steps are done\n` : `steps ${event.firstStep} to ${steps}\n`)
          return
        case 'step':
          write(
            `step ${event.step}/${steps}  ${rewardText(event)}loss ${event.update.loss.toFixed(4)}  ${tokensPerSecond(event)} tokens/s\n`,
          )
          return
        case 'alarm':
          write(`${alarmText(event)}\n`)
          return
        case 'evaluation':
          write(`after ${event.step} steps  ${evaluationText(event)}\n`)
          return
        case 'checkpoint':
          write(`saved ${event.path}\n`)
          return
        case 'samples':
        case 'evaluating':
        case 'end':
          return
      }
    },
    close: () => undefined,
  }
}

/** A progress bar with reward, success, speed and time left; evaluations and samples as lines above it. */
export const barDisplay = (stream: NodeJS.WriteStream): Display => {
  const bar = new cliProgress.SingleBar({
    stream,
    hideCursor: true,
    clearOnComplete: false,
    etaBuffer: 10,
    format:
      '{bar} {value}/{total} | reward {reward} | success {success} | {speed} tokens/s | {note}{eta_formatted} left',
  })
  let isRunning = false
  const above = (line: string): void => {
    stream.write(`\r\u001b[K${line}\n`) // the bar draws itself again below
    if (isRunning) bar.render()
  }
  return {
    show: (event) => {
      switch (event.type) {
        case 'start':
          bar.start(event.steps, event.firstStep - 1, { reward: '-', success: '-', speed: '-', note: '' })
          isRunning = true
          return
        case 'evaluating':
          bar.update({ note: event.done < event.tasks ? `evaluating ${event.done}/${event.tasks} | ` : '' })
          return
        case 'step':
          bar.update(event.step, {
            ...{
              reward: event.reward?.toFixed(3) ?? '-',
              success: success(event),
              speed: tokensPerSecond(event),
              note: '',
            },
          })
          return
        case 'samples':
          if (event.step % 10 === 1) above(`step ${event.step} sample: ${sampleText(event)}`)
          return
        case 'alarm':
          above(`\u001b[33m${alarmText(event)}\u001b[39m`) // yellow
          return
        case 'evaluation':
          above(`after ${String(event.step).padStart(3)} steps: ${evaluationText(event)}`)
          return
        case 'checkpoint':
          return
        case 'end':
          bar.stop()
          isRunning = false
          return
      }
    },
    close: () => {
      if (isRunning) bar.stop()
      isRunning = false
    },
  }
}
