/** Results of reductions and arithmetic, number by number. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { add, cast, div, lift, mul, sub } from '../../../src/data/tensorDict/arithmetic.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { type Over, type Reduction, reduce, reduceMasked } from '../../../src/data/tensorDict/reduce.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic } from '../../kit/refusals.js'

useEngine()

describe('reduce', () => {
  const td = (): TensorDict =>
    dynamic(
      TensorDict(
        {
          x: tf.tensor([3, 1, 2, 5, 4, 0], [2, 3], 'int32'),
          n: TensorDict({ b: tf.tensor([1, 0, 1, 1, 1, 1], [2, 3], 'bool') }, [2, 3]),
          m: meta(1),
        },
        [2],
      ),
    )

  it.each<readonly [Reduction, Over, unknown, unknown, string]>([
    ['sum', 0, [8, 5, 2], [2, 1, 2], 'int32'],
    ['mean', 0, [4, 2.5, 1], [1, 0.5, 1], 'float32'],
    ['max', -1, [5, 4, 2], [1, 1, 1], 'int32'],
    ['min', [0], [3, 1, 0], [1, 0, 1], 'int32'],
    ['prod', 0, [15, 4, 0], [1, 0, 1], 'int32'],
    [
      'sum',
      'features',
      [6, 9],
      [
        [1, 0, 1],
        [1, 1, 1],
      ],
      'int32',
    ],
    [
      'max',
      'features',
      [3, 5],
      [
        [1, 0, 1],
        [1, 1, 1],
      ],
      'int32',
    ],
    ['sum', 'all', 15, 5, 'int32'],
    ['mean', 'all', 2.5, 5 / 6, 'float32'],
    [
      'sum',
      [],
      [
        [3, 1, 2],
        [5, 4, 0],
      ],
      [
        [1, 0, 1],
        [1, 1, 1],
      ],
      'int32',
    ],
  ])('%s over %s', (op, over, x, b, dtype) => {
    scope(() => {
      const result = reduce(td(), op, over)
      const numbers = toNested(result) as { x: unknown; n: { b: unknown } }
      expect(numbers.x).toEqual(x)
      expect(numbers.n.b).toEqual(typeof b === 'number' ? expect.closeTo(b) : b)
      expect((find(result, 'x') as tf.Tensor).dtype).toBe(dtype)
      expect(find(result, 'm')).toEqual(meta(1))
      return []
    })
  })

  it('of bools is whether any or all are true', () => {
    scope(() => {
      const bools = dynamic(TensorDict({ b: tf.tensor([1, 0, 1, 1], [2, 2], 'bool') }, [2]))
      const read = (op: Reduction, over: Over): unknown => toNested(reduce(bools, op, over)).b
      expect([read('any', 0), read('all', 0), read('any', 'all'), read('all', 'all'), read('all', 'features')]).toEqual(
        [[1, 1], [1, 0], 1, 0, [0, 1]],
      )
      expect([read('all', []), read('max', 'features'), read('min', 0)]).toEqual([
        [
          [1, 0],
          [1, 1],
        ],
        [1, 1],
        [1, 0],
      ])
      const largest = find(reduce(bools, 'max', 0), 'b') as tf.Tensor
      const smallest = find(reduce(bools, 'min', 0), 'b') as tf.Tensor
      expect([largest.dtype, smallest.dtype]).toEqual(['bool', 'bool'])
      return []
    })
  })

  it('leaves out what is masked, whatever it is', () => {
    scope(() => {
      const x = tf.tensor([1, 2, Number.NaN, Number.POSITIVE_INFINITY, 5, 6], [3, 2])
      const rows = dynamic(TensorDict({ x, n: TensorDict({ y: tf.zeros([3, 2, 0]) }, [3, 2]), m: meta(1) }, [3]))
      const sum = reduceMasked(rows, 'sum', [true, false, true])
      expect([toNested(sum), sum.batchShape, (find(sum, 'n') as TensorDict).batchShape]).toEqual([
        { x: [6, 8], n: { y: [[], []] }, m: 1 },
        [],
        [2],
      ])
      expect(toNested(reduceMasked(rows, 'mean', [true, false, true])).x).toEqual([3, 4])
      expect(toNested(reduceMasked(rows, 'mean', [false, false, false])).x).toEqual([0, 0])
      const none = dynamic(TensorDict({ x: tf.zeros([0, 2]) }, [0]))
      expect(toNested(reduceMasked(none, 'mean', []))).toEqual({ x: [0, 0] })
      return []
    })
  })
})

describe('arithmetic', () => {
  const td = (): TensorDict =>
    dynamic(
      TensorDict(
        { x: tf.tensor1d([7, -7], 'int32'), r: ragged('float32', [[1, 2], []]), d: data(['a', 'b']), m: meta(1) },
        [2],
      ),
    )

  it.each<readonly [string, (td: TensorDict) => TensorDict, unknown, unknown]>([
    ['add a number', (a) => add(a, 2), [9, -5], [[3, 4], []]],
    ['sub a number', (a) => sub(a, 2), [5, -9], [[-1, 0], []]],
    ['mul by a number', (a) => mul(a, 2), [14, -14], [[2, 4], []]],
    ['div by a number', (a) => div(a, 2), [3, -4], [[0.5, 1], []]],
    ['add', (a) => add(a, a), [14, -14], [[2, 4], []]],
    ['sub', (a) => sub(a, a), [0, 0], [[0, 0], []]],
    ['mul', (a) => mul(a, a), [49, 49], [[1, 4], []]],
    ['div', (a) => div(a, a), [1, 1], [[1, 1], []]],
    ['lift of the maximum', (a) => lift((x, y) => tf.maximum(x, y))(a, 2), [7, 2], [[2, 2], []]],
  ])('%s', (_, call, x, r) => {
    scope(() => {
      const source = td()
      expect(toNested(call(source))).toEqual({ x, r, d: ['a', 'b'], m: 1 })
      expect(toNested(source)).toEqual({ x: [7, -7], r: [[1, 2], []], d: ['a', 'b'], m: 1 })
      return []
    })
  })

  it('cast changes floating numbers only, by default', () => {
    scope(() => {
      const source = dynamic(
        TensorDict(
          {
            f: tf.tensor1d([1.5, 0]),
            i: tf.tensor1d([2, 0], 'int32'),
            r: ragged('bool', [[1], []]),
            m: meta(1),
            d: data([1, 2]),
          },
          [2],
        ),
      )
      const types = (result: TensorDict): readonly unknown[] => [
        (find(result, 'f') as tf.Tensor).dtype,
        (find(result, 'i') as tf.Tensor).dtype,
        (find(result, 'r') as { type: string }).type,
      ]
      expect(types(cast(source, 'int32'))).toEqual(['int32', 'int32', 'bool'])
      expect(types(cast(source, 'float32'))).toEqual(['float32', 'int32', 'bool'])
      expect(types(cast(source, 'bool', { from: ['int32'] }))).toEqual(['float32', 'bool', 'bool'])
      expect(types(cast(source, 'float32', { from: ['bool', 'int32'] }))).toEqual(['float32', 'float32', 'float32'])
      expect(toNested(cast(source, 'int32', { from: ['float32', 'bool'] }))).toEqual({
        f: [1, 0],
        i: [2, 0],
        r: [[1], []],
        m: 1,
        d: [1, 2],
      })
      return []
    })
  })
})
