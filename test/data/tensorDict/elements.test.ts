/** Batch elements that operations select, number by number, in every kind of leaf. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { ellipsis, type IndexPart, index, mask, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat, setAt, stack, where } from '../../../src/data/tensorDict/joining.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { crop, pad, padSequence, padToMultiple, unpadSequence } from '../../../src/data/tensorDict/padding.js'
import { flip, repeat, repeatInterleave, roll, take } from '../../../src/data/tensorDict/selecting.js'
import { expand, permute } from '../../../src/data/tensorDict/shape.js'
import { splitEach, splitEvery, splitInto, splitSizes, unbind } from '../../../src/data/tensorDict/splitting.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic } from '../../kit/refusals.js'

useEngine()

const upTo = (size: number): number[] => Array.from({ length: size }, (_, i) => i)

/**
 * The numbers 0, 1, .. under a batch shape: as a tensor, with two features, as data, as ragged rows
 * of that length, in a node with an axis more.
 */
const counted = (...batchShape: readonly number[]): TensorDict => {
  const size = batchShape.reduce((n, m) => n * m, 1)
  const shape = [...batchShape]
  return dynamic(
    TensorDict(
      {
        x: tf.tensor(upTo(size), shape, 'int32'),
        f: tf.tensor(upTo(2 * size), [...shape, 2]),
        d: data(upTo(size)),
        r: ragged(
          'int32',
          upTo(size).map((i) => upTo(i % 4).map(() => i)),
        ),
        n: TensorDict(
          {
            d: data(upTo(2 * size)),
            b: tf.tensor(
              upTo(2 * size).map((i) => i % 2),
              [...shape, 2],
              'bool',
            ),
          },
          [...shape, 2],
        ),
        m: meta('m'),
      },
      shape,
    ),
  )
}

/**
 * The result of an operation on `counted`: which elements it has. All of its leaves must agree; -1
 * is a filler.
 */
const elementsOf = (td: TensorDict): readonly number[] => {
  const items = (find(td, 'd') as { items: { toArray(): number[] } }).items.toArray()
  const flat = (...path: string[]): number[] => Array.from((find(td, path) as tf.Tensor).dataSync())
  expect(flat('x')).toEqual(items.map((i) => (i < 0 ? 0 : i)))
  expect(flat('f')).toEqual(items.flatMap((i) => (i < 0 ? [0, 0] : [2 * i, 2 * i + 1])))
  expect(flat('n', 'b')).toEqual(items.flatMap((i) => (i < 0 ? [0, 0] : [0, 1])))
  expect((find(td, ['n', 'd']) as { items: { toArray(): number[] } }).items.toArray()).toEqual(
    items.flatMap((i) => (i < 0 ? [-1, -1] : [2 * i, 2 * i + 1])),
  )
  const rows = toNested(td).r as number[][]
  expect(rows).toEqual(items.map((i) => (i < 0 ? [] : upTo(i % 4).map(() => i))))
  expect(find(td, 'm')).toEqual(meta('m'))
  expect([(find(td, 'x') as tf.Tensor).shape, (find(td, 'n') as TensorDict).batchShape]).toEqual([
    td.batchShape,
    [...td.batchShape, 2],
  ])
  return items
}

const filler = { item: -1 }

