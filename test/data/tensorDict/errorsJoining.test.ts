/** Exact error messages of joining TensorDicts. */
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { concat, setAt, stack, where } from '../../../src/data/tensorDict/joining.js'
import { data, type Leaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, itAllows, itRefuses, rowsOf, small } from '../../kit/refusals.js'

useEngine()

/** One batch element of one leaf or node. */
const one = (x: Leaf | TensorDict): TensorDict => dynamic(TensorDict({ x }, [1]))

describe('stack, concat', () => {
  itRefuses([
    ['nothing to stack', () => stack([]), 'stack: no parts to join'],
    ['nothing to concatenate', () => concat([]), 'concat: no parts to join'],
    [
      'other batch shapes, each once',
      () => stack([rowsOf(2), rowsOf(3), rowsOf(2, 1), rowsOf(3)]),
      'stack: batch shapes [2] and [3] and [2, 1]',
      { paths: [[]], actual: [[2], [3], [2, 1], [3]] },
    ],
    [
      'other axes than that of the concatenation',
      () => concat([rowsOf(2, 3), rowsOf(2, 4)], 0),
      'concat: batch shapes [2, 3] and [2, 4]',
      {
        paths: [[]],
        actual: [
          [2, 3],
          [2, 4],
        ],
      },
    ],
    [
      'other numbers of axes',
      () => concat([rowsOf(2), rowsOf(2, 2)]),
      'concat: batch shapes [2] and [2, 2]',
      { paths: [[]], actual: [[2], [2, 2]] },
    ],
    [
      'keys that one lacks',
      () => stack([small(), dynamic(TensorDict({ n: { b: meta(2), c: meta(1) } }, []))]),
      'stack: at "a": Meta and nothing; at "n" > "c": nothing and Meta',
      { paths: [['a'], ['n', 'c']], actual: [[], []] },
    ],
    [
      'a key that the first lacks',
      () => stack([dynamic(TensorDict({}, [])), small()]),
      'stack: at "a": nothing and Meta; at "n": nothing and TensorDict',
      { paths: [['a'], ['n']], actual: [[], []] },
    ],
    [
      'other dtypes',
      () => stack([one(tf.zeros([1])), one(tf.zeros([1], 'int32')), one(tf.zeros([1]))]),
      'stack: at "x": float32 tensor of features [] and int32 tensor of features []',
      { paths: [['x']], actual: [[1], [1], [1]] },
    ],
    [
      'other features',
      () => stack([one(tf.zeros([1, 2])), one(tf.zeros([1, 3])), one(tf.zeros([1]))]),
      'stack: at "x": float32 tensor of features [2] and float32 tensor of features [3] and float32 tensor of features []',
      { paths: [['x']], actual: [[1], [1], [1]] },
    ],
    [
      'ragged rows of other types',
      () => stack([one(ragged('int32', [[]])), one(ragged('bool', [[]]))]),
      'stack: at "x": ragged int32 and ragged bool',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'other kinds',
      () =>
        stack([one(ragged('int32', [[]])), one(data([1])), one(meta(1)), one(tf.zeros([1])), one(TensorDict({}, [1]))]),
      'stack: at "x": ragged int32 and Data and Meta and float32 tensor of features [] and TensorDict',
      { paths: [['x']], actual: [[1], [1], [1], [1], [1]] },
    ],
    [
      'a node with more batch axes',
      () => stack([one(TensorDict({}, [1, 2])), one(TensorDict({}, [1]))]),
      'stack: at "x": TensorDict with further batch axes [2] and TensorDict',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'nodes with other batch axes',
      () => stack([one(TensorDict({}, [1, 2])), one(TensorDict({}, [1, 3]))]),
      'stack: at "x": TensorDict with further batch axes [2] and TensorDict with further batch axes [3]',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'data with meta',
      () => concat([one(data([1])), one(meta(1))]),
      'concat: at "x": Data and Meta',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'a node with a leaf',
      () => concat([one(TensorDict({}, [1])), one(data([1]))]),
      'concat: at "x": TensorDict and Data',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'meta with data',
      () => concat([one(meta(1)), one(data([1]))]),
      'concat: at "x": Meta and Data',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'other meta values, in a node',
      () => stack([small(), dynamic(TensorDict({ a: meta(1), n: { b: meta(3) } }, []))]),
      'stack: at "n" > "b": different meta values',
      { paths: [['n', 'b']], actual: [[], []] },
    ],
    [
      'what differs at every path',
      () =>
        concat([
          dynamic(TensorDict({ a: meta(1), b: data([1]), c: meta(0) }, [1])),
          dynamic(TensorDict({ a: meta(2), b: meta(1), c: meta(0) }, [1])),
        ]),
      'concat: at "a": different meta values; at "b": Data and Meta',
      { paths: [['a'], ['b']], actual: [[1], [1]] },
    ],
  ])

  itAllows([
    ['other meta values that are resolved', () => stack([one(meta(1)), one(meta(2))], 0, { resolveMeta: () => 3 })],
    ['other sizes of the axis of the concatenation', () => concat([rowsOf(2, 3), rowsOf(2, 4)], 1)],
    [
      'features that are not batch axes',
      () => concat([TensorDict({ x: tf.zeros([1, 2]) }, [1]), TensorDict({ x: tf.zeros([3, 2]) }, [3])]),
    ],
  ])

  it('resolves other meta values once for each path, and no equal ones', () => {
    const calls: unknown[] = []
    const of = (x: number): TensorDict => dynamic(TensorDict({ same: meta([1]), n: { other: meta(x) } }, []))
    const resolveMeta = (values: readonly unknown[], path: readonly string[]): unknown => calls.push([values, path])
    const joined = stack([of(1), of(2)], 0, { resolveMeta })
    expect(calls).toEqual([
      [
        [1, 2],
        ['n', 'other'],
      ],
    ])
    expect([find(joined, ['n', 'other']), find(joined, 'same')]).toEqual([meta(1), meta([1])])
  })
})

describe('where, setAt', () => {
  itRefuses([
    [
      'other batch shapes',
      () => where([true, false], rowsOf(2), rowsOf(3)),
      'where: batch shapes [2] and [3]',
      { paths: [[]], actual: [[2], [3]] },
    ],
    [
      'other meta values',
      () => where([true], one(meta(1)), one(meta(2))),
      'where: at "x": different meta values',
      { paths: [['x']], actual: [[1], [1]] },
    ],
    [
      'values of another shape and kind',
      () => setAt(rowsOf(2), [{}], one(data([1]))),
      'setAt: values of batch shape [1] for places of shape [2]; at "d": Data and nothing; at "x": nothing and Data',
      { paths: [[], ['d'], ['x']], actual: [[2], [1]] },
    ],
    [
      'values with other meta values',
      () => setAt(one(meta(1)), [{}], one(meta(2))),
      'setAt: at "x": different meta values',
      { paths: [['x']], actual: [[1], [1]] },
    ],
  ])
})
