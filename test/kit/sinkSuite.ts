/** The contract of every sink. */
import { makeTracker, type Sink, sinkFailure, type TrackedEvent } from '@tandem-rl/tracking'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { rightOf } from './results.js'

/**
 * The fault of one call to the place of a sink: nothing fails, all of it, or all after a part.
 */
type SinkTrouble = 'none' | 'fails' | 'half'

/** The place of one run's events. */
interface SinkPlace {
  /** A sink, as a process makes one. */
  readonly session: () => Promise<Sink>
  /** All that stands there. */
  readonly read: () => Promise<unknown>
  readonly close: () => Promise<void>
}

export interface SinkSubject {
  readonly name: string
  /**
   * A new place, which calls `trouble` before each write. A sink that writes to memory does not
   * call it.
   */
  readonly place: (trouble: () => SinkTrouble) => Promise<SinkPlace>
  /**
   * For places that outlast a process: what is said there of steps, so that a reader who knows of
   * sessions sees one run. Null for a sink that is of its process alone.
   */
  readonly steps: ((place: SinkPlace) => Promise<unknown>) | null
}

/** The events of a step. */
interface Drawn {
  readonly alarm: boolean
  readonly saved: boolean
  readonly sample: boolean
  readonly evaluated: boolean
  readonly loss: number
}

const numbers: fc.Arbitrary<Drawn> = fc.record({
  alarm: fc.boolean(),
  saved: fc.boolean(),
  sample: fc.boolean(),
  evaluated: fc.boolean(),
  loss: fc.integer({ min: -64, max: 64 }).map((n) => n / 8),
})

const at = (step: number): number => 1_795_000_000_000 + 1000 * step

const start = (from: number): TrackedEvent => ({
  type: 'start',
  at: at(from),
  run: 'first',
  from,
  settings: { seed: 1 },
})

/** The events that a run emits for a step. */
const stepEvents = (step: number, drawn: Drawn): readonly TrackedEvent[] => {
  const place = { at: at(step), step }
  const values = { 'train/loss': drawn.loss, 'train/tokens': 8 * step }
  return [
    { type: 'scalars', ...place, values, seconds: { generation: 0.5, training: 0.25 } },
    ...(drawn.alarm ? [{ type: 'alarm', ...place, name: 'truncation', text: `cut in ${step}` } as const] : []),
    ...(drawn.sample ? [{ type: 'samples', ...place, samples: [{ name: '0', text: `text ${step}` }] } as const] : []),
    ...(drawn.evaluated
      ? [{ type: 'scalars', ...place, values: { 'eval/accuracy': step / 64 }, seconds: { evaluation: 1 } } as const]
      : []),
    ...(drawn.saved ? [{ type: 'saved', ...place, what: 'checkpoint', path: `step-${step}` } as const] : []),
  ]
}

type Steps = readonly Drawn[]

const anySteps: fc.Arbitrary<Steps> = fc.array(numbers, { minLength: 1, maxLength: 6 })

/** Events of steps from `from` on, up to the last. */
const eventsFrom = (from: number, steps: Steps): readonly TrackedEvent[] =>
  steps.flatMap((drawn, i) => (i + 1 >= from ? stepEvents(i + 1, drawn) : []))

/** Mostly none: what comes late in a write is to be troubled, too. */
const anyTrouble = fc.array(fc.constantFrom<SinkTrouble>('none', 'none', 'none', 'none', 'fails', 'half'), {
  maxLength: 16,
})

const planned = (plan: readonly SinkTrouble[]): (() => SinkTrouble) => {
  let next = 0
  return () => plan[next++] ?? 'none'
}

/** Never takes anything. */
const dead: Sink = {
  name: 'dead',
  write: () => TE.left(sinkFailure('dead', 'later', { _tag: 'Trouble', reason: 'no' })),
  close: TE.left(sinkFailure('dead', 'never', { _tag: 'Trouble', reason: 'no' })),
}

const throwing: Sink = {
  name: 'throwing',
  write: () => {
    throw new Error('it broke')
  },
  close: TE.right(undefined),
}

/** Uses a place and closes it. */
const within = async <T>(subject: SinkSubject, plan: readonly SinkTrouble[], use: (place: SinkPlace) => Promise<T>) => {
  const place = await subject.place(planned(plan))
  try {
    return await use(place)
  } finally {
    await place.close()
  }
}

