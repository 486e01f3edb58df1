/** Progress displays of a run: a bar on a terminal, lines otherwise, JSON with `--json`. */
import cliProgress from 'cli-progress'
import { visibleText } from '../core/visibleText.js'
import {
  alarmText,
  describeEvent,
  evaluationText,
  sampleText,
  successText,
  tokensPerSecond,
} from '../run/describeEvent.js'
import type { RunEvent } from '../run/events.js'

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

/** Prints a line per event, except samples and evaluation progress. */
export const lineDisplay = (write: (line: string) => void): Display => ({
  show: (event) => {
    if (event.type !== 'samples' && event.type !== 'evaluating') write(`${describeEvent(event)}\n`)
  },
  close: () => undefined,
})

/**
 * Shows a progress bar with reward, success, speed and remaining time. Other events print above it.
 */
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
  const above = (line: string, color: 'plain' | 'yellow' = 'plain'): void => {
    const [begin, end] = color === 'yellow' ? ['\u001b[33m', '\u001b[39m'] : ['', '']
    stream.write(`\r\u001b[K${begin}${visibleText(line)}${end}\n`) // the bar is then redrawn below
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
              success: successText(event),
              speed: tokensPerSecond(event),
              note: '',
            },
          })
          return
        case 'samples':
          if (event.step % 10 === 1) above(`step ${event.step} sample: ${sampleText(event)}`)
          return
        case 'alarm':
          above(alarmText(event), 'yellow')
          return
        case 'evaluation':
          above(`after ${String(event.step).padStart(3)} steps: ${evaluationText(event)}`)
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
      if (isRunning) bar.stop()
      isRunning = false
    },
  }
}
