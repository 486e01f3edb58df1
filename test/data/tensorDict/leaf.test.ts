import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyRagged } from '../../../packages/testing/src/arbitraries.js'
import {
  data,
  filledRows,
  fromPadded,
  isLeaf,
  isValueOf,
  joinRows,
  meta,
  padRows,
  type RaggedType,
  ragged,
  raggedLength,
  raggedRow,
  raggedRows,
  rowLengths,
  toPadded,
} from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const lists = fc.array(fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { maxLength: 6 }), { maxLength: 6 })
const types = ['int32', 'float32', 'bool'] as const
const arrays = { int32: Int32Array, float32: Float32Array, bool: Uint8Array } as const

const anyRows = fc.constantFrom(...types).chain((type: RaggedType) => fc.nat(5).chain((rows) => anyRagged(type, rows)))

describe('ragged', () => {
  it('rows come back as they went in', () => {
    const law = fc.property(lists, (rows) => {
      const leaf = ragged('int32', rows)
      expect(raggedRows(leaf)).toEqual(rows)
      expect(raggedLength(leaf)).toBe(rows.length)
      expect(rowLengths(leaf)).toEqual(rows.map((row) => row.length))
    })
    fc.assert(law)
  })

  it('offsets begin with 0, never fall, and end with the number of values', () => {
    const law = fc.property(anyRows, ({ values, offsets }) => {
      expect(offsets[0]).toBe(0)
      expect(offsets[offsets.length - 1]).toBe(values.length)
      for (let i = 1; i < offsets.length; i++) expect(offsets[i]! >= offsets[i - 1]!).toBe(true)
    })
    fc.assert(law)
  })

  it.each(types)('%s rows are kept in the array of their type', (type) => {
    const leaf = ragged(type, [[1, 0], [], [1]])
    expect(leaf.values).toBeInstanceOf(arrays[type])
    expect(raggedRow(leaf, 0)).toBeInstanceOf(arrays[type])
    expect(padRows(leaf, { side: 'left', value: 0 }).values).toBeInstanceOf(arrays[type])
  })

  it('the rows are copied, in and out', () => {
    const row = Int32Array.of(1, 2)
    const leaf = ragged('int32', [row])
    row[0] = 9
    raggedRow(leaf, 0)[1] = 9
    expect(raggedRows(leaf)).toEqual([[1, 2]])
  })

  it.each([-1, 2, 0.5, Number.NaN])('there is no row %d among two', (i) => {
    expect(() => raggedRow(ragged('int32', [[1], [2]]), i)).toThrow(new RangeError(`raggedRow: no row ${i} among 2`))
  })

  it('of no rows has no row', () => {
    const none = ragged('float32', [])
    expect(raggedLength(none)).toBe(0)
    expect(() => raggedRow(none, 0)).toThrow('no row 0 among 0')
    expect(padRows(none, { side: 'right', value: 0 })).toEqual({ values: new Float32Array(0), width: 0 })
  })
})

describe('filledRows', () => {
  it('has the lengths of the rows, and one value', () => {
    const rows = fc.array(fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 5 }), { maxLength: 5 })
    fc.assert(
      fc.property(rows, (given) => {
        const filled = filledRows(ragged('int32', given), 'float32', 0.5)
        expect(raggedRows(filled)).toEqual(given.map((row) => row.map(() => 0.5)))
        expect(filled.type).toBe('float32')
      }),
    )
  })
})

describe('joinRows', () => {
  const pair = fc.nat(4).chain((n) => fc.tuple(anyRagged('int32', n), anyRagged('int32', n), anyRagged('int32', n)))

  it('puts each row after the other, is associative, and has empty rows as its unit', () => {
    const law = fc.property(pair, ([a, b, c]) => {
      const empty = ragged(
        'int32',
        raggedRows(a).map(() => []),
      )
      expect(raggedRows(joinRows(a, b))).toEqual(raggedRows(a).map((row, i) => [...row, ...raggedRows(b)[i]!]))
      expect(joinRows(joinRows(a, b), c)).toEqual(joinRows(a, joinRows(b, c)))
      expect(joinRows(a, empty)).toEqual(a)
      expect(joinRows(empty, a)).toEqual(a)
    })
    fc.assert(law)
  })

  it('refuses other numbers of rows, saying both', () => {
    expect(() => joinRows(ragged('int32', [[1]]), ragged('int32', [[1], [2]]))).toThrow(
      new RangeError('joinRows: 1 rows of int32 cannot be joined with 2 of int32'),
    )
  })

  it('refuses other types, saying both', () => {
    expect(() => joinRows<RaggedType>(ragged('int32', [[1]]), ragged('float32', [[1]]))).toThrow(
      new RangeError('joinRows: 1 rows of int32 cannot be joined with 1 of float32'),
    )
  })
})

