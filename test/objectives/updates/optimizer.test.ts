import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyName } from '../../../packages/testing/src/arbitraries.js'
import { clipByGlobalNorm, globalNorm, mapNamed } from '../../../src/objectives/updates/optimizer.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'

useEngine()

type Numbers = Readonly<Record<string, readonly number[]>>

/** Vectors by name, of one to four numbers each. */
const named: fc.Arbitrary<Numbers> = fc
  .uniqueArray(
    fc.tuple(anyName, fc.array(fc.float({ min: -8, max: 8, noNaN: true }), { minLength: 1, maxLength: 4 })),
    { minLength: 1, maxLength: 4, selector: ([name]) => name },
  )
  .map((entries) => Object.fromEntries(entries))

const tensors = (numbers: Numbers) =>
  Object.fromEntries(Object.entries(numbers).map(([name, values]) => [name, tf.tensor1d([...values])]))

const numbersOf = (record: Readonly<Record<string, tf.Tensor>>): Numbers =>
  Object.fromEntries(Object.entries(record).map(([name, tensor]) => [name, valuesOf(tensor)]))

const normOf = (numbers: Numbers): number =>
  Math.sqrt(
    Object.values(numbers)
      .flat()
      .reduce((sum, x) => sum + x * x, 0),
  )

const runs = { numRuns: 40 }

describe('mapNamed', () => {
  it('applies a function to the tensors of equal names, whatever the names and their order', () => {
    fc.assert(
      fc.property(named, (numbers) => {
        const result = scope(() => {
          const first = tensors(numbers)
          const second = tensors(Object.fromEntries(Object.entries(numbers).reverse()))
          return numbersOf(mapNamed(first, (a, b) => tf.add(a!, tf.mul(b!, 2)), second))
        })
        const expected = Object.fromEntries(
          Object.entries(numbers).map(([name, values]) => [
            name,
            values.map((x) => Math.fround(x + Math.fround(2 * x))),
          ]),
        )
        expect(Object.keys(result)).toEqual(Object.keys(expected))
        for (const [name, values] of Object.entries(expected)) expectClose(result[name]!, values)
      }),
      runs,
    )
  })

  it('names what one of the others lacks', () => {
    scope(() => {
      const [a, b] = [tensors({ x: [1], y: [2] }), tensors({ x: [1] })]
      expect(() => mapNamed(a, (p) => p!, b)).toThrow("'y' is missing")
      expect(() => mapNamed(tensors({ toString: [1] }), (_, q) => tf.neg(q!), {})).toThrow("'toString' is missing")
    })
  })
})

describe('globalNorm', () => {
  it('is the length of all numbers together', () => {
    fc.assert(
      fc.property(named, (numbers) => {
        const [norm] = scope(() => valuesOf(globalNorm(tensors(numbers))))
        expectClose([norm!], [normOf(numbers)], { absolute: 1e-6, relative: 1e-5 })
      }),
      runs,
    )
  })
})

describe('clipByGlobalNorm', () => {
  const clipped = (numbers: Numbers, maxNorm: number) =>
    scope(() => {
      const { grads, norm } = clipByGlobalNorm(tensors(numbers), maxNorm)
      return { grads: numbersOf(grads), norm: valuesOf(norm)[0]! }
    })

  const maxNorm = fc.constantFrom(0.01, 0.5, 1, 3, 100)

  it('gives gradients of at most the norm allowed, all scaled by one factor, and reports the norm before', () => {
    fc.assert(
      fc.property(named, maxNorm, (numbers, limit) => {
        const { grads, norm } = clipped(numbers, limit)
        const before = normOf(numbers)
        expectClose([norm], [before], { absolute: 1e-6, relative: 1e-5 })
        expect(normOf(grads)).toBeLessThanOrEqual(limit * (1 + 1e-5))
        const factor = Math.min(1, limit / (before + 1e-6))
        for (const [name, values] of Object.entries(numbers)) {
          expectClose(
            grads[name]!,
            values.map((x) => x * factor),
            { absolute: 1e-6, relative: 1e-5 },
          )
        }
      }),
      runs,
    )
  })

  it('leaves gradients within the limit exactly as they are', () => {
    fc.assert(
      fc.property(named, (numbers) => {
        expect(clipped(numbers, normOf(numbers) + 1).grads).toEqual(
          Object.fromEntries(Object.entries(numbers).map(([name, values]) => [name, values.map((x) => x * 1)])),
        )
      }),
      runs,
    )
  })

  it('leaves gradients of zeros at zero', () => {
    expect(clipped({ a: [0, 0], b: [0] }, 1)).toEqual({ grads: { a: [0, 0], b: [0] }, norm: 0 })
  })

  it('shows NaN in the norm instead of hiding it', () => {
    expect(clipped({ a: [1, Number.NaN] }, 1).norm).toBeNaN()
  })
})
