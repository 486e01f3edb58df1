/** Exact error messages of padding and reducing TensorDicts. */
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { data, type Leaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import {
  crop,
  pad,
  padSequence,
  padToMultiple,
  unpadBatch,
  unpadSequence,
} from '../../../src/data/tensorDict/padding.js'
import { reduce, reduceMasked } from '../../../src/data/tensorDict/reduce.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, itAllows, itRefuses, rowsOf, small, thrownBy } from '../../kit/refusals.js'

useEngine()

/** One batch element of one leaf or node. */
const one = (x: Leaf | TensorDict): TensorDict => dynamic(TensorDict({ x }, [1]))

const kinds = (): TensorDict =>
  dynamic(
    TensorDict(
      { x: tf.zeros([2, 3]), r: ragged('int32', [[], []]), d: data([1, 2]), m: meta(1), b: tf.zeros([2], 'bool') },
      [2],
    ),
  )

describe('pad, crop', () => {
  itRefuses([
    [
      'more widths than axes',
      () =>
        pad(
          rowsOf(2),
          [
            [0, 0],
            [1, 1],
          ],
          { item: 0 },
        ),
      'pad: 2 widths for 1 batch axes',
      {
        expected: 1,
        actual: [
          [0, 0],
          [1, 1],
        ],
      },
    ],
    [
      'a width below 0',
      () => pad(rowsOf(2), [[0, -1]], { item: 0 }),
      'pad: width -1 of axis 0 is not a natural number',
      { paths: [[]], expected: 'natural numbers', actual: [[0, -1]] },
    ],
    [
      'a width with a fraction',
      () =>
        crop(rowsOf(2, 3), [
          [0.5, 0],
          [-1, Number.NaN],
        ]),
      'crop: width 0.5 of axis 0 is not a natural number; width -1 of axis 1 is not a natural number; width NaN of axis 1 is not a natural number',
      {
        paths: [[], [], []],
        expected: 'natural numbers',
        actual: [
          [0.5, 0],
          [-1, Number.NaN],
        ],
      },
    ],
    [
      'fillers that leaves cannot hold, naming each',
      () => pad(kinds(), [[0, 1]], { value: 0.5 }),
      'pad: at "d": data needs `item` as the value of new elements; at "b": 0.5 is not a value of bool',
      { paths: [['d'], ['b']], actual: { value: 0.5 } },
    ],
    [
      'fillers that bools cannot hold',
      () => pad(kinds(), [[1, 0]], { value: 2, item: undefined }),
      'pad: at "b": 2 is not a value of bool',
      { paths: [['b']], actual: { value: 2, item: undefined } },
    ],
    [
      'data without an item',
      () => padToMultiple(rowsOf(3), 2),
      'pad: at "d": data needs `item` as the value of new elements',
      { paths: [['d']], actual: {} },
    ],
    [
      'text',
      () => pad(dynamic(TensorDict({ x: tf.tensor1d(['a'], 'string') }, [1])), [[0, 1]]),
      'pad: at "x": 0 is not a value of string',
      { paths: [['x']], actual: {} },
    ],
    [
      'to take more than there is, naming each axis',
      () =>
        crop(rowsOf(2, 3, 4), [
          [2, 1],
          [1, 1],
          [5, 0],
        ]),
      'crop: axis 0 of size 2 has no 2 + 1 to take; axis 2 of size 4 has no 5 + 0 to take',
      {
        paths: [[], []],
        expected: [2, 3, 4],
        actual: [
          [2, 1],
          [1, 1],
          [5, 0],
        ],
      },
    ],
    [
      'to take where no axis is',
      () => crop(rowsOf(), [[0, 0]]),
      'crop: 1 widths for 0 batch axes',
      { expected: 0, actual: [[0, 0]] },
    ],
  ])

  itAllows([
    ['data without an item, where there is nothing new', () => pad(rowsOf(3), [[0, 0]])],
    ['an item of nothing', () => pad(rowsOf(3), [[0, 1]], { item: undefined })],
    ['fillers that all leaves can hold', () => pad(kinds(), [[0, 1]], { value: 1, item: 0 })],
    [
      'to take all there is',
      () =>
        crop(rowsOf(2, 3), [
          [1, 1],
          [0, 3],
        ]),
    ],
    ['fewer widths than axes', () => crop(rowsOf(2, 3), [[1, 0]])],
  ])
})

describe('padSequence, unpadSequence, padToMultiple, unpadBatch', () => {
  itRefuses([
    ['no sequence', () => padSequence([], { side: 'left' }), 'padSequence: no parts to join'],
    [
      'sequences without time',
      () => padSequence([small()], { side: 'left' }),
      'padSequence: the TensorDict has no batch axis',
      { axis: 0, actual: [] },
    ],
    [
      'sequences of other shapes behind time',
      () => padSequence([rowsOf(1, 2), rowsOf(3, 4)], { side: 'left', item: 0 }),
      'padSequence: batch shapes [1, 2] and [3, 4]',
      {
        paths: [[]],
        actual: [
          [1, 2],
          [3, 4],
        ],
      },
    ],
    [
      'sequences with other keys',
      () => padSequence([rowsOf(1), one(meta(1))], { side: 'right', item: 0 }),
      'padSequence: at "d": Data and nothing; at "x": nothing and Meta',
      { paths: [['d'], ['x']], actual: [[1], [1]] },
    ],
    [
      'sequences of data without an item',
      () => padSequence([rowsOf(1), rowsOf(2)], { side: 'left' }),
      'padSequence: at "d": data needs `item` as the value of new elements',
      { paths: [['d']], actual: { side: 'left' } },
    ],
    [
      'more lengths than sequences',
      () => unpadSequence({ td: rowsOf(1, 2), lengths: [2, 2], side: 'left' }),
      'unpadSequence: 2 lengths for the batch shape [1, 2]',
      { expected: 2, actual: [1, 2] },
    ],
    [
      'sequences without a second axis',
      () => unpadSequence({ td: rowsOf(1), lengths: [1], side: 'left' }),
      'unpadSequence: 1 lengths for the batch shape [1]',
      { expected: 1, actual: [1] },
    ],
    [
      'lengths that are not there, naming each',
      () => unpadSequence({ td: rowsOf(4, 2), lengths: [3, -1, 0, 0.5], side: 'left' }),
      'unpadSequence: length 3 is not in 0 .. 2; length -1 is not in 0 .. 2; length 0.5 is not in 0 .. 2',
      { paths: [[], [], []], expected: 2, actual: [3, -1, 0, 0.5] },
    ],
    [
      'a multiple of 0',
      () => padToMultiple(rowsOf(1), 0, { item: 0 }),
      'padToMultiple: the multiple must be a whole number of at least 1, got 0',
      { expected: 'a whole number of at least 1', actual: 0 },
    ],
    [
      'a multiple with a fraction',
      () => padToMultiple(rowsOf(1), 1.5, { item: 0 }),
      'padToMultiple: the multiple must be a whole number of at least 1, got 1.5',
      { expected: 'a whole number of at least 1', actual: 1.5 },
    ],
    [
      'a smaller batch than there was',
      () => unpadBatch({ td: rowsOf(2), size: 3 }),
      'unpadBatch: 0 .. 3 is not inside 0 .. 2',
      { axis: 0, expected: [0, 2], actual: [0, 3] },
    ],
    [
      'a negative batch',
      () => unpadBatch({ td: rowsOf(2), size: -1 }),
      'unpadBatch: 0 .. -1 is not inside 0 .. 2',
      { axis: 0, expected: [0, 2], actual: [0, -1] },
    ],
  ])

  itAllows([
    ['lengths from 0 to all', () => unpadSequence({ td: rowsOf(2, 2), lengths: [0, 2], side: 'left' })],
    ['a multiple of 1', () => padToMultiple(rowsOf(3), 1)],
    ['an item for sequences of data', () => padSequence([rowsOf(1), rowsOf(2)], { side: 'left', item: undefined })],
  ])
})

describe('reduce, reduceMasked', () => {
  itRefuses([
    [
      'an axis that is named twice',
      () => reduce(kinds(), 'sum', [0, -1]),
      'reduce: axes 0, 0 name an axis twice',
      { actual: [0, -1] },
    ],
    [
      'ragged rows and data over the batch',
      () => reduce(kinds(), 'sum', 0),
      'reduce: at "r": Ragged cannot be reduced; leave it out, or make a tensor of it first; at "d": Data cannot be reduced; leave it out, or make a tensor of it first',
      { path: ['r'], paths: [['r'], ['d']], actual: 'sum' },
    ],
    [
      'ragged rows over features',
      () => reduce(kinds(), 'max', 'features'),
      'reduce: at "r": Ragged cannot be reduced; leave it out, or make a tensor of it first',
      { path: ['r'], paths: [['r']], actual: 'max' },
    ],
    [
      'ragged rows and data over everything',
      () => reduce(kinds(), 'prod', 'all'),
      'reduce: at "r": Ragged cannot be reduced; leave it out, or make a tensor of it first; at "d": Data cannot be reduced; leave it out, or make a tensor of it first',
      { path: ['r'], paths: [['r'], ['d']], actual: 'prod' },
    ],
    [
      'whether any number is true',
      () =>
        reduce(
          dynamic(TensorDict({ x: tf.zeros([1]), n: { y: tf.zeros([1], 'int32') }, b: tf.zeros([1], 'bool') }, [1])),
          'any',
          0,
        ),
      'reduce: at "x": any is of booleans, not of float32; at "n" > "y": any is of booleans, not of int32',
      { path: ['x'], paths: [['x'], ['n', 'y']], actual: 'any' },
    ],
    [
      'whether all numbers are true',
      () => reduce(one(tf.zeros([1])), 'all', 'all'),
      'reduce: at "x": all is of booleans, not of float32',
      { path: ['x'], paths: [['x']], actual: 'all' },
    ],
    [
      'text',
      () => reduce(one(tf.tensor1d(['a'], 'string')), 'max', 'all'),
      'reduce: at "x": string cannot be reduced',
      { path: ['x'], paths: [['x']], actual: 'max' },
    ],
    [
      'complex numbers',
      () => reduce(one(tf.complex([1], [1])), 'sum', 0),
      'reduce: at "x": complex64 cannot be reduced',
      { path: ['x'], paths: [['x']], actual: 'sum' },
    ],
    [
      'the largest of nothing',
      () => reduce(TensorDict({ x: tf.zeros([0]) }, [0]), 'max', 0),
      'reduce: at "x": max of no elements is undefined',
      { path: ['x'], paths: [['x']], actual: 'max' },
    ],
    [
      'the smallest of nothing, in a node',
      () => reduce(TensorDict({ n: { x: tf.zeros([2, 0]) } }, [2]), 'min', 'features'),
      'reduce: at "n" > "x": min of no elements is undefined',
      { path: ['n', 'x'], paths: [['n', 'x']], actual: 'min' },
    ],
    [
      'no elements, naming each leaf',
      () =>
        reduce(
          TensorDict(
            { n: TensorDict({ x: tf.zeros([2, 0]) }, [2]), y: tf.zeros([0, 3], 'int32'), z: tf.zeros([2]) },
            [],
          ),
          'max',
          'all',
        ),
      'reduce: at "n" > "x": max of no elements is undefined; at "y": max of no elements is undefined',
      { path: ['n', 'x'], paths: [['n', 'x'], ['y']], actual: 'max' },
    ],
    [
      'masked data',
      () => reduceMasked(rowsOf(2), 'mean', [true, false]),
      'reduceMasked: at "d": Data cannot be reduced; leave it out, or make a tensor of it first',
      { path: ['d'], paths: [['d']], actual: 'mean' },
    ],
  ])

  itAllows([
    ['data over features', () => reduce(rowsOf(2), 'max', 'features')],
    ['meta over everything', () => reduce(one(meta(1)), 'any', 'all')],
    ['any and all of bools', () => reduce(one(tf.zeros([1], 'bool')), 'all', 0)],
    ['the sum of nothing', () => reduce(TensorDict({ x: tf.zeros([0]) }, [0]), 'sum', 0)],
    ['the largest of no axes', () => reduce(TensorDict({ x: tf.zeros([0]) }, [0]), 'max', 'features')],
    ['the largest where nothing is asked for', () => reduce(TensorDict({ x: tf.zeros([0, 0]) }, [0]), 'max', 0)],
  ])

  it('reports missing batch axes before leaves that cannot be reduced', () => {
    expect(thrownBy(() => reduce(kinds(), 'any', 1)).message).toBe('reduce: axis 1 is not in -1 .. 0')
  })
})
