/** The displays of a run: reminders while nothing happens, and no time left before it is known. */
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { barDisplay, lineDisplay } from '../../src/cli/progress.js'
import { reminder } from '../../src/cli/reminder.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { manualTime, settle } from '../kit/manualTime.js'
import { stepRecord } from '../kit/records.js'

const START: RunEvent = { type: 'start', firstStep: 1, steps: 3, settings: {} }
const evaluating = (done: number): RunEvent => ({ type: 'evaluating', name: 'held out', step: 0, done, tasks: 40 })

const worldOf = () => {
  const time = manualTime()
  return { time, world: { clock: { now: time.now, breathe: async () => undefined }, timers: time } }
}

/** Passes time minute by minute, since each reminder arms the next. */
const minutes = (time: ReturnType<typeof manualTime>, count: number): void => {
  for (let minute = 0; minute < count; minute++) time.pass(60_000)
}

describe('the lines of a run', () => {
  it('have one for every minute without a line, with the work in progress', () => {
    const { time, world } = worldOf()
    const lines: string[] = []
    const display = lineDisplay((line) => lines.push(line.trim()), world)
    display.show(START)
    minutes(time, 2)
    display.show(evaluating(8))
    minutes(time, 1)
    display.show({ ...stepRecord(1) })
    minutes(time, 1)
    display.close()
    minutes(time, 5)
    expect(lines.filter((line) => line.endsWith('so far'))).toEqual([
      'before step 1: 60 s so far',
      'before step 1: 120 s so far',
      'evaluating held out, 8/40: 60 s so far',
      'after step 1: 60 s so far',
    ])
  })
})

describe('a reminder', () => {
  it('counts from the beginning of the work, however often it is named', () => {
    const { time, world } = worldOf()
    const seen: string[] = []
    const waiting = reminder(60_000, (work, seconds) => seen.push(`${work} ${seconds}`), world)
    waiting.begin('a')
    minutes(time, 1)
    waiting.begin('a')
    minutes(time, 1)
    waiting.begin('b')
    minutes(time, 1)
    waiting.stop()
    expect(seen).toEqual(['a 60', 'a 120', 'b 60'])
  })
})

describe('the bar of a run', () => {
  it('has no time left before the first step', async () => {
    let text = ''
    const stream = Object.assign(new PassThrough(), {
      isTTY: true,
      columns: 200,
      cursorTo: () => true,
      clearLine: () => true,
    })
    stream.on('data', (piece: Buffer) => {
      text += piece.toString()
    })
    const display = barDisplay(stream as unknown as NodeJS.WriteStream) // the bar uses these fields
    display.show(START)
    display.show(evaluating(8))
    await settle()
    expect(text).not.toContain('left')
    display.show(stepRecord(1))
    display.close()
    await settle()
    expect(text).toContain(' s left')
  })
})
