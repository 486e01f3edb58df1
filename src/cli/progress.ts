/** Progress displays of a run: a bar on a terminal, lines otherwise, JSON with `--json`. */
import { countOf, visibleText } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import cliProgress from 'cli-progress'
import {
  alarmText,
  describeEvent,
  evaluationText,
  sampleText,
  successText,
  tokensPerSecond,
} from '../run/train/describeEvent.js'
import type { RunEvent } from '../run/train/events.js'
import { type Reminder, type ReminderWorld, reminder } from './reminder.js'

/** Shows events as they arrive. `close` restores the terminal. */
export interface Display {
  readonly show: (event: RunEvent) => void
  readonly close: () => void
}

/** Prints every event as a line of JSON. */
export const jsonDisplay = (write: (line: string) => void): Display => ({
  show: (event) => write(`${JSON.stringify(event)}\n`),
  close: () => undefined,
})

/** Returns the work that follows an event, or `undefined` after the last one. */
const workAfter = (event: RunEvent): string | undefined => {
  switch (event.type) {
    case 'start':
      return `before step ${event.firstStep}`
    case 'step':
    case 'evaluation':
    case 'checkpoint':
      return `after step ${event.step}`
    case 'evaluating':
      return `evaluating ${event.name}, ${event.done}/${event.tasks}`
    case 'end':
      return undefined
    default:
      return 'in the run'
  }
}

const remindOf = (event: RunEvent, { begin, stop }: Reminder): void => {
  const work = workAfter(event)
  if (work === undefined) stop()
  else begin(work)
}

/**
 * Prints a line per event, except samples and evaluation progress, and one for every minute without
 * a line.
 */
export const lineDisplay = (write: (line: string) => void, world?: ReminderWorld): Display => {
  const waiting = reminder(60_000, (work, seconds) => write(`${work}: ${seconds} s so far\n`), world)
  return {
    show: (event) => {
      if (event.type !== 'samples' && event.type !== 'evaluating') write(`${describeEvent(event)}\n`)
      remindOf(event, waiting)
    },
    close: waiting.stop,
  }
}

/**
 * Shows a progress bar with reward, success, speed and remaining time. Other events print above it.
 */
export const barDisplay = (stream: NodeJS.WriteStream): Display => {
  const waiting = reminder(10_000, (work, seconds) => bar.update({ note: `${work}: ${seconds} s so far | ` }))
  const bar = new cliProgress.SingleBar({
    stream,
    hideCursor: true,
    clearOnComplete: false,
    etaBuffer: 10,
    format: '{bar} {value}/{total} | reward {reward} | success {success} | {speed} tokens/s | {note}{left}',
  })
  let isRunning = false
  let begun = { step: 0, ms: 0 }
  const leftAfter = (step: number): string => {
    const seconds = ((liveClock.now() - begun.ms) / 1000 / (step - begun.step)) * (bar.getTotal() - step)
    return `${seconds < 60 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`} left`
  }
  const above = (line: string, color: 'plain' | 'yellow' = 'plain'): void => {
    const [begin, end] = color === 'yellow' ? ['\u001b[33m', '\u001b[39m'] : ['', '']
    stream.write(`\r\u001b[K${begin}${visibleText(line)}${end}\n`) // the bar is then redrawn below
    if (isRunning) bar.render()
  }
  return {
    show: (event) => {
      remindOf(event, waiting)
      switch (event.type) {
        case 'start':
          bar.start(event.steps, event.firstStep - 1, { reward: '-', success: '-', speed: '-', note: '', left: '' })
          begun = { step: event.firstStep - 1, ms: liveClock.now() }
          isRunning = true
          return
        case 'evaluating':
          bar.update({ note: event.done < event.tasks ? `evaluating ${event.done}/${event.tasks} | ` : '' })
          return
        case 'step':
          bar.update(event.step, {
            reward: event.reward?.toFixed(3) ?? '-',
            success: successText(event),
            speed: tokensPerSecond(event),
            note: '',
            left: leftAfter(event.step),
          })
          return
        case 'samples':
          if (event.step % 10 === 1) above(`step ${event.step} sample: ${sampleText(event)}`)
          return
        case 'alarm':
          above(alarmText(event), 'yellow')
          return
        case 'evaluation':
          above(`after ${countOf(event.step, 'step')}: ${evaluationText(event)}`)
          return
        case 'warning':
          above(describeEvent(event), 'yellow')
          return
        case 'calibration':
        case 'checkpoint':
          return
        case 'end':
          bar.stop()
          isRunning = false
          return
      }
    },
    close: () => {
      waiting.stop()
      if (isRunning) bar.stop()
      isRunning = false
    },
  }
}
