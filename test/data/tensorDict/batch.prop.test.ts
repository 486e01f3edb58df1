/** The first batch axis beside `tensorDictLaws`: order, empty axes, error messages. */
import { anyTensorDict, type TensorDictRecipe } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { leafEntries } from '../../../src/data/tensorDict/leaves.js'
import { repeatInterleave, slice, take } from '../../../src/data/tensorDict/selecting.js'
import { splitEach } from '../../../src/data/tensorDict/splitting.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const ROWS = 3

/**
 * Checks a law on a TensorDict of three rows and two lists of row numbers; all tensors are freed.
 */
const forRows = (law: (td: TensorDict, first: readonly number[], second: readonly number[]) => void): void => {
  const shapes = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 1 }).map((inner) => [ROWS, ...inner])
  const indices = fc.array(fc.integer({ min: 0, max: ROWS - 1 }), { maxLength: 4 })
  fc.assert(
    fc.property(anyTensorDict(shapes), indices, indices, (recipe: TensorDictRecipe, first, second) => {
      scope(() => {
        law(recipe.build(), first, second)
        return []
      })
    }),
    { numRuns: 40 },
  )
}

const same = (a: TensorDict, b: TensorDict): void => {
  expect(toNested(a)).toEqual(toNested(b))
  expect(equals(a, b)).toBe(true)
}

describe('take and slice', () => {
  it('keeps keys, their order, and what belongs to no row', () => {
    forRows((td, rows) => {
      const withMeta = set(td, 'node only', meta('x')) as TensorDict
      const taken = take(withMeta, rows)
      expect([...taken.entries.keys()]).toEqual([...withMeta.entries.keys()])
      expect(find(taken, ['node only'])).toBe(find(withMeta, ['node only']))
      expect(leafEntries(taken).map(([path]) => path)).toEqual(leafEntries(withMeta).map(([path]) => path))
    })
  })

  it('no rows: an empty batch axis, with its feature axes', () => {
    scope(() => {
      const td = TensorDict({ x: tf.ones([2, 3]), r: ragged('int32', [[1], [2]]), d: data(['a', 'b']) }, [2])
      const none = take(td, [])
      expect(none.batchShape).toEqual([0])
      expect((find(none, ['x']) as tf.Tensor).shape).toEqual([0, 3]) // set above
      expect(toNested(none)).toMatchObject({ r: [], d: [] })
      same(slice(td, 1, 1), none)
      expect(splitEach(none)).toEqual([])
      return []
    })
  })

  it('a node with more batch axes moves along the first one, all of its rows together', () => {
    const td = TensorDict({ child: TensorDict({ d: data(['a0', 'a1', 'b0', 'b1']) }, [2, 2]) }, [2])
    expect(toNested(take(td, [1, 0, 1]))).toEqual({ child: { d: ['b0', 'b1', 'a0', 'a1', 'b0', 'b1'] } })
  })

  it.each([
    [0.5, 2],
    [0, 1.5],
    [Number.NaN, 1],
    [-1, 1],
    [2, 1],
    [0, 4],
  ])('there is no slice %d .. %d of three rows', (start, end) => {
    const td = TensorDict({ d: data([1, 2, 3]) }, [3])
    expect(() => slice(td, start, end)).toThrow(/^(slice|take): /)
  })
})

describe('concat', () => {
  it('joins what was taken: rows one after the other are the rows of both lists', () => {
    forRows((td, first, second) => {
      same(concat([take(td, first), take(td, second)]), take(td, [...first, ...second]))
    })
  })

  it('the order of keys is that of the first part, whatever it is in the others', () => {
    const a = TensorDict({ x: data([1]), y: data([2]) }, [1])
    const b = TensorDict({ y: data([4]), x: data([3]) }, [1])
    const joined = concat<typeof a extends TensorDict<infer S> ? S : never>([a, b])
    expect([...joined.entries.keys()]).toEqual(['x', 'y'])
    expect(toNested(joined)).toEqual({ x: [1, 3], y: [2, 4] })
  })

  it('conflicts are named by the whole path, in nodes too', () => {
    const a: TensorDict = TensorDict({ next: { reward: data([1]) } }, [1])
    const b: TensorDict = TensorDict({ next: { reward: meta(1) } }, [1])
    expect(() => concat([a, b])).toThrow('at "next" > "reward": Data and Meta')
  })

  it('nodes whose extra batch axes differ are refused, not joined into a node whose leaves do not fit', () => {
    const node = (inner: number): TensorDict =>
      TensorDict({ child: TensorDict({ d: data(Array.from({ length: inner }, (_, i) => i)) }, [1, inner]) }, [1])
    expect(() => concat([node(2), node(3)])).toThrow(/child/)
  })

  it.each([
    ['one axis and two', [2], [2, 1]],
    ['two sizes behind the first axis', [2, 1], [2, 2]],
  ])('refuses batch shapes of %s', (_, left, right) => {
    expect(() => concat<unknown>([TensorDict({}, left), TensorDict({}, right)])).toThrow(
      /concat: batch shapes \[2.*\] and/,
    )
  })

  it('refuses a part without batch axis', () => {
    expect(() => concat([TensorDict({}, []), TensorDict({}, [])])).toThrow('no batch axis')
  })
})

describe('repeatInterleave and splitEach', () => {
  it('once changes nothing, and twice three times is six times', () => {
    forRows((td) => {
      expect(repeatInterleave(td, 1)).toBe(td)
      same(repeatInterleave(repeatInterleave(td, 2), 3), repeatInterleave(td, 6))
    })
  })

  it('no times is no rows', () => {
    forRows((td) => {
      same(repeatInterleave(td, 0), take(td, []))
    })
  })

  it.each([-1, 0.5, Number.NaN])('%d times is refused', (count) => {
    expect(() => repeatInterleave(TensorDict({ d: data([1, 2]) }, [2]), count)).toThrow(/repeatInterleave|take/)
  })

  it('splitEach gives the rows as batches of one', () => {
    forRows((td) => {
      const parts = splitEach(td)
      expect(parts).toHaveLength(ROWS)
      for (const [i, part] of parts.entries()) same(part, take(td, [i]))
    })
  })
})

describe('withBatchShape', () => {
  it('the own batch shape gives the same object, and leaves stay the very same', () => {
    forRows((td) => {
      expect(withBatchShape(td, td.batchShape)).toBe(td)
    })
    scope(() => {
      const x = tf.zeros([2, 3])
      expect(find(withBatchShape(TensorDict({ x }, [2]), [2, 3]), ['x'])).toBe(x)
      return []
    })
  })

  it('ragged rows and values of another number are refused, naming the leaf', () => {
    const td = TensorDict({ d: data([1, 2]) }, [2])
    expect(() => withBatchShape(td, [2, 2])).toThrow(/"d": 2 values for batch shape \[2, 2\]/)
    expect(toNested(withBatchShape(td, [2, 1]))).toEqual({ d: [1, 2] })
  })
})
