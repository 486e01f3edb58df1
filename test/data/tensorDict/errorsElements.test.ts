/** Exact error messages of taking, repeating and splitting along a batch axis. */
import { describe } from 'vitest'
import { flip, narrow, repeat, repeatInterleave, roll, slice, take } from '../../../src/data/tensorDict/selecting.js'
import { splitEvery, splitInto, splitSizes } from '../../../src/data/tensorDict/splitting.js'
import { itAllows, itRefuses, rowsOf } from '../../kit/refusals.js'

describe('take, narrow, slice', () => {
  itRefuses([
    [
      'every index that is not there',
      () => take(rowsOf(3), [3, 0, -1, 0.5, 2]),
      'take: index 3 is not in 0 .. 2; index -1 is not in 0 .. 2; index 0.5 is not in 0 .. 2',
      { paths: [[], [], []], expected: 3, actual: [3, 0, -1, 0.5, 2] },
    ],
    [
      'any index of an empty axis',
      () => take(rowsOf(2, 0), [0], 1),
      'take: index 0 is not in an empty axis',
      { paths: [[]], expected: 0, actual: [0] },
    ],
    [
      'a start before the first',
      () => narrow(rowsOf(2, 5), { axis: -1, start: -1, length: 2 }),
      'narrow: -1 .. 1 is not inside 0 .. 5',
      { axis: 1, expected: [0, 5], actual: [-1, 1] },
    ],
    [
      'a length below 0',
      () => narrow(rowsOf(5), { start: 3, length: -1 }),
      'narrow: 3 .. 2 is not inside 0 .. 5',
      { axis: 0, expected: [0, 5], actual: [3, 2] },
    ],
    [
      'an end behind the last',
      () => slice(rowsOf(5), 3, 6),
      'slice: 3 .. 6 is not inside 0 .. 5',
      { axis: 0, expected: [0, 5], actual: [3, 6] },
    ],
    [
      'a start with a fraction',
      () => slice(rowsOf(5), 0.5, 2),
      'slice: 0.5 .. 2 is not inside 0 .. 5',
      { axis: 0, expected: [0, 5], actual: [0.5, 2] },
    ],
    [
      'an end with a fraction',
      () => slice(rowsOf(5), 0, 1.5),
      'slice: 0 .. 1.5 is not inside 0 .. 5',
      { axis: 0, expected: [0, 5], actual: [0, 1.5] },
    ],
  ])

  itAllows([
    ['the last index', () => take(rowsOf(3), [2, 0])],
    ['nothing, at the end', () => slice(rowsOf(5), 5, 5)],
    ['up to the end', () => narrow(rowsOf(5), { start: 4, length: 1 })],
  ])
})

describe('flip, roll, repeat', () => {
  itRefuses([
    [
      'to flip an axis twice',
      () => flip(rowsOf(2, 3), [1, 0, -1]),
      'flip: axes 1, 0, 1 name an axis twice',
      { actual: [1, 0, -1] },
    ],
    [
      'to roll by a fraction',
      () => roll(rowsOf(3), -0.5),
      'roll: the size of the shift must be a natural number, got 0.5',
      { expected: 'a natural number', actual: 0.5 },
    ],
    [
      'to repeat less than never',
      () => repeat(rowsOf(3), -1),
      'repeat: count must be a natural number, got -1',
      { expected: 'a natural number', actual: -1 },
    ],
    [
      'to repeat by a fraction',
      () => repeatInterleave(rowsOf(3), 1.5),
      'repeatInterleave: count must be a natural number, got 1.5',
      { expected: 'a natural number', actual: 1.5 },
    ],
  ])

  itAllows([
    ['to repeat never', () => repeat(rowsOf(3), 0)],
    ['to roll an empty axis', () => roll(rowsOf(0), 1)],
  ])
})

describe('splitting', () => {
  itRefuses([
    [
      'sizes with another sum',
      () => splitSizes(rowsOf(2, 4), [1, 2], 1),
      'splitSizes: sizes 1, 2 must be natural numbers with the sum 4',
      { axis: 1, expected: 4, actual: [1, 2] },
    ],
    [
      'a size below 0',
      () => splitSizes(rowsOf(3), [4, -1]),
      'splitSizes: sizes 4, -1 must be natural numbers with the sum 3',
      { axis: 0, expected: 3, actual: [4, -1] },
    ],
    [
      'sizes with fractions',
      () => splitSizes(rowsOf(3), [1.5, 1.5]),
      'splitSizes: sizes 1.5, 1.5 must be natural numbers with the sum 3',
      { axis: 0, expected: 3, actual: [1.5, 1.5] },
    ],
    [
      'no sizes',
      () => splitSizes(rowsOf(3), []),
      'splitSizes: sizes (none) must be natural numbers with the sum 3',
      { axis: 0, expected: 3, actual: [] },
    ],
    [
      'pieces of nothing',
      () => splitEvery(rowsOf(3), 0),
      'splitEvery: the size of a piece must be a whole number of at least 1, got 0',
      { expected: 'a whole number of at least 1', actual: 0 },
    ],
    [
      'pieces of fractions',
      () => splitEvery(rowsOf(3), 1.5),
      'splitEvery: the size of a piece must be a whole number of at least 1, got 1.5',
      { expected: 'a whole number of at least 1', actual: 1.5 },
    ],
    [
      'no pieces',
      () => splitInto(rowsOf(3), 0),
      'splitInto: the number of pieces must be a whole number of at least 1, got 0',
      { expected: 'a whole number of at least 1', actual: 0 },
    ],
    [
      'uneven pieces, where they are refused',
      () => splitInto(rowsOf(1, 5), 3, { axis: 1, uneven: 'refused' }),
      'splitInto: 5 elements cannot be split into 3 equal pieces',
      { axis: 1, expected: 'a multiple of 3', actual: 5 },
    ],
  ])

  itAllows([
    ['no sizes of nothing', () => splitSizes(rowsOf(0), [])],
    ['a size of 0', () => splitSizes(rowsOf(3), [3, 0])],
    ['even pieces, where others are refused', () => splitInto(rowsOf(6), 3, { uneven: 'refused' })],
    ['uneven pieces', () => splitInto(rowsOf(5), 3, { uneven: 'allowed' })],
    ['more pieces than elements', () => splitInto(rowsOf(2), 3)],
  ])
})