/** What stands in a new place after one write of everything, with nothing in its way. */
const allAtOnce = (subject: SinkSubject, events: readonly TrackedEvent[]): Promise<unknown> =>
  within(subject, [], async (place) => {
    const sink = await place.session()
    await rightOf(sink.write(events))
    await rightOf(sink.close)
    return place.read()
  })

export const sinkSuite = (subject: SinkSubject, runs: number): void => {
  describe(subject.name, () => {
    it('has each event once and in order, however events, writes and troubles come, and whatever other sinks do', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.scheduler(),
          anySteps,
          anyTrouble,
          fc.array(fc.nat({ max: 5 })),
          async (scheduler, steps, plan, cuts) => {
            const events: readonly TrackedEvent[] = [
              start(0),
              ...eventsFrom(1, steps),
              { type: 'end', at: at(steps.length), step: steps.length, status: 'finished' },
            ]
            const found = await within(subject, plan, async (place) => {
              const sink = await place.session()
              const slow: Sink = {
                ...sink,
                write: (given) => async () => {
                  await scheduler.schedule(Promise.resolve(), 'write')
                  return sink.write(given)()
                },
              }
              const tracker = makeTracker([dead, slow, throwing])
              const tell = async (): Promise<void> => {
                let next = 0
                for (const size of [...cuts, events.length]) {
                  await scheduler.schedule(Promise.resolve(), 'track')
                  tracker.track(events.slice(next, next + size))
                  next += size
                }
                const waits = (): boolean => tracker.reports()[1]!.waiting > 0
                for (let flushes = 0; flushes === 0 || (waits() && flushes <= plan.length); flushes++)
                  await tracker.flush()
              }
              await scheduler.waitFor(tell())
              const [, report] = await scheduler.waitFor(tracker.close())
              expect(report).toMatchObject({ written: events.length, waiting: 0, dropped: 0 })
              return place.read()
            })
            expect(found).toEqual(await allAtOnce(subject, events))
          },
        ),
        { numRuns: runs },
      )
    })

    it('is closed twice as once, also if nothing was written, and has what was written then', async () => {
      await within(subject, [], async (place) => {
        const unused = await place.session()
        await rightOf(unused.close)
        await rightOf(unused.close)
        const sink = await place.session()
        await rightOf(sink.write([]))
        await rightOf(
          sink.write([
            start(0),
            ...eventsFrom(1, [{ alarm: true, saved: true, sample: true, evaluated: true, loss: 1 }]),
          ]),
        )
        await rightOf(sink.close)
        const before = await place.read()
        expect(E.isRight(await sink.close())).toBe(true)
        expect(await place.read()).toEqual(before)
      })
    })

    const { steps: readSteps } = subject
    if (readSteps !== null) {
      it('has each step once, from the last session, when a killed run resumes from any step', async () => {
        await fc.assert(
          fc.asyncProperty(anySteps, fc.array(fc.nat()), anyTrouble, async (steps, draws, plan) => {
            // Each session reports the steps from its first one to its end; the next one begins at
            // the following step or earlier.
            const sessions: (readonly [from: number, to: number])[] = []
            for (const draw of draws.slice(0, 3)) {
              const from = 1 + (sessions.length === 0 ? 0 : draw % (sessions.at(-1)![1] + 1))
              sessions.push([from, from - 1 + (draw % (steps.length - from + 2))])
            }
            const last = 1 + ((sessions.at(-1)?.[1] ?? 0) >> 1)
            const found = await within(subject, plan, async (place) => {
              for (const [i, [from, to]] of [...sessions, [last, steps.length] as const].entries()) {
                const sink = await place.session()
                const told = [start(i === 0 ? 0 : from), ...eventsFrom(from, steps.slice(0, to))]
                for (let tries = 0; E.isLeft(await sink.write(told)()); tries++)
                  expect(tries).toBeLessThanOrEqual(plan.length)
              }
              return readSteps(place)
            })
            const whole = await within(subject, [], async (place) => {
              const sink = await place.session()
              await rightOf(sink.write([start(0), ...eventsFrom(1, steps)]))
              return readSteps(place)
            })
            expect(found).toEqual(whole)
          }),
          { numRuns: runs },
        )
      })
    }
  })
}
