import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { closeProblem, requireClose, requireCloseTensor, rowMajor, tensorProblem } from '../src/close.js'

useEngine()

const numbers = fc.array(fc.float(), { maxLength: 6 })

describe('closeProblem', () => {
  it('finds nothing where both are the same numbers, NaN and infinities among them', () => {
    fc.assert(
      fc.property(numbers, (xs) => {
        expect(closeProblem(xs, [...xs], { tolerance: { absolute: 0, relative: 0 } })).toBeUndefined()
      }),
    )
  })

  it('finds a difference exactly where it is larger than absolute + relative * |expected|', () => {
    const whole = fc.integer({ min: -100, max: 100 })
    fc.assert(
      fc.property(whole, whole, fc.nat(50), fc.constantFrom(0, 0.5), (a, e, absolute, relative) => {
        const isFar = Math.abs(a - e) > absolute + relative * Math.abs(e)
        expect(closeProblem([a], [e], { tolerance: { absolute, relative } }) !== undefined).toBe(isFar)
      }),
    )
  })

  it.each([
    [Number.NaN, 1],
    [1, Number.NaN],
    [Number.POSITIVE_INFINITY, 1e38],
    [1e38, Number.POSITIVE_INFINITY],
    [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
  ])('takes %d for another number than %d, whatever the relative tolerance', (a, e) => {
    expect(closeProblem([a], [e], { tolerance: { relative: 1 } })).toContain('1 of 1 differ')
  })

  it('reports the first place, their number, the largest difference and its place, and the tolerance', () => {
    const problem = closeProblem([0, 1, 2, 9], [0, 1.5, 2, 3], { indexOf: rowMajor([2, 2]) })
    expect(problem).toBe(
      'element [0, 1] is 1, expected 1.5; 2 of 4 differ, the most at [1, 1] by 6; tolerance 0.000001 + 0.00001 * |expected|',
    )
    expect(closeProblem([1, Number.NaN, 9], [2, 0, 3])).toContain('the most at [1] by Infinity')
  })

  it('reports different lengths', () => {
    expect(closeProblem([1], [1, 2])).toBe('1 elements, expected 2')
  })

  it.each([{ absolute: -1 }, { relative: Number.NaN }])('refuses the tolerance %j', (tolerance) => {
    expect(() => closeProblem([1], [1], { tolerance })).toThrow(RangeError)
  })
})

describe('rowMajor', () => {
  it('gives every place the index at which the nested lists have it', () => {
    const shape = [2, 3, 2]
    const nested = Array.from({ length: 2 }, (_, i) =>
      Array.from({ length: 3 }, (_, j) => [6 * i + 2 * j, 6 * i + 2 * j + 1]),
    )
    for (let place = 0; place < 12; place++) {
      const [i, j, k] = rowMajor(shape)(place) as [number, number, number] // three axes
      expect(nested[i]?.[j]?.[k]).toBe(place)
    }
  })
})

describe('requireClose and requireCloseTensor', () => {
  it('throw the problem', () => {
    expect(() => requireClose([1], [2])).toThrow('element [0] is 1, expected 2')
    expect(() => requireClose([1], [1])).not.toThrow()
    scope(() => {
      expect(() => requireCloseTensor(tf.tensor([[1, 2]]), [[1, 3]])).toThrow('element [0, 1] is 2, expected 3')
      expect(() => requireCloseTensor(tf.tensor([[1, 2]]), tf.tensor([[1, 2.01]]), { absolute: 0.1 })).not.toThrow()
      return []
    })
  })

  it('compare shapes, and dtypes where both have one', () => {
    scope(() => {
      expect(tensorProblem(tf.zeros([2]), [[0, 0]])).toBe('float32 [2], expected [1, 2]')
      expect(tensorProblem(tf.zeros([2]), tf.zeros([2], 'int32'))).toBe('float32 [2], expected int32 [2]')
      expect(tensorProblem(tf.zeros([2], 'int32'), [0, 0])).toBeUndefined()
      expect(tensorProblem(tf.scalar(3), 3)).toBeUndefined()
      expect(tensorProblem(tf.zeros([0, 2]), [])).toBe('float32 [0, 2], expected [0]')
      return []
    })
  })

  it('give no tolerance to whole numbers', () => {
    scope(() => {
      expect(tensorProblem(tf.tensor1d([1], 'int32'), [2], { absolute: 5 })).toContain('tolerance 0')
      return []
    })
  })

  it('say that a tensor has been freed', () => {
    const [freed, live] = [tf.zeros([1]), tf.zeros([1])]
    freed.dispose()
    expect(tensorProblem(freed, live)).toBe('the tensor has been freed')
    expect(tensorProblem(live, freed)).toBe('the expected tensor has been freed')
    live.dispose()
  })

  it('refuse nested lists of unequal lengths', () => {
    scope(() => {
      expect(() => tensorProblem(tf.zeros([2, 2]), [[1, 2], [3]])).toThrow(RangeError)
      return []
    })
  })
})
