/**
 * Defects of Python's tensordict 0.14 with batch axes, by their numbers in the reference. Here each
 * is right or refused.
 */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { ellipsis, index, mask, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { concat, setAt, stack, where } from '../../../src/data/tensorDict/joining.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { pad, padSequence } from '../../../src/data/tensorDict/padding.js'
import { flip, repeatInterleave, take } from '../../../src/data/tensorDict/selecting.js'
import { expand, flattenAxes, reshape, squeeze, unflattenAxis } from '../../../src/data/tensorDict/shape.js'
import { splitInto, unbind } from '../../../src/data/tensorDict/splitting.js'
import { find, isTensorDict, TensorDict, TensorDictError, toNested } from '../../../src/doors/tensordict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

/**
 * Runs a test with TensorDicts whose tensor has features of size 5, which could be taken for batch
 * axes.
 */
const withFeatures = (batchShape: readonly number[], f: (td: TensorDict) => void): void => {
  scope(() => {
    f(TensorDict({ x: tf.ones([...batchShape, 5]), deep: { y: tf.zeros([...batchShape, 5, 2]) } }, batchShape))
    return []
  })
}

const shapeAt = (td: TensorDict, ...path: readonly string[]): readonly number[] | undefined => {
  const entry = find(td, path)
  if (entry instanceof tf.Tensor) return entry.shape
  return isTensorDict(entry) ? entry.batchShape : undefined
}

/** The batch shape is [..], and so begin the shapes of both tensors. */
const expectBatch = (td: TensorDict, batchShape: readonly number[]): void => {
  expect(td.batchShape).toEqual(batchShape)
  expect(shapeAt(td, 'deep')).toEqual(batchShape)
  expect(shapeAt(td, 'x')).toEqual([...batchShape, 5])
  expect(shapeAt(td, 'deep', 'y')).toEqual([...batchShape, 5, 2])
}

describe('indices', () => {
  it('item 1: a list of booleans is a mask, and the batch has as many elements as the leaves', () => {
    withFeatures([3], (td) => expectBatch(index(td, [true, false, true]), [2]))
    withFeatures([3], (td) => expectBatch(mask(td, [true, false, true]), [2]))
  })

  it.each([true, false])('items 2 and 3: the index %s is refused', (flag) => {
    withFeatures([3, 4], (td) => {
      // @ts-expect-error a boolean is no index
      expect(() => index(td, flag)).toThrow(TensorDictError)
      // @ts-expect-error a boolean is no mask
      expect(() => mask(td, flag)).toThrow('must be a bool tensor or a list of booleans')
      expect(() => mask(td, tf.scalar(flag, 'bool'))).toThrow('a mask of shape [] does not match')
    })
  })

  it('item 9: indices beyond the batch axes never reach the features', () => {
    withFeatures([3], (td) => {
      expect(() => index(td, 0, 0)).toThrow('too many indices: 2 axes are taken, and the batch shape has 1')
      expect(() => index(td, {}, 0)).toThrow('too many indices')
      expect(() => index(td, {}, {})).toThrow('too many indices')
      expect(() => mask(td, tf.ones([3, 5], 'bool'))).toThrow('does not match the first axes of the batch shape [3]')
      expect(() => repeatInterleave(td, 2, 2)).toThrow('axis 2 is not in -1 .. 0')
      expect(() => index(td, 0, ellipsis, newAxis, 0)).toThrow('too many indices')
    })
  })

  it('a TensorDict without batch axes has no elements, and may get an axis', () => {
    const td = TensorDict({ m: meta(1) }, [])
    expect(() => index(td, 0)).toThrow('too many indices: 1 axes are taken, and the batch shape has 0')
    expect(index(td, newAxis).batchShape).toEqual([1])
    expect(index(td)).toBe(td)
  })

  it('every part that is wrong is in one error', () => {
    const td = TensorDict({}, [2, 3, 4])
    expect(() => index(td, 2, [0, 3], { start: 5 })).toThrow(
      'index: index 2 is out of range for axis 0 of size 2; index 3 is out of range for axis 1 of size 3; the range 5 .. 4 is not inside axis 2 of size 4',
    )
    expect(() => index(td, [0], [true, false, true], ellipsis, ellipsis)).toThrow(/2 ellipses.*2 lists or masks/)
    expect(() => index(td, { step: 0 })).toThrow('a step other than 0')
    // @ts-expect-error a word is no part
    expect(() => index(td, 'first')).toThrow('a part is an integer, a range')
  })
})

describe('shapes', () => {
  it('item 4: a computed size is never stored as -1', () => {
    withFeatures([6], (td) => expectBatch(unflattenAxis(td, 0, [3, -1]), [3, 2]))
    withFeatures([2, 3], (td) => expectBatch(reshape(td, [-1, 2]), [3, 2]))
    expect(() => reshape(TensorDict({}, [0]), [0, -1])).toThrow('0 elements do not fit [0, -1]')
  })

  it('item 5: flattening stops at the batch axes, whatever the leaves are', () => {
    withFeatures([3, 4], (td) => {
      expect(() => flattenAxes(td, 0, 2)).toThrow('flattenAxes: axis 2 is not in -2 .. 1')
      expectBatch(flattenAxes(td), [12])
    })
  })

  it('item 8: a size of -1 is no size to expand to', () => {
    withFeatures([1], (td) => {
      expect(() => expand(td, [-1])).toThrow('size -1 of axis 0 is not a natural number')
      expectBatch(expand(td, [4]), [4])
    })
  })

  it('item 15: axes of size 1 can all be removed, and there are no names of axes', () => {
    withFeatures([1, 1], (td) => expectBatch(squeeze(td), []))
    expect(Object.keys(TensorDict({}, [1])).toSorted()).toEqual(['_tag', 'batchShape', 'spine'])
  })
})

describe('gradients', () => {
  const cases: Readonly<Record<string, readonly [(td: TensorDict) => TensorDict, readonly number[]]>> = {
    take: [(td) => take(td, [2, 2]), [0, 0, 2]],
    'index by a range with a step': [(td) => index(td, { step: 2 }), [1, 0, 1]],
    mask: [(td) => mask(td, [false, true, true]), [0, 1, 1]],
    stack: [(td) => stack([td, flip(td)], 1), [2, 2, 2]],
    concat: [(td) => concat([td, index(td, { end: 1 })]), [2, 1, 1]],
    setAt: [(td) => setAt(td, [0], index(td, 2)), [0, 1, 2]],
    where: [(td) => where([true, false, false], td, flip(td)), [2, 1, 0]],
    'expand and reshape': [(td) => reshape(expand(td, [2, 3]), [-1]), [2, 2, 2]],
    pad: [(td) => pad(td, [[1, 2]], { value: Number.NaN }), [1, 1, 1]],
  }

  it.each(Object.entries(cases))('reach the tensors through %s', (_, [operation, expected]) => {
    scope(() => {
      const total = (x: tf.Tensor): tf.Tensor => {
        const moved = find(operation(TensorDict({ x }, [3])), ['x']) as tf.Tensor // set above
        return tf.sum(tf.where(tf.isNaN(moved), tf.zerosLike(moved), moved))
      }
      expect([
        ...tf
          .grad(total)(tf.tensor1d([1, 2, 3]))
          .dataSync(),
      ]).toEqual(expected)
      return []
    })
  })
})

describe('joining', () => {
  it.each([-2, 1, -3])('item 6: there is no axis %d to join one-axis TensorDicts along', (axis) => {
    withFeatures([3], (td) => {
      expect(() => concat([td, td], axis)).toThrow(`concat: axis ${axis} is not in -1 .. 0`)
    })
  })

  it.each([2, -3, -4])('item 7: there is no place %d for a new axis beside one', (axis) => {
    withFeatures([3], (td) => {
      expect(() => stack([td, td], axis)).toThrow(`stack: axis ${axis} is not in -2 .. 1`)
      expectBatch(stack([td, td], 1), [3, 2])
      expectBatch(stack([td, td], -2), [2, 3])
    })
  })

  it('item 10: TensorDicts without leaves are checked like others', () => {
    expect(() => concat([TensorDict({}, [3, 4]), TensorDict({}, [3, 5])])).toThrow('batch shapes [3, 4] and [3, 5]')
  })

  it('item 13: values of each element survive whatever moves elements', () => {
    const td = TensorDict({ s: data(['a', 'b', 'c']), r: ragged('int32', [[1], [], [2, 3]]) }, [3])
    expect(toNested(flip(td))).toEqual({ s: ['c', 'b', 'a'], r: [[2, 3], [], [1]] })
    expect(toNested(take(td, [2, 0]))).toEqual({ s: ['c', 'a'], r: [[2, 3], [1]] })
    expect(toNested(stack([td, td], 1))).toMatchObject({ s: ['a', 'a', 'b', 'b', 'c', 'c'] })
  })

  it('item 14: different meta values are refused, or resolved by whoever knows how', () => {
    const [a, b] = ['x', 'y'].map((value): TensorDict => TensorDict({ deep: { m: meta(value) } }, [1]))
    expect(() => concat([a!, b!])).toThrow('at "deep" > "m": different meta values')
    const resolved = concat([a!, b!], 0, { resolveMeta: (values, path) => `${path.join('.')}: ${values.join('')}` })
    expect(toNested(resolved)).toEqual({ deep: { m: 'deep.m: xy' } })
  })

  it('item 15: sequences with different keys are refused by name, and a TensorDict without axes cannot be iterated', () => {
    const [a, b]: readonly TensorDict[] = [TensorDict({ a: data([1]) }, [1]), TensorDict({ b: data([1]) }, [1])]
    expect(() => padSequence([a!, b!], { side: 'left', item: 0 })).toThrow(
      'padSequence: at "a": Data and nothing; at "b": nothing and Data',
    )
    expect(() => unbind(TensorDict({}, []))).toThrow('the TensorDict has no batch axis')
  })

  it('item 16: setting an element changes neither the TensorDict nor its views', () => {
    scope(() => {
      const td: TensorDict = TensorDict({ x: tf.tensor1d([1, 2]) }, [2])
      const [view, row] = [reshape(td, [2, 1]), index(td, 0)]
      const other = setAt(td, [0], TensorDict({ x: tf.scalar(9) }, []))
      expect([td, view, row, other].map(toNested)).toEqual([{ x: [1, 2] }, { x: [[1], [2]] }, { x: 1 }, { x: [9, 2] }])
      return []
    })
  })

  it('law 48: exactly as many pieces as asked for, also more than there are elements', () => {
    const td = TensorDict({ d: data([1, 2, 3]) }, [3])
    expect(splitInto(td, 5).map(toNested)).toEqual([{ d: [1] }, { d: [2] }, { d: [3] }, { d: [] }, { d: [] }])
    expect(() => splitInto(td, 2, { uneven: 'refused' })).toThrow('3 elements cannot be split into 2 equal pieces')
  })
})
