import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { taskQueue } from '../../../src/collectors/rollouts/taskQueue.js'

/** An environment of which only the size of a group counts. */
const envOf = (sizes: readonly number[]) => (task: number) => ({ batchSize: sizes[task % sizes.length]! }) as never

describe('taskQueue', () => {
  it('law: draws open tasks first, then new ones, each once, whatever places are free', () => {
    const cases = fc.record({
      open: fc.uniqueArray(fc.nat(4), { maxLength: 4 }),
      sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 }),
      free: fc.array(fc.nat(3), { maxLength: 30 }),
    })
    fc.assert(
      fc.property(cases, ({ open, sizes, free }) => {
        const made: number[] = []
        const env = (task: number) => {
          made.push(task)
          return envOf(sizes)(task)
        }
        const queue = taskQueue<unknown, unknown>({ env, maxInFlight: 3, tasks: 9 }, { next: 5, open })
        const order = [...open, 5, 6, 7, 8]
        const drawn: number[] = []
        for (const places of free) {
          if (!queue.hasMore()) break
          const next = queue.draw(places)
          if (next === undefined) expect(sizes[order[drawn.length]! % sizes.length]).toBeGreaterThan(places)
          else drawn.push(next.task)
        }
        expect(drawn).toEqual(order.slice(0, drawn.length))
        expect(new Set(made).size).toBe(made.length)
        const left = open.slice(drawn.length)
        expect(queue.position()).toEqual({ next: 5 + Math.max(0, drawn.length - open.length), open: left })
        expect(queue.hasMore()).toBe(drawn.length < order.length)
      }),
    )
  })

  it('refuses a group with more members than may be in flight', () => {
    const queue = taskQueue<unknown, unknown>({ env: envOf([4]), maxInFlight: 3, tasks: 1 }, { next: 0, open: [] })
    expect(() => queue.draw(3)).toThrow('a group of task 0 has 4 members, more than maxInFlight 3')
  })
})