const CHOICES: readonly (readonly [
  title: string,
  from: readonly number[],
  call: (td: TensorDict) => TensorDict,
  to: readonly number[],
  elements: readonly number[],
])[] = [
  ...(
    [
      ['an integer', [2, 3], [1], [3], [3, 4, 5]],
      ['an integer from the end', [2, 3], [ellipsis, -1], [2], [2, 5]],
      ['integers', [2, 3], [1, 2], [], [5]],
      ['a range', [4], [{ start: 1, end: 3 }], [2], [1, 2]],
      ['a range with a step', [5], [{ start: 1, step: 3 }], [2], [1, 4]],
      ['a range with a step that ends early', [5], [{ end: 3, step: 2 }], [2], [0, 2]],
      ['a range from the end', [4], [{ start: -3, end: -1 }], [2], [1, 2]],
      ['a range backwards', [4], [{ step: -1 }], [4], [3, 2, 1, 0]],
      ['a range backwards, between', [4], [{ start: 2, end: 0, step: -1 }], [2], [2, 1]],
      ['a range backwards, with a step', [5], [{ start: -1, end: -5, step: -2 }], [2], [4, 2]],
      ['a range that ends before it begins', [4], [{ start: 3, end: 1 }], [0], []],
      ['a list', [3], [[2, 0, -1, 2]], [4], [2, 0, 2, 2]],
      ['a list of neighbours', [4], [[1, 2]], [2], [1, 2]],
      ['an empty list', [3], [[]], [0], []],
      ['a list behind a range', [3, 3], [{ start: 1 }, [2, 0]], [2, 2], [5, 3, 8, 6]],
      ['a list before an integer', [2, 3], [[1, 0], 2], [2], [5, 2]],
      ['a list behind an integer and a new axis', [2, 3], [1, newAxis, [2, 0]], [1, 2], [5, 3]],
      ['new axes around', [2], [newAxis, ellipsis, newAxis], [1, 2, 1], [0, 1]],
      ['an ellipsis for two axes', [2, 2, 2], [ellipsis, 0], [2, 2], [0, 2, 4, 6]],
      ['a mask', [3], [[true, false, true]], [2], [0, 2]],
      ['a mask behind an integer', [2, 3], [1, [true, false, true]], [2], [3, 5]],
    ] as readonly (readonly [string, readonly number[], readonly IndexPart[], readonly number[], readonly number[]])[]
  ).map(
    ([title, from, parts, to, elements]) =>
      [`index by ${title}`, from, (td: TensorDict) => index(td, ...parts), to, elements] as const,
  ),
  [
    'index by a mask of two axes',
    [2, 2],
    (td) =>
      index(
        td,
        tf.tensor2d(
          [
            [true, false],
            [true, true],
          ],
          [2, 2],
          'bool',
        ),
      ),
    [3],
    [0, 2, 3],
  ],
  [
    'mask over two axes of three',
    [2, 2, 2],
    (td) =>
      mask(
        td,
        tf.tensor2d(
          [
            [false, true],
            [false, true],
          ],
          [2, 2],
          'bool',
        ),
      ),
    [2, 2],
    [2, 3, 6, 7],
  ],
  ['mask that chooses nothing', [2], (td) => mask(td, [false, false]), [0], []],
  ['take', [2, 3], (td) => take(td, [2, 0, 2], 1), [2, 3], [2, 0, 2, 5, 3, 5]],
  ['flip of two axes', [2, 3], (td) => flip(td, [0, 1]), [2, 3], [5, 4, 3, 2, 1, 0]],
  ['flip', [2, 3], (td) => flip(td, -1), [2, 3], [2, 1, 0, 5, 4, 3]],
  ['roll', [4], (td) => roll(td, 1), [4], [3, 0, 1, 2]],
  ['roll back, more than around', [4], (td) => roll(td, -5), [4], [1, 2, 3, 0]],
  ['repeat', [2], (td) => repeat(td, 2), [4], [0, 1, 0, 1]],
  ['repeatInterleave', [2, 2], (td) => repeatInterleave(td, 2, 1), [2, 4], [0, 0, 1, 1, 2, 2, 3, 3]],
  ['permute', [2, 3], (td) => permute(td, [1, 0]), [3, 2], [0, 3, 1, 4, 2, 5]],
  ['expand', [2, 1], (td) => expand(td, [2, 2, 3]), [2, 2, 3], [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]],
  [
    'pad of two axes',
    [1, 2],
    (td) =>
      pad(
        td,
        [
          [1, 0],
          [0, 1],
        ],
        filler,
      ),
    [2, 3],
    [-1, -1, -1, 0, 1, -1],
  ],
  ['pad of no elements', [0], (td) => pad(td, [[1, 1]], filler), [2], [-1, -1]],
  ['pad before', [2], (td) => pad(td, [[1, 0]], filler), [3], [-1, 0, 1]],
  [
    'crop',
    [3, 3],
    (td) =>
      crop(td, [
        [1, 0],
        [0, 2],
      ]),
    [2, 1],
    [3, 6],
  ],
  ['padToMultiple', [3], (td) => padToMultiple(td, 5, filler).td, [5], [0, 1, 2, -1, -1]],
  ['stack in front', [2], (td) => stack([td, flip(td)]), [2, 2], [0, 1, 1, 0]],
  ['stack behind', [2], (td) => stack([td, flip(td)], -1), [2, 2], [0, 1, 1, 0]],
  ['stack between', [2, 2], (td) => stack([td, flip(td)], 1), [2, 2, 2], [0, 1, 2, 3, 2, 3, 0, 1]],
  ['concat', [2], (td) => concat([td, take(td, [1]), take(td, [])]), [3], [0, 1, 1]],
  ['concat behind', [2, 2], (td) => concat([td, take(td, [1], 1), td], 1), [2, 5], [0, 1, 1, 0, 1, 2, 3, 3, 2, 3]],
  ['where', [3], (td) => where([true, false, true], td, flip(td)), [3], [0, 1, 2]],
  [
    'where over the first of two axes',
    [2, 2],
    (td) => where([true, false], td, flip(td, [0, 1])),
    [2, 2],
    [0, 1, 1, 0],
  ],
  ['setAt', [2, 3], (td) => setAt(td, [1, [2, 0]], index(td, 0, { end: 2 })), [2, 3], [0, 1, 2, 1, 4, 0]],
  ['setAt of nothing', [2], (td) => setAt(td, [[]], take(td, [])), [2], [0, 1]],
]

