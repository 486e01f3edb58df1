import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { registerOnnxRuntime } from '../../src/register.js'

const CACHE_SIZE = 3
const { backend } = useOnnxRuntime({ cacheSize: CACHE_SIZE })

/** Computes something on a vector of `size` elements: one graph for each size. */
const negate = (size: number): number[] => tf.tidy(() => valuesOf(tf.neg(tf.range(0, size))))
const expected = (size: number): number[] => Array.from({ length: size }, (_, i) => -i)

const compilesOf = (f: () => void): number => {
  const before = backend().stats().compiles
  f()
  return backend().stats().compiles - before
}

describe('the cache of compiled graphs', () => {
  it('never holds more than cacheSize graphs, and what was dropped is compiled again and right', () => {
    const law = fc.property(fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 20 }), (sizes) => {
      for (const size of sizes) {
        expect(negate(size)).toEqual(expected(size))
        expect(backend().stats().cachedSessions).toBeLessThanOrEqual(CACHE_SIZE)
      }
    })
    fc.assert(law)
  })

  it('drops the graph that was not used for longest', () => {
    for (const size of [1, 2, 3]) negate(size)
    expect(compilesOf(() => negate(1))).toBe(0) // 2 is now the oldest
    expect(compilesOf(() => negate(4))).toBe(1)
    expect(compilesOf(() => [1, 3, 4].forEach(negate))).toBe(0)
    expect(compilesOf(() => negate(2))).toBe(1)
  })

  it('behaves like a list of the most recent sizes', () => {
    const law = fc.property(fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 30 }), (sizes) => {
      for (const size of [11, 12, 13]) negate(size) // the model starts from these
      let recent = [11, 12, 13]
      for (const size of sizes) {
        expect(compilesOf(() => negate(size))).toBe(recent.includes(size) ? 0 : 1)
        recent = [...recent.filter((n) => n !== size), size].slice(-CACHE_SIZE)
      }
    })
    fc.assert(law)
  })

  it.each([0, -1, Number.NaN])('refuses to hold %d graphs', (cacheSize) => {
    expect(() => registerOnnxRuntime({ cacheSize })).toThrow('cacheSize must be at least 1')
    expect(negate(2)).toEqual(expected(2)) // the backend in use is untouched
  })
})

describe('statistics', () => {
  it('count runs, compiles and time', () => {
    const before = backend().stats()
    negate(17)
    negate(17)
    const after = backend().stats()
    expect(after.runs - before.runs).toBe(2)
    expect(after.compiles - before.compiles).toBe(1)
    expect(after.cacheHits - before.cacheHits).toBe(1)
    expect(after.compileMs).toBeGreaterThan(before.compileMs)
    expect(after.runMs).toBeGreaterThan(before.runMs)
  })
})
