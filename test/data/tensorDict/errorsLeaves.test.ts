/** Exact error messages of replacing leaves and of batch shapes. */
import * as tf from '@tensorflow/tfjs-core'
import { none, some } from 'fp-ts/lib/Option.js'
import { describe } from 'vitest'
import { add, cast, div, lift, mul, sub } from '../../../src/data/tensorDict/arithmetic.js'
import { autoBatch, withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { data, type Leaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { filterMapLeaves, mapLeaves, zipLeaves } from '../../../src/data/tensorDict/leaves.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, itAllows, itRefuses, rowsOf, small } from '../../kit/refusals.js'

useEngine()

const first = (leaf: Leaf): Leaf => leaf

const of = (x: Leaf): TensorDict =>
  dynamic(TensorDict({ x }, 'items' in x ? [x.items.size] : 'offsets' in x ? [x.offsets.length - 1] : []))

describe('mapLeaves, filterMapLeaves', () => {
  itRefuses([
    [
      'results that do not fit, naming each',
      () => mapLeaves(TensorDict({ n: rowsOf(2), d: data([1, 2]) }, [2]), () => data([1])),
      'mapLeaves: at "n" > "d": 1 values for batch shape [2]; at "d": 1 values for batch shape [2]',
      { path: ['n', 'd'], paths: [['n', 'd'], ['d']], expected: [2] },
    ],
    [
      'results that do not fit the new batch shape',
      () => mapLeaves(TensorDict({ n: TensorDict({ d: data([1, 2]) }, [1, 2]) }, [1]), first, [3]),
      'mapLeaves: at "n" > "d": 2 values for batch shape [3, 2]',
      { path: ['n', 'd'], paths: [['n', 'd']], expected: [3] },
    ],
    [
      'a batch shape that is none',
      () => mapLeaves(rowsOf(2), first, [-2]),
      'mapLeaves: batch shape [-2] has a size that is not a natural number',
      { expected: 'natural numbers', actual: [-2] },
    ],
    [
      'results that do not fit, but not what goes',
      () =>
        filterMapLeaves(TensorDict({ a: meta(1), n: rowsOf(2) }, [2]), (leaf) =>
          'value' in leaf ? none : some(data([])),
        ),
      'filterMapLeaves: at "n" > "d": 0 values for batch shape [2]',
      { path: ['n', 'd'], paths: [['n', 'd']], expected: [2] },
    ],
  ])

  itAllows([['results that fit the new batch shape', () => mapLeaves(rowsOf(2), () => data([1]), [1])]])
})

describe('zipLeaves', () => {
  itRefuses([
    [
      'keys that one side lacks',
      () => zipLeaves(small(), dynamic(TensorDict({ n: { c: meta(1) }, a: meta(1) }, [])), first),
      'zipLeaves: at "n" > "b": missing on the right; at "n" > "c": missing on the left',
      {
        path: ['n', 'b'],
        paths: [
          ['n', 'b'],
          ['n', 'c'],
        ],
        expected: [],
        actual: [],
      },
    ],
    [
      'a leaf against a node, and a node against a leaf',
      () => zipLeaves(small(), dynamic(TensorDict({ a: {}, n: meta(1) }, [])), first),
      'zipLeaves: at "a": a leaf on one side and a node on the other; at "n": a leaf on one side and a node on the other',
      { path: ['a'], paths: [['a'], ['n']], expected: [], actual: [] },
    ],
    [
      'other batch shapes',
      () =>
        zipLeaves(
          dynamic(TensorDict({ n: TensorDict({}, [2, 1]) }, [2])),
          dynamic(TensorDict({ n: TensorDict({}, [3]) }, [3])),
          first,
        ),
      'zipLeaves: batch shapes [2] and [3] differ; at "n": batch shapes [2, 1] and [3] differ',
      { paths: [[], ['n']], expected: [2], actual: [3] },
    ],
    [
      'results that do not fit',
      () => zipLeaves(rowsOf(2), rowsOf(2), () => data([])),
      'zipLeaves: at "d": 0 values for batch shape [2]',
      { path: ['d'], paths: [['d']], expected: [2] },
    ],
  ])
})

describe('withBatchShape, autoBatch', () => {
  itRefuses([
    [
      'a batch shape that is none',
      () => withBatchShape(small(), [0.5]),
      'withBatchShape: batch shape [0.5] has a size that is not a natural number',
      { expected: 'natural numbers', actual: [0.5] },
    ],
    [
      'leaves that do not fit, naming each',
      () =>
        withBatchShape(
          TensorDict({ x: tf.zeros([2, 3]), n: { d: data([1, 2]), r: ragged('int32', [[], []]) }, m: meta(1) }, [2]),
          [3],
        ),
      'withBatchShape: at "x": tensor of shape [2, 3] does not begin with the batch shape [3]; at "n" > "d": 2 values for batch shape [3]; at "n" > "r": 2 ragged rows for batch shape [3]',
      { path: ['x'], paths: [['x'], ['n', 'd'], ['n', 'r']], expected: [3], actual: [2] },
    ],
    [
      'leaves of a node that do not fit',
      () => withBatchShape(TensorDict({ n: TensorDict({ m: rowsOf(2) }, [2]) }, [2]), [4]),
      'withBatchShape: at "n" > "m" > "d": 2 values for batch shape [4]',
      { path: ['n', 'm', 'd'], paths: [['n', 'm', 'd']], expected: [4], actual: [2] },
    ],
    [
      'a negative number of axes',
      () => autoBatch(small(), -1),
      'autoBatch: maxAxes must be a natural number, got -1',
      { actual: -1 },
    ],
    [
      'a fraction of an axis',
      () => autoBatch(small(), 1.5),
      'autoBatch: maxAxes must be a natural number, got 1.5',
      { actual: 1.5 },
    ],
    [
      'a number of axes that is none',
      () => autoBatch(small(), Number.NaN),
      'autoBatch: maxAxes must be a natural number, got NaN',
      { actual: Number.NaN },
    ],
    [
      'data of other lengths',
      () => autoBatch({ d: data([1]), n: { r: ragged('int32', [[], []]) } }),
      'autoBatch: at "n" > "r": 2 ragged rows for batch shape [1] (no batch shape fits all entries)',
      { path: ['n', 'r'], paths: [['n', 'r']] },
    ],
    [
      'data that no first axis fits',
      () => autoBatch({ x: tf.zeros([2, 3]), d: data([1, 2, 3]) }, 1),
      'autoBatch: at "d": 3 values for batch shape [2] (no batch shape fits all entries)',
      { path: ['d'], paths: [['d']] },
    ],
    [
      'data against the axes that tensors share',
      () => autoBatch({ x: tf.zeros([2, 3]), y: tf.zeros([2, 4]), d: data([1, 2, 3]) }),
      'autoBatch: at "d": 3 values for batch shape [2] (no batch shape fits all entries)',
      { path: ['d'], paths: [['d']] },
    ],
    [
      'a node that does not fit',
      () => autoBatch({ n: TensorDict({}, [2]), d: data([1, 2, 3]) }),
      'autoBatch: at "d": 3 values for batch shape [2] (no batch shape fits all entries)',
      { path: ['d'], paths: [['d']] },
    ],
    [
      'a TensorDict of which too few axes are asked for',
      () => autoBatch(rowsOf(2, 3), 0),
      'autoBatch: at "d": 6 values for batch shape [] (no batch shape fits all entries)',
      { path: ['d'], paths: [['d']] },
    ],
  ])

  itAllows([
    ['no axis', () => autoBatch({ x: tf.zeros([2]) }, 0)],
    ['any number of axes', () => autoBatch({ x: tf.zeros([2]) }, Number.POSITIVE_INFINITY)],
    ['data of one length', () => autoBatch({ d: data([1, 2]), n: { r: ragged('int32', [[], []]) } })],
  ])
})

describe('arithmetic', () => {
  itRefuses([
    [
      'other dtypes',
      () => add(of(tf.scalar(1)), of(tf.scalar(1, 'int32'))),
      'add: at "x": float32 tensor [] and int32 tensor [] (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'other shapes',
      () => sub(of(tf.zeros([2, 1])), of(tf.zeros([1, 2]))),
      'sub: at "x": float32 tensor [2, 1] and float32 tensor [1, 2] (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'other ragged types',
      () => mul(of(ragged('int32', [[1]])), of(ragged('float32', [[1]]))),
      'mul: at "x": Ragged int32 and Ragged float32 (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'other row lengths',
      () => div(of(ragged('int32', [[1, 2], []])), of(ragged('int32', [[1], [2]]))),
      'div: at "x": ragged rows of other lengths (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'ragged rows with a tensor',
      () => add(of(ragged('int32', [[1]])), dynamic(TensorDict({ x: tf.zeros([1, 1], 'int32') }, [1]))),
      'add: at "x": Ragged int32 and int32 tensor [1, 1] (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'other data',
      () => lift((a) => a)(of(data([1, 2])), of(data([1, 3]))),
      'lift: at "x": different data values (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'other meta',
      () => lift((a) => a)(of(meta(1)), of(meta(2))),
      'lift: at "x": different meta values (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'data with meta',
      () => add(of(data([1])), dynamic(TensorDict({ x: meta(1) }, [1]))),
      'add: at "x": Data and Meta (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'a key that one side lacks',
      () => add(small(), TensorDict({ a: meta(1) }, []) as never),
      'add: at "n": missing on the right',
      { path: ['n'], paths: [['n']], expected: [], actual: [] },
    ],
    [
      'bool tensors',
      () => add(of(tf.scalar(true, 'bool')), of(tf.scalar(true, 'bool'))),
      'add: at "x": bool: arithmetic is for numbers (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'bool ragged rows with a number',
      () => sub(of(ragged('bool', [[1]])), 1),
      'sub: at "x": bool: arithmetic is for numbers (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'a fraction for int32, naming each leaf',
      () =>
        mul(TensorDict({ x: ragged('int32', [[1]]), n: { y: tf.zeros([1], 'int32') }, z: tf.zeros([1]) }, [1]), 0.5),
      'mul: at "x": 0.5 is not int32; at "n" > "y": 0.5 is not int32 (select or cast first)',
      { path: ['x'], paths: [['x'], ['n', 'y']] },
    ],
    [
      'a number beyond int32',
      () => div(of(tf.scalar(1, 'int32')), 2 ** 31),
      'div: at "x": 2147483648 is not int32 (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'a number beyond int32, negative',
      () => div(of(tf.scalar(1, 'int32')), -(2 ** 31) - 1),
      'div: at "x": -2147483649 is not int32 (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'a number for text',
      () => lift((a) => a)(of(tf.scalar('a', 'string')), 1),
      'lift: at "x": 1 is not string (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
    [
      'a number that is no bool',
      () => lift((a) => a)(of(tf.scalar(true, 'bool')), 2),
      'lift: at "x": 2 is not bool (select or cast first)',
      { path: ['x'], paths: [['x']] },
    ],
  ])

  itAllows([
    ['the smallest int32', () => mul(of(tf.scalar(1, 'int32')), -(2 ** 31))],
    ['the largest int32', () => mul(of(tf.scalar(1, 'int32')), 2 ** 31 - 1)],
    [
      '0 and 1 for bools',
      () => lift((a, b) => tf.logicalAnd(a, b))(lift((a, b) => tf.logicalOr(a, b))(of(tf.scalar(true, 'bool')), 1), 0),
    ],
    [
      'equal data and meta',
      () =>
        lift((a) => a)(
          dynamic(TensorDict({ d: data(['a']), m: meta([1]) }, [1])),
          dynamic(TensorDict({ d: data(['a']), m: meta([1]) }, [1])),
        ),
    ],
    [
      'a fraction where no leaf is whole',
      () => add(cast(of(ragged('int32', [[1]])), 'float32', { from: ['int32'] }), 0.5),
    ],
  ])
})
