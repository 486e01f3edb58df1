import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ABORTED, cancellation, unlessAborted, untilAborted } from '../src/cancellation.js'
import { limiter } from '../src/limiter.js'

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((go) => setImmediate(go))
}

/** A task that runs until it is stopped. */
const job = () => {
  let end = (): void => {}
  const done = new Promise<void>((resolve) => {
    end = resolve
  })
  return { done, end }
}

describe('a limiter', () => {
  it('never has more running than places, runs in order, and runs everything that nobody called off', async () => {
    const steps = fc.array(fc.constantFrom('ask', 'end', 'abort'), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 4 }), steps, async (limit, actions) => {
        const places = limiter(limit)
        const jobs: { readonly end: () => void; readonly abort: () => void; readonly result: Promise<unknown> }[] = []
        const begun: number[] = []
        let running = 0
        const ask = (): void => {
          const [{ done, end }, controller, nth] = [job(), new AbortController(), jobs.length]
          const result = places.run(async () => {
            begun.push(nth)
            expect(++running).toBeLessThanOrEqual(limit)
            await done
            running--
          }, controller.signal)
          jobs.push({ end, abort: () => controller.abort(), result })
        }
        for (const action of actions) {
          if (action === 'ask') ask()
          if (action === 'end') jobs[begun.at(-1) ?? 0]?.end()
          if (action === 'abort') jobs.at(-1)?.abort()
          await Promise.resolve()
        }
        for (const { end } of jobs) end()
        const results = await Promise.all(jobs.map(({ result }) => result))
        expect(begun).toEqual([...begun].sort((a, b) => a - b))
        expect(results.filter((result) => result !== ABORTED)).toHaveLength(begun.length)
        expect(places.active()).toBe(0)
      }),
    )
  })

  it('gives a place back when its work rejects, and refuses a limit that is none', async () => {
    const places = limiter(1)
    const { signal } = new AbortController()
    await expect(places.run(() => Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
    expect(places.active()).toBe(0)
    expect(() => limiter(0)).toThrow('at least 1, got 0')
  })
})

describe('work that can be called off', () => {
  it('ends for the first reason, with all of its parts', () => {
    const caller = new AbortController()
    const work = cancellation({ signal: caller.signal, deadlineMs: 60_000 })
    const parts = [work.part(), work.part()]
    parts[1]!.release()
    expect(work.why()).toBeNull()
    caller.abort()
    work.stop()
    expect([work.why(), work.signal.aborted, parts[0]!.signal.aborted, parts[1]!.signal.aborted]).toEqual([
      ...['caller', true, true, false],
    ])
    expect(work.part().signal.aborted).toBe(true)
    work.release()
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(cancellation({ signal: AbortSignal.abort() }).why()).toBe('caller')
  })

  it('waits for a promise or the signal, and reads a stream until it ends or hangs too long', async () => {
    const controller = new AbortController()
    expect(await unlessAborted(Promise.resolve(1), controller.signal)).toBe(1)
    let left = 0
    async function* items() {
      try {
        yield 1
        yield 2
        await new Promise(() => {})
      } finally {
        left++
      }
    }
    const read: number[] = []
    const reading = (async () => {
      for await (const item of untilAborted(items(), controller.signal)) read.push(item)
    })()
    await turns(3)
    controller.abort()
    await reading
    expect(read).toEqual([1, 2])
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    expect(await unlessAborted(new Promise(() => {}), controller.signal)).toBe(ABORTED)
    const fresh = new AbortController().signal
    for await (const item of untilAborted(items(), fresh)) if (item === 2) break
    expect(left).toBe(1)
  })
})
