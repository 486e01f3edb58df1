import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { scope } from '../../../src/engine/scope.js'
import {
  CAPACITY_STEP,
  cacheTensors,
  grow,
  type KeyValueCache,
  makeCache,
  writeStep,
} from '../../../src/modules/transformer/keyValueCache.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'

useEngine()

const sizes = fc.record({
  prompts: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  layers: fc.integer({ min: 1, max: 2 }),
  keyValueHeads: fc.integer({ min: 1, max: 2 }),
  headSize: fc.constantFrom(2, 4),
  steps: fc.integer({ min: 0, max: 2 * CAPACITY_STEP + 3 }),
})

type Sizes = typeof sizes extends fc.Arbitrary<infer T> ? T : never

/** A number that says where it belongs. */
const mark = (step: number, layer: number, row: number, i: number): number => step * 1000 + layer * 500 + row * 10 + i

/** A cache after some decoding steps, grown when it was full. */
const filled = ({ prompts, group, steps, ...config }: Sizes): KeyValueCache => {
  let cache = makeCache(tinyConfig(config), prompts, group)
  for (let step = 0; step < steps; step++) {
    if (step === cache.capacity) cache = grow(cache)
    const { rows, headSize } = cache
    const numbers = (layer: number, sign: number): Float32Array =>
      Float32Array.from(
        { length: rows * headSize },
        (_, i) => sign * mark(step, layer, Math.floor(i / headSize), i % headSize),
      )
    writeStep(
      cache,
      step,
      cache.layers.map((_, layer) => ({ keys: numbers(layer, 1), values: numbers(layer, -1) })),
    )
  }
  return cache
}

const expectedPlace = (cache: KeyValueCache, step: number, layer: number, row: number): number[] =>
  Array.from({ length: cache.headSize }, (_, i) => mark(step, layer, row, i))

describe('a key-value cache', () => {
  it('has at every place what was written there, however often it grew', () => {
    fc.assert(
      fc.property(sizes, (given) => {
        const cache = filled(given)
        const { rows, headSize, capacity } = cache
        for (const [layer, { keys, values }] of cache.layers.entries()) {
          for (let row = 0; row < rows; row++) {
            for (let place = 0; place < capacity; place++) {
              const from = (row * capacity + place) * headSize
              const key = Array.from(keys.subarray(from, from + headSize))
              const value = Array.from(values.subarray(from, from + headSize), (x) => 0 - x)
              const expected = place < given.steps ? expectedPlace(cache, place, layer, row) : Array(headSize).fill(0)
              expect([key, value]).toEqual([expected, expected])
            }
          }
        }
      }),
      { numRuns: 30 },
    )
  })

  it('grows by one step and leaves the smaller cache as it was', () => {
    fc.assert(
      fc.property(sizes, (given) => {
        const cache = filled(given)
        const before = cache.layers.map(({ keys }) => Array.from(keys))
        const larger = grow(cache)
        expect(larger.capacity).toBe(cache.capacity + CAPACITY_STEP)
        writeStep(
          larger,
          0,
          larger.layers.map(() => {
            const ones = new Float32Array(larger.rows * larger.headSize).fill(-1)
            return { keys: ones, values: ones }
          }),
        )
        expect(cache.layers.map(({ keys }) => Array.from(keys))).toEqual(before)
      }),
      { numRuns: 20 },
    )
  })

  it('gives tensors [P, K, G, C, H] over its contents, one pair for each layer', () => {
    fc.assert(
      fc.property(sizes, (given) => {
        const cache = filled(given)
        scope(() => {
          const tensors = cacheTensors(cache)
          expect(tensors).toHaveLength(given.layers)
          for (const [layer, { keys, values }] of tensors.entries()) {
            const shape = [given.prompts, given.keyValueHeads, given.group, cache.capacity, given.headSize]
            expect([keys.shape, values.shape]).toEqual([shape, shape])
            expect(valuesOf(keys)).toEqual(Array.from(cache.layers[layer]!.keys))
            expect(valuesOf(values)).toEqual(Array.from(cache.layers[layer]!.values))
          }
        })
      }),
      { numRuns: 20 },
    )
  })
})
