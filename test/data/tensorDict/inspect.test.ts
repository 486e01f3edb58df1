/** TensorDicts as text and as plain values, to the letter. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { type FormatOptions, format, toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, type Leaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

class Point {
  readonly x = 1
}

const LEAVES: readonly (readonly [title: string, make: () => Leaf, options: FormatOptions, text: string])[] = [
  ['numbers up to the limit', () => tf.tensor2d([[1, 2, 3, 4]]), {}, 'float32 [1, 4]: 1, 2, 3, 4'],
  ['numbers beyond the limit', () => tf.tensor2d([[1, 2, 3, 4, 5]]), {}, 'float32 [1, 5]: 1, 2, 3, 4, …'],
  [
    'as many numbers as asked for',
    () => tf.tensor2d([[1, 2, 3]], [1, 3], 'int32'),
    { values: 2 },
    'int32 [1, 3]: 1, 2, …',
  ],
  [
    'five digits, and the sign of 0',
    () => tf.tensor2d([[1.234567, -0, 1e10]]),
    {},
    'float32 [1, 3]: 1.2346, -0, 10000000000',
  ],
  ['booleans by name', () => tf.tensor2d([[true, false]], [1, 2], 'bool'), {}, 'bool [1, 2]: true, false'],
  ['no numbers where there are none', () => tf.zeros([1, 0]), {}, 'float32 [1, 0]'],
  ['no numbers where none are asked for', () => tf.zeros([1]), { values: 0 }, 'float32 [1]'],
  ['a row', () => ragged('int32', [[1, 2]]), {}, 'ragged int32, 1 row of 2 to 2: [1, 2]'],
  [
    'the beginning of a row',
    () => ragged('float32', [[1, 2, 3]]),
    { values: 2 },
    'ragged float32, 1 row of 3 to 3: [1, 2, …]',
  ],
  ['booleans of a row by name', () => ragged('bool', [[1, 0]]), {}, 'ragged bool, 1 row of 2 to 2: [true, false]'],
  ['an empty row', () => ragged('int32', [[]]), {}, 'ragged int32, 1 row of 0 to 0: []'],
  ['no row where none is asked for', () => ragged('int32', [[1]]), { values: 0 }, 'ragged int32, 1 row of 1 to 1'],
  ['text in quotes', () => data(['a "b"']), {}, String.raw`data: "a \"b\""`],
  ['no data where none are asked for', () => data(['a']), { values: 0 }, 'data'],
  ['text of forty characters', () => meta('x'.repeat(40)), {}, `meta: "${'x'.repeat(40)}"`],
  ['longer text, cut', () => meta('x'.repeat(41)), {}, `meta: "${'x'.repeat(39)}…"`],
  ['a long number, cut', () => meta(10n ** 50n), {}, `meta: 1${'0'.repeat(38)}…`],
  ['null', () => meta(null), {}, 'meta: null'],
  ['what is undefined', () => meta(undefined), {}, 'meta: undefined'],
  ['a record by its keys', () => meta({ a: 1, b: 2 }), {}, 'meta: {a, b}'],
  ['a record with a tag', () => meta({ _tag: 'History', list: [] }), {}, 'meta: <History>'],
  ['a record without a prototype', () => meta(Object.assign(Object.create(null), { a: 1 })), {}, 'meta: {a}'],
  ['an instance by its class', () => meta(new Point()), {}, 'meta: <Point>'],
  ['a list', () => meta([1]), {}, 'meta: <Array>'],
  ['no meta where none is asked for', () => meta(1), { values: 0 }, 'meta'],
]

describe('format', () => {
  it.each(LEAVES)('shows %s', (_, make, options, text) => {
    scope(() => {
      expect(format(TensorDict({ x: make() }, [1]), options)).toBe(`TensorDict [1]\n  x: ${text}`)
      return []
    })
  })

  it.each([
    ['ragged rows', () => ragged('int32', [[7], [], [1, 2]]), 'ragged int32, 3 rows of 0 to 2: [7], …'],
    ['data beyond the limit', () => data([1, 2, 3]), 'data: 1, 2, …'],
  ] as const)('shows how many %s there are', (_, make, text) => {
    expect(format(TensorDict({ x: make() }, [3]), { values: 2 })).toBe(`TensorDict [3]\n  x: ${text}`)
  })

  it('shows leaves without rows', () => {
    const td = TensorDict({ r: ragged('int32', []), d: data([]) }, [0])
    expect(format(td)).toBe('TensorDict [0]\n  r: ragged int32, 0 rows\n  d: data')
  })

  it('marks freed tensors, and does not read them', () => {
    scope(() => {
      const x = tf.zeros([2])
      const td = TensorDict({ x }, [2])
      x.dispose()
      expect(format(td)).toBe('TensorDict [2]\n  x: float32 [2] (freed)')
      return []
    })
  })

  it('indents nodes, and shows the batch axes that they add and that they are empty', () => {
    const td = TensorDict({ a: { b: { c: meta(1) } }, d: TensorDict({}, [2, 3]), e: {} }, [2])
    expect(format(td)).toBe('TensorDict [2]\n  a\n    b\n      c: meta: 1\n  d [2, 3] (empty)\n  e (empty)')
  })

  it('puts names in quotes that could be misread, and cuts long ones', () => {
    const names = ['größe_2', '_x', '2x', 'a b', 'a:', '', 'x'.repeat(41)]
    const td = TensorDict(Object.fromEntries(names.map((name) => [name, meta(1)])), [])
    const shown = ['größe_2', '_x', '"2x"', '"a b"', '"a:"', '""', `${'x'.repeat(39)}…`]
    expect(format(td, { values: 0 })).toBe(['TensorDict []', ...shown.map((name) => `  ${name}: meta`)].join('\n'))
  })

  it('shows the requested number of lines, and counts the rest', () => {
    const td = TensorDict({ a: meta(1), b: meta(2), c: meta(3) }, [])
    expect(format(td, { lines: 3, values: 0 })).toBe('TensorDict []\n  a: meta\n  b: meta\n  c: meta')
    expect(format(td, { lines: 1, values: 0 })).toBe('TensorDict []\n  a: meta\n  … 2 more lines')
    const many = TensorDict(Object.fromEntries(Array.from({ length: 62 }, (_, i) => [`k${i}`, meta(i)])), [])
    expect(format(many).split('\n').slice(-2)).toEqual(['  k59: meta: 59', '  … 2 more lines'])
  })
})

describe('toNested', () => {
  it('gives lists and values, with bools as 0 and 1', () => {
    scope(() => {
      const td = TensorDict(
        {
          x: tf.tensor2d([[1], [2]]),
          n: { b: tf.tensor1d([true, false], 'bool'), r: ragged('int32', [[1], []]) },
          d: data(['a', 'b']),
          m: meta({ k: 1 }),
        },
        [2],
      )
      expect(toNested(td)).toEqual({ x: [[1], [2]], n: { b: [1, 0], r: [[1], []] }, d: ['a', 'b'], m: { k: 1 } })
      return []
    })
  })

  it('keeps the axes of tensors without elements', () => {
    scope(() => {
      const td = TensorDict(
        { x: tf.zeros([2, 0]), y: tf.zeros([2, 3, 0]), n: TensorDict({ z: tf.zeros([2, 0, 4]) }, [2, 0]) },
        [2],
      )
      expect(toNested(td)).toEqual({
        x: [[], []],
        y: [
          [[], [], []],
          [[], [], []],
        ],
        n: { z: [[], []] },
      })
      return []
    })
  })
})
