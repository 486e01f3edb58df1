import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { graphCache } from '../../src/onnxruntime/graphCache.js'

describe('graphCache', () => {
  it('law: holds the most recently used graphs, and releases each of the others once', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5)), fc.integer({ min: 1, max: 4 }), (uses, size) => {
        const released: string[] = []
        const cache = graphCache<{ readonly name: string; readonly release: () => void }>(size)
        let [compiled, recent]: [number, readonly number[]] = [0, []]
        for (const key of uses) {
          const name = `${key} of ${compiled}`
          const graph = cache.of(`${key}`, () => {
            compiled++
            return { name, release: () => released.push(name) }
          })
          expect(released).not.toContain(graph.name)
          recent = [key, ...recent.filter((other) => other !== key)].slice(0, size)
          expect(cache.size()).toBe(recent.length)
        }
        expect(cache.hits()).toBe(uses.length - compiled)
        expect(released.length).toBe(compiled - recent.length)
        cache.release()
        expect(new Set(released).size).toBe(compiled)
      }),
    )
  })
})
