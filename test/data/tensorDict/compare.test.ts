/** Reports of differences, and the tolerance for close numbers. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { allClose, diff, equals, hash, type Tolerance } from '../../../src/data/tensorDict/compare.js'
import { data, type Leaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, small } from '../../kit/refusals.js'

useEngine()

/** One batch element of one leaf or node. */
const one = (x: Leaf | TensorDict): TensorDict => dynamic(TensorDict({ x }, [1]))

/** Two TensorDicts, and their difference. */
const DIFFERENCES: readonly (readonly [
  title: string,
  make: () => readonly [TensorDict, TensorDict],
  told: object[],
])[] = [
  [
    'batch shapes',
    () => [TensorDict({}, [1, 2]), TensorDict({}, [2])],
    [{ path: [], reason: 'batch shapes [1, 2] and [2]' }],
  ],
  [
    'keys, in the order of the left ones',
    () => [small(), dynamic(TensorDict({ c: meta(1), n: { d: meta(1) } }, []))],
    [
      { path: ['a'], reason: 'on the left only' },
      { path: ['n', 'b'], reason: 'on the left only' },
      { path: ['n', 'd'], reason: 'on the right only' },
      { path: ['c'], reason: 'on the right only' },
    ],
  ],
  [
    'batch shapes of nodes',
    () => [one(TensorDict({}, [1, 2])), one(TensorDict({}, [1]))],
    [{ path: ['x'], reason: 'batch shapes [1, 2] and [1]' }],
  ],
  [
    'a node and a leaf',
    () => [one(TensorDict({}, [1, 2])), one(meta(1))],
    [{ path: ['x'], reason: 'node [1, 2] and meta' }],
  ],
  [
    'dtypes',
    () => [one(tf.zeros([1])), one(tf.zeros([1], 'bool'))],
    [{ path: ['x'], reason: 'float32 tensor [1] and bool tensor [1]' }],
  ],
  [
    'shapes',
    () => [one(tf.zeros([1])), one(tf.zeros([1, 3]))],
    [{ path: ['x'], reason: 'float32 tensor [1] and float32 tensor [1, 3]' }],
  ],
  [
    'kinds',
    () => [one(ragged('int32', [[]])), one(data([1]))],
    [{ path: ['x'], reason: 'ragged int32 and data of 1 values' }],
  ],
  [
    'ragged types',
    () => [one(ragged('int32', [[]])), one(ragged('bool', [[]]))],
    [{ path: ['x'], reason: 'ragged int32 and ragged bool' }],
  ],
  [
    'row lengths',
    () => [TensorDict({ r: ragged('int32', [[1], []]) }, [2]), TensorDict({ r: ragged('int32', [[], [1]]) }, [2])],
    [{ path: ['r'], reason: 'rows of other lengths' }],
  ],
  [
    'ragged numbers',
    () => [one(ragged('int32', [[1, 2, 3]])), one(ragged('int32', [[1, 5, 6]]))],
    [{ path: ['x'], reason: '2 and 5 at element 1' }],
  ],
  [
    'numbers of tensors',
    () => [one(tf.tensor2d([[1, -0]])), one(tf.tensor2d([[1, 0]]))],
    [{ path: ['x'], reason: '-0 and 0 at element 1' }],
  ],
  [
    'numbers of no batch element',
    () => [TensorDict({ d: data([1, 2]) }, [2]), TensorDict({ d: data([1, 3]) }, [2])],
    [{ path: ['d'], reason: 'different values at element 1' }],
  ],
  ['meta', () => [one(meta([1])), one(meta([2]))], [{ path: ['x'], reason: 'different values' }]],
]

const EQUAL: readonly (readonly [title: string, make: () => readonly [TensorDict, TensorDict]])[] = [
  [
    'the very TensorDict',
    () => {
      const td = small()
      return [td, td]
    },
  ],
  [
    'the very tensor',
    () => {
      const x = tf.tensor1d([Number.NaN])
      return [one(x), one(x)]
    },
  ],
  ['equal tensors', () => [one(tf.tensor1d([Number.NaN])), one(tf.tensor1d([Number.NaN]))]],
  ['keys in another order', () => [small(), dynamic(TensorDict({ n: { b: meta(2) }, a: meta(1) }, []))]],
  [
    'equal data, equal ragged rows',
    () => [
      dynamic(TensorDict({ d: data([[1]]), r: ragged('int32', [[1]]) }, [1])),
      dynamic(TensorDict({ d: data([[1]]), r: ragged('int32', [[1]]) }, [1])),
    ],
  ],
]

