import type { Timers } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { nothingToClose, type Sink, sinkFailure, type TrackedEvent } from '../src/sink.js'
import { makeTracker, type SinkReport } from '../src/tracker.js'

const event = (step: number): TrackedEvent => ({ type: 'scalars', at: step, step, values: { x: step }, seconds: {} })
const events = (count: number, first = 0): readonly TrackedEvent[] =>
  Array.from({ length: count }, (_, i) => event(first + i))

type Behavior = 'takes' | 'later' | 'never' | 'throws' | 'rejects'

const TROUBLE = { _tag: 'Trouble', reason: 'no' }

/** A sink with a scripted result for each write that records what it accepted. */
const plannedSink = (
  name: string,
  plan: readonly Behavior[],
  turn: (name: string) => Promise<unknown> = () => Promise.resolve(),
) => {
  const taken: TrackedEvent[] = []
  const calls = { writes: 0, underway: 0, most: 0, closed: 0 }
  const sink: Sink = {
    name,
    write: (given) => {
      const behavior = plan[calls.writes++] ?? 'takes'
      if (behavior === 'throws') throw new Error('it broke')
      return async () => {
        calls.most = Math.max(calls.most, ++calls.underway)
        await turn(name)
        calls.underway--
        if (behavior === 'rejects') throw new Error('it broke')
        if (behavior !== 'takes') return E.left(sinkFailure(name, behavior, TROUBLE))
        taken.push(...given)
        return E.right(undefined)
      }
    },
    close: async () => {
      calls.closed++
      return E.right(undefined)
    },
  }
  return { sink, taken, calls }
}

const total = ({ written, dropped, waiting }: SinkReport): number => written + dropped + waiting

/** Timers that fire all at once when a test does so. */
const handAlarms = () => {
  let set: (() => void)[] = []
  const timers: Timers = {
    after: (_, ring) => {
      set = [...set, ring]
      return () => {
        set = set.filter((each) => each !== ring)
      }
    },
  }
  return {
    timers,
    set: () => set.length,
    ring: () => {
      const due = set
      set = []
      for (const ring of due) ring()
    },
  }
}

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((go) => setImmediate(go))
}

const behaviors = fc.array(fc.constantFrom<Behavior>('takes', 'later', 'never', 'throws', 'rejects'), { maxLength: 6 })

