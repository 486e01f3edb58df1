/** Exact error messages for wrong batch axes, sizes and indices. */
import { describe, expect, it } from 'vitest'
import { concat, stack } from '../../../src/data/tensorDict/joining.js'
import { padToMultiple, unpadBatch } from '../../../src/data/tensorDict/padding.js'
import { reduce } from '../../../src/data/tensorDict/reduce.js'
import { flip, narrow, repeat, repeatInterleave, roll, slice, take } from '../../../src/data/tensorDict/selecting.js'
import {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  transpose,
  unflattenAxis,
  unsqueeze,
} from '../../../src/data/tensorDict/shape.js'
import { splitEach, splitEvery, splitInto, splitSizes, unbind } from '../../../src/data/tensorDict/splitting.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { dynamic, itAllows, itRefuses, rowsOf, thrownBy, told } from '../../kit/refusals.js'

type OnAxis = (td: TensorDict, axis: number) => unknown

/** Operations on a batch axis that is there. */
const ON_AXES: Readonly<Record<string, OnAxis>> = {
  concat: (td, axis) => concat([td, td], axis),
  flattenAxes: (td, axis) => flattenAxes(td, axis, axis),
  flip,
  narrow: (td, axis) => narrow(td, { axis, start: 0, length: 0 }),
  permute: (td, axis) => permute(td, [axis, axis === 0 || axis === -2 ? 1 : 0]),
  reduce: (td, axis) => reduce(td, 'sum', axis),
  repeat: (td, axis) => repeat(td, 0, axis),
  repeatInterleave: (td, axis) => repeatInterleave(td, 0, axis),
  roll: (td, axis) => roll(td, 1, axis),
  splitEvery: (td, axis) => splitEvery(td, 1, axis),
  splitInto: (td, axis) => splitInto(td, 1, { axis }),
  splitSizes: (td, axis) => splitSizes(td, [1], axis),
  squeeze,
  take: (td, axis) => take(td, [], axis),
  transpose: (td, axis) => transpose(td, axis, 0),
  unbind,
  unflattenAxis: (td, axis) => unflattenAxis(td, axis, [1, 1]),
}

/** Operations that make a batch axis at a place. */
const AT_PLACES: Readonly<Record<string, OnAxis>> = {
  stack: (td, axis) => stack([td], axis),
  unsqueeze,
}

const withoutRows = (...batchShape: readonly number[]): TensorDict => dynamic(TensorDict({}, batchShape))

describe.each(Object.entries(ON_AXES))('%s', (operation, call) => {
  it.each([2, -3, 0.5, Number.NaN])('refuses axis %s of two', (axis) => {
    expect(told(thrownBy(() => call(withoutRows(1, 1), axis)))).toEqual([
      `${operation}: axis ${axis} is not in -2 .. 1`,
      { path: [], axis, expected: [-2, 1], actual: axis },
    ])
  })

  it.each([-2, -1, 0, 1])('allows axis %s of two', (axis) => {
    expect(() => call(withoutRows(1, 1), axis)).not.toThrow()
  })

  it('refuses a TensorDict without batch axes', () => {
    const axis = operation === 'permute' ? 1 : 0
    expect(told(thrownBy(() => call(withoutRows(), axis)))).toEqual([
      `${operation}: the TensorDict has no batch axis`,
      { path: [], axis, actual: [] },
    ])
  })
})

describe.each(Object.entries(AT_PLACES))('%s', (operation, call) => {
  it.each([2, -3])('refuses place %s beside one axis', (axis) => {
    expect(told(thrownBy(() => call(withoutRows(1), axis)))).toEqual([
      `${operation}: axis ${axis} is not in -2 .. 1`,
      { path: [], axis, expected: [-2, 1], actual: axis },
    ])
  })

  it.each([-2, -1, 0, 1])('allows place %s beside one axis', (axis) => {
    expect(() => call(withoutRows(1), axis)).not.toThrow()
  })
})

describe('the first batch axis', () => {
  itRefuses([
    [
      'to be sliced where there is none',
      () => slice(withoutRows(), 0, 0),
      'slice: the TensorDict has no batch axis',
      { axis: 0, actual: [] },
    ],
    [
      'to be split where there is none',
      () => splitEach(withoutRows()),
      'splitEach: the TensorDict has no batch axis',
      { axis: 0, actual: [] },
    ],
    [
      'to be made a multiple where there is none',
      () => padToMultiple(withoutRows(), 2),
      'padToMultiple: the TensorDict has no batch axis',
      { axis: 0, actual: [] },
    ],
    [
      'to be made short where there is none',
      () => unpadBatch({ td: withoutRows(), size: 0 }),
      'unpadBatch: the TensorDict has no batch axis',
      { axis: 0, actual: [] },
    ],
  ])
})