describe('diff, equals', () => {
  it.each(DIFFERENCES)('tell %s', (_, make, told) => {
    scope(() => {
      const [left, right] = make()
      expect(diff(left, right)).toEqual(told)
      expect([equals(left, right), equals(right, left)]).toEqual([false, false])
      return []
    })
  })

  it.each(EQUAL)('find no difference in %s, nor do hashes', (_, make) => {
    scope(() => {
      const [left, right] = make()
      expect([diff(left, right), equals(left, right), hash(left)]).toEqual([[], true, hash(right)])
      return []
    })
  })
})

describe('hash', () => {
  it('distinguishes kinds, names, places, batch shapes and values', () => {
    scope(() => {
      const all = [
        TensorDict({}, []),
        TensorDict({}, [1]),
        TensorDict({}, [2]),
        one(meta(1)),
        one(meta(2)),
        one(data([1])),
        one(data([2])),
        one(TensorDict({}, [1])),
        one(ragged('int32', [[1]])),
        one(ragged('int32', [[2]])),
        one(ragged('float32', [[1]])),
        one(tf.zeros([1])),
        one(tf.ones([1])),
        one(tf.zeros([1], 'int32')),
        one(tf.zeros([1, 1])),
        TensorDict({ y: meta(1) }, [1]),
        TensorDict({ n: { x: meta(1) } }, [1]),
        TensorDict({ r: ragged('int32', [[1], []]) }, [2]),
        TensorDict({ r: ragged('int32', [[], [1]]) }, [2]),
      ]
      const hashes = all.map(hash)
      expect(new Set(hashes).size).toBe(all.length)
      for (const number of hashes) expect(number | 0).toBe(number)
      return []
    })
  })
})

describe('allClose', () => {
  const rows = (...numbers: readonly number[]): TensorDict => one(ragged('float32', [numbers]))
  const told = (a: TensorDict, b: TensorDict, tolerance?: Tolerance): readonly string[] =>
    allClose(a, b, tolerance).map(({ reason }) => reason)

  it.each<readonly [number, number, Tolerance]>([
    [1, 2, { atol: 1, rtol: 0 }],
    [1, 2, { atol: 0, rtol: 0.5 }],
    [3, 2, { atol: 0, rtol: 0.5 }],
    [-3, -2, { atol: 0, rtol: 0.5 }],
    [5, 2, { atol: 2, rtol: 0.5 }],
    [1 + 2 ** -17, 1, {}],
    [0, 2 ** -27, { rtol: 0 }],
    [Number.NaN, Number.NaN, {}],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, {}],
    [0, -0, { atol: 0, rtol: 0 }],
  ])('%s is close to %s within %o', (a, b, tolerance) => {
    expect(told(rows(a), rows(b), tolerance)).toEqual([])
  })

  it.each<readonly [number, number, Tolerance]>([
    [1, 2, { atol: 0.99, rtol: 0 }],
    [1, 2, { atol: 0, rtol: 0.49 }],
    [5, 2, { atol: 1.9, rtol: 0.5 }],
    [1 + 2 ** -16, 1, {}],
    [0, 2 ** -26, { rtol: 1 / 2 ** 30 }],
    [Number.NaN, 1, { atol: 9 }],
    [1, Number.NaN, { atol: 9 }],
  ])('%s is not close to %s within %o', (a, b, tolerance) => {
    expect(told(rows(a), rows(b), tolerance)).toEqual([`1 of 1 numbers apart, most ${a} and ${b} at element 0`])
  })

  it('reports the first of the largest differences, and their number', () => {
    expect(told(rows(1, 5, 0, 9, 1), rows(1, 4, 3, 6, 2))).toEqual(['4 of 5 numbers apart, most 0 and 3 at element 2'])
    expect(told(rows(4, 0), rows(0, 1))).toEqual(['2 of 2 numbers apart, most 4 and 0 at element 0'])
  })

  it('takes the numbers of tensors alike, and wants all else equal', () => {
    scope(() => {
      expect(allClose(one(tf.tensor1d([1])), one(tf.tensor1d([1.5])))).toEqual([
        { path: ['x'], reason: '1 of 1 numbers apart, most 1 and 1.5 at element 0' },
      ])
      expect(told(one(data([1])), one(data([1 + 1e-9])))).toEqual(['different values at element 0'])
      return []
    })
  })
})