describe('makeTracker', () => {
  it('gives every event to every healthy sink once and in order, whatever the others do and in whatever order writes end', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(behaviors, { maxLength: 3 }),
        fc.array(fc.nat({ max: 4 }), { maxLength: 8 }),
        async (scheduler, plans, parts) => {
          const turn = (name: string): Promise<unknown> => scheduler.schedule(Promise.resolve(), name)
          const sick = plans.map((plan, i) => plannedSink(`sick ${i}`, plan, turn))
          const healthy = [plannedSink('first', [], turn), plannedSink('second', [], turn)]
          const sinks = [healthy[0]!, ...sick, healthy[1]!]
          const tracker = makeTracker(sinks.map(({ sink }) => sink))
          const told = parts.reduce((sum, size) => sum + size, 0)
          const run = async (): Promise<readonly SinkReport[]> => {
            let next = 0
            for (const size of parts) {
              await scheduler.schedule(Promise.resolve(), 'track')
              tracker.track(events(size, next))
              next += size
            }
            return tracker.close()
          }
          const reports = await scheduler.waitFor(run())
          for (const { taken } of healthy) expect(taken).toEqual(events(told))
          for (const [i, { taken, calls }] of sinks.entries()) {
            const steps = taken.map((each) => ('step' in each ? each.step : -1))
            expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b))
            expect(calls.most).toBeLessThanOrEqual(1)
            expect(calls.closed).toBe(1)
            expect(reports[i]!.written).toBe(taken.length)
            expect(total(reports[i]!)).toBe(told)
          }
        },
      ),
      { numRuns: 200 },
    )
  })

  it('repeats the failed events of a sink with the next event, and reports its first failure alone', async () => {
    const flaky = plannedSink('flaky', ['later', 'later'])
    const told: string[] = []
    const tracker = makeTracker([flaky.sink], { onFailure: ({ sink, reason }) => told.push(`${sink}: ${reason}`) })
    tracker.track(events(2))
    await turns(2)
    expect(flaky.taken).toEqual([])
    tracker.track(events(1, 2))
    await turns(2)
    tracker.track(events(1, 3))
    await turns(2)
    expect(flaky.taken).toEqual(events(4))
    expect(told).toEqual(['flaky: flaky has not taken events'])
    expect(tracker.reports()[0]).toMatchObject({ written: 4, dropped: 0, waiting: 0, failures: 2 })
    await tracker.close()
  })

  it('tries once more when it is closed, and then counts what is left', async () => {
    const mends = plannedSink('mends', ['later'])
    const dead = plannedSink('dead', ['later', 'later', 'later', 'later'])
    const tracker = makeTracker([mends.sink, dead.sink])
    tracker.track(events(3))
    await turns(2)
    const [first, second] = await tracker.close()
    expect(first).toMatchObject({ written: 3, waiting: 0 })
    expect(second).toMatchObject({ written: 0, waiting: 3, failures: 2, lastFailure: { cause: TROUBLE } })
  })

  it('can be flushed at any time: pending events are retried, and it continues', async () => {
    const flaky = plannedSink('flaky', ['later'])
    const tracker = makeTracker([flaky.sink])
    tracker.track(events(2))
    expect(await tracker.flush()).toMatchObject([{ written: 2, waiting: 0, failures: 1 }])
    expect(await tracker.flush()).toMatchObject([{ written: 2, waiting: 0, failures: 1 }])
    tracker.track(events(1, 2))
    expect(await tracker.flush()).toMatchObject([{ written: 3, waiting: 0 }])
    expect(flaky.taken).toEqual(events(3))
    expect(flaky.calls).toMatchObject({ closed: 0, writes: 3 })
  })

  it('closes nothing twice', async () => {
    const sink = plannedSink('once', [])
    const tracker = makeTracker([sink.sink])
    tracker.track(events(2))
    const [first, second] = await Promise.all([tracker.close(), tracker.close()])
    expect(second).toEqual(first)
    expect(await tracker.close()).toEqual(first)
    expect(sink.calls.closed).toBe(1)
  })

  it('drops events beyond the limit, counts them, and keeps the first and the last of a session', async () => {
    const dead = plannedSink(
      'dead',
      Array.from({ length: 9 }, () => 'later'),
    )
    const tracker = makeTracker([dead.sink], { waiting: 3 })
    tracker.track([{ type: 'start', at: 0, run: 'r', from: 0, settings: {} }])
    for (let i = 0; i < 5; i++) tracker.track(events(1, i))
    tracker.track([{ type: 'end', at: 9, step: 5, status: 'finished' }])
    expect(tracker.reports()[0]).toMatchObject({ dropped: 3, waiting: 4 })
    await tracker.close()
  })

  it('continues without a sink that never answers', async () => {
    const clock = handAlarms()
    const hangs = plannedSink('hangs', [], () => new Promise(() => undefined))
    const works = plannedSink('works', [])
    const tracker = makeTracker([hangs.sink, works.sink], { timers: clock.timers })
    tracker.track(events(2))
    const closing = tracker.close()
    await turns(3)
    expect(works.taken).toEqual(events(2))
    clock.ring()
    const [first, second] = await closing
    expect(first).toMatchObject({ written: 0, waiting: 2 })
    expect(second).toMatchObject({ written: 2, waiting: 0 })
    expect(hangs.calls.closed).toBe(1)
    expect(clock.set()).toBe(0)
  })

  it('reports a sink that fails to close, and drops events that come afterwards', async () => {
    const stuck: Sink = {
      name: 'stuck',
      write: () => TE.right(undefined),
      close: TE.left(sinkFailure('stuck', 'never', TROUBLE)),
    }
    const tracker = makeTracker([stuck, { ...stuck, name: 'fine', close: nothingToClose }])
    expect(await tracker.close()).toMatchObject([{ failures: 1 }, { failures: 0 }])
    tracker.track(events(2))
    expect(tracker.reports()).toMatchObject([{ dropped: 2 }, { dropped: 2 }])
  })
})