describe('reshape, flattenAxes, unflattenAxis', () => {
  itRefuses([
    [
      'another number of elements',
      () => reshape(rowsOf(2, 3), [5]),
      'reshape: 6 elements do not fit [5], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [5] },
    ],
    [
      'a size that does not divide',
      () => reshape(rowsOf(2, 3), [-1, 4]),
      'reshape: 6 elements do not fit [-1, 4], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [-1, 4] },
    ],
    [
      'two open sizes',
      () => reshape(rowsOf(2, 3), [-1, -1]),
      'reshape: 6 elements do not fit [-1, -1], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [-1, -1] },
    ],
    [
      'an open size beside 0',
      () => reshape(rowsOf(0, 3), [-1, 0]),
      'reshape: 0 elements do not fit [-1, 0], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 0, actual: [-1, 0] },
    ],
    [
      'a size below -1',
      () => reshape(rowsOf(2, 3), [-2, -3]),
      'reshape: 6 elements do not fit [-2, -3], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [-2, -3] },
    ],
    [
      'a size with a fraction',
      () => reshape(rowsOf(2, 3), [1.5, 4]),
      'reshape: 6 elements do not fit [1.5, 4], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [1.5, 4] },
    ],
    [
      'an open size beside a fraction',
      () => reshape(rowsOf(2, 3), [0.5, -1]),
      'reshape: 6 elements do not fit [0.5, -1], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [0.5, -1] },
    ],
    [
      'axes in the wrong order',
      () => flattenAxes(rowsOf(2, 3), 1, 0),
      'flattenAxes: the last axis, 0, comes before the first, 1',
      { expected: [1, 1], actual: 0 },
    ],
    [
      'axes in the wrong order, from the end',
      () => flattenAxes(rowsOf(2, 3, 1), -1, -2),
      'flattenAxes: the last axis, 1, comes before the first, 2',
      { expected: [2, 2], actual: 1 },
    ],
    [
      'a last axis that is not there',
      () => flattenAxes(rowsOf(2, 3), 0, 2),
      'flattenAxes: axis 2 is not in -2 .. 1',
      { axis: 2, expected: [-2, 1], actual: 2 },
    ],
    [
      'sizes that are not those of the axis',
      () => unflattenAxis(rowsOf(2, 6), 1, [2, 2]),
      'unflattenAxis: 6 elements do not fit [2, 2], whose sizes must be natural numbers, one of them possibly -1',
      { expected: 6, actual: [2, 2] },
    ],
  ])

  itAllows([
    ['no elements, in another shape', () => reshape(rowsOf(0, 3), [3, 0])],
    ['an open size of 0', () => reshape(rowsOf(0, 3), [3, -1])],
  ])
})

describe('permute, transpose, squeeze, expand', () => {
  itRefuses([
    [
      'too few axes',
      () => permute(rowsOf(2, 3), [1]),
      'permute: [1] does not name each of the 2 batch axes once',
      { expected: [0, 1], actual: [1] },
    ],
    [
      'too many axes',
      () => permute(rowsOf(2, 3), [1, 0, 1]),
      'permute: [1, 0, 1] does not name each of the 2 batch axes once',
      { expected: [0, 1], actual: [1, 0, 1] },
    ],
    [
      'an axis that is named twice',
      () => permute(rowsOf(2, 3), [1, -1]),
      'permute: [1, -1] does not name each of the 2 batch axes once',
      { expected: [0, 1], actual: [1, -1] },
    ],
    [
      'no axis',
      () => permute(rowsOf(2), []),
      'permute: [] does not name each of the 1 batch axes once',
      { expected: [0], actual: [] },
    ],
    [
      'a second axis that is not there',
      () => transpose(rowsOf(2, 3), 0, 2),
      'transpose: axis 2 is not in -2 .. 1',
      { axis: 2, expected: [-2, 1], actual: 2 },
    ],
    [
      'to squeeze an axis of size 3',
      () => squeeze(rowsOf(1, 3), -1),
      'squeeze: axis 1 has size 3, not 1',
      { axis: 1, expected: 1, actual: 3 },
    ],
    [
      'to squeeze an axis of size 0',
      () => squeeze(rowsOf(0), 0),
      'squeeze: axis 0 has size 0, not 1',
      { axis: 0, expected: 1, actual: 0 },
    ],
    [
      'other sizes than 1, naming each',
      () => expand(rowsOf(2, 3, 1), [4, 5, 6]),
      'expand: axis 0 has size 2 and cannot become 4; axis 1 has size 3 and cannot become 5',
      { paths: [[], []], expected: [2, 3, 1], actual: [4, 5, 6] },
    ],
    [
      'sizes that are none',
      () => expand(rowsOf(1), [-1, 0.5]),
      'expand: size -1 of axis 0 is not a natural number; size 0.5 of axis 1 is not a natural number',
      { paths: [[], []], expected: [1], actual: [-1, 0.5] },
    ],
    [
      'fewer axes',
      () => expand(rowsOf(1, 1), [1]),
      'expand: [1] has fewer axes than [1, 1]',
      { paths: [[]], expected: [1, 1], actual: [1] },
    ],
    [
      'to make 1 of 0',
      () => expand(rowsOf(0), [1]),
      'expand: axis 0 has size 0 and cannot become 1',
      { paths: [[]], expected: [0], actual: [1] },
    ],
  ])

  itAllows([
    ['no axes of none', () => permute(rowsOf(), [])],
    ['to make 0 of 1', () => expand(rowsOf(1), [2, 0])],
  ])
})