describe('padRows', () => {
  const sides = fc.constantFrom('left' as const, 'right' as const)

  it('a padded row is its own numbers and fill on one side, as wide as the longest row', () => {
    const law = fc.property(anyRows, sides, fc.constantFrom(0, 1), (rows, side, value) => {
      const { values, width } = padRows(rows, { side, value })
      const lengths = rowLengths(rows)
      expect(width).toBe(Math.max(0, ...lengths))
      for (const [i, row] of raggedRows(rows).entries()) {
        const fill = new Array<number>(width - row.length).fill(value)
        const expected = side === 'left' ? [...fill, ...row] : [...row, ...fill]
        expect(Array.from(values.slice(i * width, (i + 1) * width))).toEqual(expected)
      }
      expect(values).toHaveLength(lengths.length * width)
    })
    fc.assert(law)
  })

  it('a width that is asked for is the width, and only adds fill', () => {
    const law = fc.property(anyRows, sides, fc.nat(4), (rows, side, extra) => {
      const narrow = padRows(rows, { side, value: 0 })
      const width = narrow.width + extra
      const wide = padRows(rows, { side, value: 0, width })
      expect(wide.width).toBe(width)
      for (let i = 0; i < raggedLength(rows); i++) {
        const row = Array.from(wide.values.slice(i * width, (i + 1) * width))
        const inner = side === 'left' ? row.slice(extra) : row.slice(0, narrow.width)
        expect(inner).toEqual(Array.from(narrow.values.slice(i * narrow.width, (i + 1) * narrow.width)))
      }
    })
    fc.assert(law)
  })

  it('refuses a width that cuts a row, saying both lengths', () => {
    expect(() => padRows(ragged('int32', [[1], [1, 2, 3]]), { side: 'left', value: 0, width: 2 })).toThrow(
      new RangeError('padRows: a row has 3 elements, more than the width 2'),
    )
  })
})

describe('isValueOf', () => {
  it.each([
    ['float32', [0.5, Number.NaN, -1e300], []],
    ['int32', [0, -0, -(2 ** 31), 2 ** 31 - 1], [0.5, 2 ** 31, -(2 ** 31) - 1, Number.NaN, Number.POSITIVE_INFINITY]],
    ['bool', [0, 1, -0], [2, -1, 0.5, Number.NaN]],
    ['string', [], [0, 1]],
    ['complex64', [], [0, 1]],
  ] as const)('%s has these numbers and not those', (type, values, others) => {
    expect(values.filter((value) => !isValueOf(type, value))).toEqual([])
    expect(others.filter((value) => isValueOf(type, value))).toEqual([])
  })
})

describe('data, meta and isLeaf', () => {
  it('data keeps its values in order, apart from the list they came in', () => {
    const list = ['a', 'b']
    const leaf = data(list)
    list.push('c')
    expect(leaf.items.toArray()).toEqual(['a', 'b'])
    expect(data(new Set([1, 2])).items.toArray()).toEqual([1, 2])
  })

  it('meta keeps the very value', () => {
    const value = { deep: [1] }
    expect(meta(value).value).toBe(value)
  })

  it('the four kinds are leaves; nodes, lists, numbers and records are not', () => {
    scope(() => {
      expect([tf.scalar(1), ragged('bool', []), data([]), meta(undefined)].every(isLeaf)).toBe(true)
      return []
    })
    const others = [TensorDict({}, []), [], 5, 'text', null, undefined, {}, { _tag: 'Other' }, new Float32Array(2)]
    for (const other of others) expect(isLeaf(other)).toBe(false)
  })
})

describe('padded tensors', () => {
  it('rows come back from both sides, whatever the padding is, and the mask says what is in them', () => {
    const law = fc.property(
      anyRows,
      fc.constantFrom('left' as const, 'right' as const),
      fc.nat(2),
      (rows, side, more) => {
        scope(() => {
          const width = Math.max(0, ...rowLengths(rows)) + more
          const padded = toPadded(rows, { side, value: 1, width })
          expect(raggedRows(fromPadded(padded))).toEqual(raggedRows(rows))
          expect(padded.values.shape).toEqual([raggedLength(rows), width])
          expect(padded.values.dtype).toBe(rows.type)
          const inside = rowLengths(rows).flatMap((length) =>
            Array.from({ length: width }, (_, t) => Number(side === 'left' ? t >= width - length : t < length)),
          )
          expect([...padded.mask.dataSync()]).toEqual(inside)
          return []
        })
      },
    )
    fc.assert(law)
  })

  it('a value that the type does not have, and lengths that do not fit, are refused', () => {
    const rows = ragged('int32', [[1], [2, 3]])
    expect(() => padRows(rows, { side: 'left', value: 1.5 })).toThrow('padRows: 1.5 is not a value of int32')
    expect(() => padRows(ragged('bool', [[1]]), { side: 'left', value: 300 })).toThrow('300 is not a value of bool')
    expect(() => padRows(rows, { side: 'left', value: Number.NaN })).toThrow('NaN is not a value of int32')
    scope(() => {
      const { values } = toPadded(rows, { side: 'right', value: 0 })
      const refused = (lengths: readonly number[]): unknown =>
        expect(() => fromPadded({ values, lengths, side: 'left' })).toThrow(
          new RangeError(`fromPadded: ${lengths.length} lengths (${lengths.join(', ')}) for the shape [2, 2]`),
        )
      for (const lengths of [[1], [1, 2, 0], [1, 3], [-1, 1], [0.5, 1]]) refused(lengths)
      expect(raggedRows(fromPadded({ values, lengths: [0, 2], side: 'left' }))).toEqual([[], [2, 3]])
      expect(raggedRows(fromPadded({ values, lengths: [1, 1], side: 'left' }))).toEqual([[0], [3]])
      expect(raggedRows(fromPadded({ values, lengths: [1, 1], side: 'right' }))).toEqual([[1], [2]])
      const texts = tf.tensor2d(['a'], [1, 1], 'string')
      expect(() => fromPadded({ values: texts, lengths: [1], side: 'left' })).toThrow(
        new RangeError('fromPadded: rows of string cannot be ragged'),
      )
      return []
    })
  })
})
