/** What a person sees of a run: a bar on a terminal, lines elsewhere, JSON when asked. */
import cliProgress from 'cli-progress'
import type { RunEvent } from '../run/events.js'
import type { StepRecord } from '../run/records.js'

/** Shows events as they come. `close` leaves the terminal as it was. */
export interface Display {
  readonly show: (event: RunEvent) => void
  readonly close: () => void
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

/** Tokens sampled per second of the whole step. */
const speed = ({ completionTokens, seconds, tokens }: StepRecord): string => {
  const total = seconds.generation + seconds.environment + seconds.training + seconds.weightSync
  return (tokens / Math.max(total, 1e-9)).toFixed(completionTokens > 0 ? 0 : 1)
}

const stepText = (record: StepRecord): Readonly<Record<string, string>> => ({
  reward: record.reward.toFixed(3),
  accuracy: percent(record.accuracy),
  kl: record.klToRef === null ? '-' : record.klToRef.toFixed(4),
  speed: speed(record),
})

/** How many numbers the model has, and how many of them are trained if that is another number. */
const counted = ({ parameters, trained }: { readonly parameters: number; readonly trained: number }): string => {
  const text = (n: number): string => n.toLocaleString('en-US')
  return trained === parameters
    ? `${text(parameters)} parameters`
    : `${text(parameters)} parameters and ${text(trained)} trained`
}

/** What is wrong since when, and where the batch is. */
const alarmText = ({ step, message, path }: Extract<RunEvent, { readonly type: 'alarm' }>): string =>
  `alarm in step ${step}: ${message}${path === null ? '' : ` (the batch is in ${path})`}`

/** One JSON object a line, every event. */
export const jsonDisplay = (write: (line: string) => void): Display => ({
  show: (event) => write(`${JSON.stringify(event)}\n`),
  close: () => undefined,
})

/** One line for each step and evaluation: for logs. */
export const lineDisplay = (write: (line: string) => void): Display => {
  let steps = 0
  return {
    show: (event) => {
      switch (event.type) {
        case 'start':
          steps = event.settings.steps
          write(`${counted(event)}, steps ${event.firstStep} to ${steps}\n`)
          return
        case 'step': {
          const { reward, accuracy, kl, speed } = stepText(event)
          write(`step ${event.step}/${steps}  reward ${reward}  accuracy ${accuracy}  KL ${kl}  ${speed} tokens/s\n`)
          return
        }
        case 'alarm':
          write(`${alarmText(event)}\n`)
          return
        case 'evaluation':
          write(
            `held-out problems after ${event.step} steps: ${percent(event.accuracy)} right, ${percent(event.worked)} worked out\n`,
          )
          return
        case 'checkpoint':
        case 'export':
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

/** A progress bar with reward, accuracy, KL, speed and time left; evaluations as lines above it. */
export const barDisplay = (stream: NodeJS.WriteStream): Display => {
  const bar = new cliProgress.SingleBar({
    stream,
    hideCursor: true,
    clearOnComplete: false,
    etaBuffer: 10,
    format:
      '{bar} {value}/{total} | reward {reward} | accuracy {accuracy} | KL {kl} | {speed} tokens/s | {note}{eta_formatted} left',
  })
  const blank = { reward: '-', accuracy: '-', kl: '-', speed: '-', note: '' }
  let isRunning = false
  const above = (line: string): void => {
    stream.write(`\r\u001b[K${line}\n`) // the bar draws itself again below
    if (isRunning) bar.render()
  }
  return {
    show: (event) => {
      switch (event.type) {
        case 'start':
          bar.start(event.settings.steps, event.firstStep - 1, blank)
          isRunning = true
          return
        case 'evaluating':
          bar.update({ note: event.done < event.problems ? `evaluating ${event.done}/${event.problems} | ` : '' })
          return
        case 'step':
          bar.update(event.step, { ...stepText(event), note: '' })
          return
        case 'alarm':
          above(`\u001b[33m${alarmText(event)}\u001b[39m`) // yellow
          return
        case 'evaluation':
          above(
            `after ${String(event.step).padStart(3)} steps: ${percent(event.accuracy)} of held-out problems right, ${percent(event.worked)} worked out`,
          )
          return
        case 'samples':
        case 'checkpoint':
        case 'export':
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
