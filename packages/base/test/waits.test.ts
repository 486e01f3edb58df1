/** Waits with a limit: for a promise, and for time to pass. */
import { ABORTED, pauseFor, type Timers, unlessLate } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'

/** Timers that the test rings, and the number of those that are set. */
const manual = () => {
  const set = new Set<() => void>()
  const timers: Timers = {
    after: (_, ring) => {
      set.add(ring)
      return () => void set.delete(ring)
    },
  }
  return { timers, count: () => set.size, ring: () => [...set].forEach((ring) => ring()) }
}

const never = new Promise<string>(() => {})

describe('unlessLate', () => {
  it('returns the result and leaves no timer', async () => {
    const { timers, count } = manual()
    expect(await unlessLate(Promise.resolve('done'), 5, timers)).toBe('done')
    await Promise.resolve()
    expect(count()).toBe(0)
  })

  it('returns ABORTED after the limit, and ignores a later failure', async () => {
    const { timers, ring } = manual()
    let fail = (_: Error): void => {}
    const work = new Promise<string>((_, reject) => {
      fail = reject
    })
    const result = unlessLate(work, 5, timers)
    ring()
    expect(await result).toBe(ABORTED)
    fail(new Error('too late'))
  })

  it('rejects as the promise does, and sets no timer for an infinite limit', async () => {
    const { timers, count } = manual()
    await expect(unlessLate(Promise.reject(new Error('no')), 5, timers)).rejects.toThrow('no')
    void unlessLate(never, Number.POSITIVE_INFINITY, timers)
    await new Promise((resolve) => setImmediate(resolve))
    expect(count()).toBe(0)
  })
})

describe('pauseFor', () => {
  it('ends with its timer, or with the signal, whose timer it removes', async () => {
    const { timers, count, ring } = manual()
    const whole = pauseFor(5, timers)
    ring()
    await whole
    const controller = new AbortController()
    const cut = pauseFor(5, timers, controller.signal)
    expect(count()).toBe(1)
    controller.abort()
    await cut
    expect(count()).toBe(0)
  })
})
