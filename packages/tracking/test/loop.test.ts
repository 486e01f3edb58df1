import { right } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { trackLoop } from '../src/loop.js'
import type { Sink, TrackedEvent } from '../src/sink.js'

/** A recording sink, and manual time. */
const world = () => {
  const taken: TrackedEvent[] = []
  let now = 0
  let closed = 0
  const sink: Sink = {
    name: 'kept',
    write: (events) => async () => {
      taken.push(...events)
      return right(undefined)
    },
    close: async () => {
      closed++
      return right(undefined)
    },
  }
  return {
    ...{ sink, taken },
    closed: () => closed,
    pass: (ms: number) => {
      now += ms
    },
    clock: { now: () => now + 7, breathe: async () => undefined }, // of another beginning than the calendar
    calendar: { today: () => new Date(1_000_000 + now) },
  }
}

describe('trackLoop', () => {
  it('emits the start, steps with their phases, the events between them, and the end', async () => {
    const { sink, taken, closed, pass, clock, calendar } = world()
    const loop = trackLoop([sink], { run: 'mine', settings: { seed: 1 }, clock, calendar })
    const drawn = await loop.phase('generation', async () => {
      pass(2000)
      return 5
    })
    expect(drawn).toBe(5)
    await loop.phase('training', () => pass(500))
    await loop.phase('training', () => pass(250))
    pass(100)
    loop.step(1, { loss: 0.5 })
    loop.tell({ type: 'alarm', step: 1, name: 'n', text: 't' })
    loop.step(2, { loss: 0.25 })
    const reports = await loop.end('finished')
    expect(await loop.end('failed')).toEqual(reports)
    expect(reports).toMatchObject([{ sink: 'kept', written: 5, dropped: 0, waiting: 0 }])
    expect(closed()).toBe(1)
    const at = 1_002_850
    expect(taken).toEqual([
      { type: 'start', at: 1_000_000, run: 'mine', from: 0, settings: { seed: 1 } },
      {
        ...{ type: 'scalars', at, step: 1, values: { loss: 0.5 }, seconds: { generation: 2, training: 0.75 } },
        spans: [
          { name: 'generation', from: 1_000_000, to: 1_002_000 },
          { name: 'training', from: 1_002_000, to: 1_002_500 },
          { name: 'training', from: 1_002_500, to: 1_002_750 },
        ],
      },
      { type: 'alarm', at, step: 1, name: 'n', text: 't' },
      { type: 'scalars', at, step: 2, values: { loss: 0.25 }, seconds: {}, spans: [] },
      { type: 'end', at, step: 2, status: 'finished' },
    ])
  })

  it('passes on what work throws, and still measures it', async () => {
    const { sink, taken, pass, clock, calendar } = world()
    const loop = trackLoop([sink], { run: 'mine', from: 9, clock, calendar })
    const broken = (): never => {
      pass(10)
      throw new Error('no')
    }
    await expect(loop.phase('generation', broken)).rejects.toThrow('no')
    loop.step(9, {})
    await loop.end('failed')
    expect(taken[0]).toMatchObject({ type: 'start', from: 9 })
    expect(taken[1]).toMatchObject({ type: 'scalars', seconds: { generation: 0.01 } })
    expect(taken[2]).toMatchObject({ type: 'end', step: 9, status: 'failed' })
  })
})