describe('the elements', () => {
  it.each(CHOICES)('of %s', (_, from, call, to, elements) => {
    scope(() => {
      const result = call(counted(...from))
      expect(result.batchShape).toEqual(to)
      expect(elementsOf(result)).toEqual(elements)
      return []
    })
  })

  it.each<
    readonly [string, readonly number[], (td: TensorDict) => readonly TensorDict[], readonly (readonly number[])[]]
  >([
    [
      'unbind',
      [2, 2],
      (td) => unbind(td, 1),
      [
        [0, 2],
        [1, 3],
      ],
    ],
    ['splitEach', [2], splitEach, [[0], [1]]],
    ['splitSizes', [4], (td) => splitSizes(td, [1, 0, 3]), [[0], [], [1, 2, 3]]],
    ['splitEvery', [5], (td) => splitEvery(td, 2), [[0, 1], [2, 3], [4]]],
    ['splitEvery of more than there is', [2], (td) => splitEvery(td, 9), [[0, 1]]],
    ['splitInto', [5], (td) => splitInto(td, 3), [[0, 1], [2, 3], [4]]],
    [
      'splitInto along the second axis',
      [2, 3],
      (td) => splitInto(td, 2, { axis: 1 }),
      [
        [0, 1, 3, 4],
        [2, 5],
      ],
    ],
  ])('of the parts of %s', (_, from, call, parts) => {
    scope(() => {
      expect(call(counted(...from)).map(elementsOf)).toEqual(parts)
      return []
    })
  })

  it.each([
    ['left', [-1, -1, 0, 0, 1, 2], [0, 0, 1, 1, 1, 1]],
    ['right', [0, -1, -1, 0, 1, 2], [1, 0, 0, 1, 1, 1]],
  ] as const)('of sequences, padded on the %s', (side, elements, inside) => {
    scope(() => {
      const parts = [counted(1), counted(3)]
      const padded = padSequence(parts, { side, item: -1 })
      expect(padded.td.batchShape).toEqual([2, 3])
      expect(elementsOf(padded.td)).toEqual(elements)
      expect([padded.lengths, padded.side]).toEqual([[1, 3], side])
      expect([padded.mask.dtype, padded.mask.shape, Array.from(padded.mask.dataSync())]).toEqual([
        'bool',
        [2, 3],
        inside,
      ])
      expect(unpadSequence(padded).map(elementsOf)).toEqual([[0], [0, 1, 2]])
      return []
    })
  })

  it('that are new have the value that is asked for, in bools too', () => {
    scope(() => {
      const td = TensorDict({ x: tf.zeros([1]), b: tf.zeros([1], 'bool'), e: tf.zeros([1, 0]) }, [1])
      expect(toNested(pad(td, [[1, 1]], { value: 1 }))).toEqual({ x: [1, 0, 1], b: [1, 0, 1], e: [[], [], []] })
      const none = TensorDict({ b: tf.zeros([0, 2], 'bool') }, [0])
      const padded = pad(none, [[0, 1]], { value: 1 })
      expect([toNested(padded), (find(padded, 'b') as tf.Tensor).dtype]).toEqual([{ b: [[1, 1]] }, 'bool'])
      return []
    })
  })
})
