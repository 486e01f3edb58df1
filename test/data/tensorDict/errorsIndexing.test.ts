/** Exact error messages of indexing and masking. */
import * as tf from '@tensorflow/tfjs-core'
import { describe } from 'vitest'
import { ellipsis, index, mask, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { setAt, where } from '../../../src/data/tensorDict/joining.js'
import { reduceMasked } from '../../../src/data/tensorDict/reduce.js'
import { useEngine } from '../../kit/engine.js'
import { itAllows, itRefuses, rowsOf } from '../../kit/refusals.js'

useEngine()

describe('index', () => {
  itRefuses([
    [
      'an integer behind the last',
      () => index(rowsOf(2, 3), 0, 3),
      'index: index 3 is out of range for axis 1 of size 3',
      { paths: [[]], expected: [2, 3], actual: [0, 3] },
    ],
    [
      'an integer before the first',
      () => index(rowsOf(2, 3), -3),
      'index: index -3 is out of range for axis 0 of size 2',
      { paths: [[]], expected: [2, 3], actual: [-3] },
    ],
    [
      'an integer of an axis behind an ellipsis',
      () => index(rowsOf(2, 3), ellipsis, 5),
      'index: index 5 is out of range for axis 1 of size 3',
      { paths: [[]], expected: [2, 3], actual: ['ellipsis', 5] },
    ],
    [
      'an integer of an axis behind a new one',
      () => index(rowsOf(2, 3), newAxis, 0, newAxis, 4),
      'index: index 4 is out of range for axis 1 of size 3',
      { paths: [[]], expected: [2, 3], actual: ['newAxis', 0, 'newAxis', 4] },
    ],
    [
      'a fraction',
      () => index(rowsOf(2), 0.5),
      'index: index 0.5 is out of range for axis 0 of size 2',
      { paths: [[]], expected: [2], actual: [0.5] },
    ],
    [
      'members of a list, naming each',
      () => index(rowsOf(3), [3, 0, -4, 1.5, -3]),
      'index: index 3 is out of range for axis 0 of size 3; index -4 is out of range for axis 0 of size 3; index 1.5 is out of range for axis 0 of size 3',
      { paths: [[], [], []], expected: [3], actual: [[3, 0, -4, 1.5, -3]] },
    ],
    [
      'every wrong part',
      () => index(rowsOf(2, 3), 2, [9]),
      'index: index 2 is out of range for axis 0 of size 2; index 9 is out of range for axis 1 of size 3',
      { paths: [[], []], expected: [2, 3], actual: [2, [9]] },
    ],
    [
      'a step of 0',
      () => index(rowsOf(3), { step: 0 }),
      'index: a range has whole numbers and a step other than 0, got 2 .. -4 by 0',
      { paths: [[]], expected: [3], actual: [{ step: 0 }] },
    ],
    [
      'a start with a fraction',
      () => index(rowsOf(3), { start: 0.5 }),
      'index: a range has whole numbers and a step other than 0, got 0.5 .. 3 by 1',
      { paths: [[]], expected: [3], actual: [{ start: 0.5 }] },
    ],
    [
      'an end that is no number',
      () => index(rowsOf(3), { end: Number.NaN }),
      'index: a range has whole numbers and a step other than 0, got 0 .. NaN by 1',
      { paths: [[]], expected: [3], actual: [{ end: Number.NaN }] },
    ],
    [
      'a step with a fraction',
      () => index(rowsOf(3), { step: 1.5 }),
      'index: a range has whole numbers and a step other than 0, got 0 .. 3 by 1.5',
      { paths: [[]], expected: [3], actual: [{ step: 1.5 }] },
    ],
    [
      'a start behind the end of the axis',
      () => index(rowsOf(2, 3), 0, { start: 4 }),
      'index: the range 4 .. 3 is not inside axis 1 of size 3',
      { paths: [[]], expected: [2, 3], actual: [0, { start: 4 }] },
    ],
    [
      'a start before the axis',
      () => index(rowsOf(3), { start: -4 }),
      'index: the range -4 .. 3 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ start: -4 }] },
    ],
    [
      'an end behind the axis',
      () => index(rowsOf(3), { end: 4 }),
      'index: the range 0 .. 4 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ end: 4 }] },
    ],
    [
      'an end before the axis',
      () => index(rowsOf(3), { end: -4 }),
      'index: the range 0 .. -4 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ end: -4 }] },
    ],
    [
      'a start behind the last, backwards',
      () => index(rowsOf(3), { start: 3, step: -1 }),
      'index: the range 3 .. -4 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ start: 3, step: -1 }] },
    ],
    [
      'a start before the place before the first, backwards',
      () => index(rowsOf(3), { start: -5, step: -1 }),
      'index: the range -5 .. -4 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ start: -5, step: -1 }] },
    ],
    [
      'an end behind the last, backwards',
      () => index(rowsOf(3), { end: 3, step: -1 }),
      'index: the range 2 .. 3 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ end: 3, step: -1 }] },
    ],
    [
      'an end before the place before the first, backwards',
      () => index(rowsOf(3), { end: -5, step: -1 }),
      'index: the range 2 .. -5 is not inside axis 0 of size 3',
      { paths: [[]], expected: [3], actual: [{ end: -5, step: -1 }] },
    ],
    [
      'text',
      () => index(rowsOf(2), 'first' as never),
      'index: a part is an integer, a range, newAxis, ellipsis, a list of integers or a mask, got first',
      { paths: [[]], expected: [2], actual: ['first'] },
    ],
    [
      'null',
      () => index(rowsOf(2), null as never),
      'index: a part is an integer, a range, newAxis, ellipsis, a list of integers or a mask, got null',
      { paths: [[]], expected: [2], actual: [null] },
    ],
    [
      'a list of text',
      () => index(rowsOf(2), ['a', 'b'] as never),
      'index: a part is an integer, a range, newAxis, ellipsis, a list of integers or a mask, got a,b',
      { paths: [[]], expected: [2], actual: [['a', 'b']] },
    ],
    [
      'a list of numbers and booleans',
      () => index(rowsOf(2), [0, true] as never),
      'index: a part is an integer, a range, newAxis, ellipsis, a list of integers or a mask, got 0,true',
      { paths: [[]], expected: [2], actual: [[0, true]] },
    ],
    [
      'more integers than axes',
      () => index(rowsOf(2), 0, 0),
      'index: too many indices: 2 axes are taken, and the batch shape has 1',
      { paths: [[]], expected: 1, actual: 2 },
    ],
    [
      'more mask axes than axes',
      () => index(rowsOf(2), newAxis, tf.zeros([2, 1], 'bool')),
      'index: too many indices: 2 axes are taken, and the batch shape has 1',
      { paths: [[]], expected: 1, actual: 2 },
    ],
    [
      'any integer of no axis',
      () => index(rowsOf(), 0),
      'index: too many indices: 1 axes are taken, and the batch shape has 0',
      { paths: [[]], expected: 0, actual: 1 },
    ],
    [
      'two ellipses',
      () => index(rowsOf(2, 3), ellipsis, 0, ellipsis),
      'index: 2 ellipses: at most one is possible',
      { paths: [[]], expected: 2, actual: 1 },
    ],
    [
      'two lists',
      () => index(rowsOf(2, 3), [0], [0]),
      'index: 2 lists or masks: at most one is possible; index once for each',
      { paths: [[]], expected: 2, actual: 2 },
    ],
    [
      'a list and a mask',
      () => index(rowsOf(2, 3), [0], [true, true, true]),
      'index: 2 lists or masks: at most one is possible; index once for each',
      { paths: [[]], expected: 2, actual: 2 },
    ],
    [
      'all of it at once',
      () => index(rowsOf(2), ellipsis, [0], [0], ellipsis),
      'index: 2 ellipses: at most one is possible; 2 lists or masks: at most one is possible; index once for each; too many indices: 2 axes are taken, and the batch shape has 1',
      { paths: [[], [], []], expected: 1, actual: 2 },
    ],
    [
      'a mask of another size',
      () => index(rowsOf(2, 3), 0, [true, false]),
      'index: a mask of shape [2] does not match the first axes of the batch shape [3]',
      { expected: [3], actual: [2] },
    ],
    [
      'a mask of numbers',
      () => index(rowsOf(2), tf.zeros([2], 'int32')),
      'index: the mask must be a bool tensor or a list of booleans, got a tensor of int32',
      { expected: 'bool', actual: 'a tensor of int32' },
    ],
  ])

  itAllows([
    ['an empty range before the first, backwards', () => index(rowsOf(3), { start: -4, step: -1 })],
    ['the first and the last', () => index(rowsOf(2, 3), -2, 2)],
    ['members of a list at both ends', () => index(rowsOf(3), [-3, 2])],
    ['the whole range, said', () => index(rowsOf(3), { start: -3, end: 3, step: 1 })],
    ['an empty range at the end', () => index(rowsOf(3), { start: 3 })],
    ['an empty range at the beginning', () => index(rowsOf(3), { end: -3 })],
    ['the whole range backwards, said', () => index(rowsOf(3), { start: 2, end: -4, step: -1 })],
    ['the whole range backwards, from the end', () => index(rowsOf(3), { start: -1, step: -1 })],
    ['a range of an empty axis backwards', () => index(rowsOf(0), { step: -1 })],
    ['an empty list', () => index(rowsOf(2), [])],
    ['parts that take no axis', () => index(rowsOf(), newAxis, ellipsis, newAxis)],
    ['as many mask axes as axes', () => index(rowsOf(2, 1), tf.zeros([2, 1], 'bool'))],
  ])
})

describe('a mask', () => {
  itRefuses([
    [
      'of other booleans than elements',
      () => mask(rowsOf(2, 3), [true]),
      'mask: a mask of shape [1] does not match the first axes of the batch shape [2, 3]',
      { expected: [2, 3], actual: [1] },
    ],
    [
      'of float numbers',
      () => mask(rowsOf(2), tf.ones([2])),
      'mask: the mask must be a bool tensor or a list of booleans, got a tensor of float32',
      { expected: 'bool', actual: 'a tensor of float32' },
    ],
    [
      'of no axes',
      () => mask(rowsOf(2), tf.scalar(true, 'bool')),
      'mask: a mask of shape [] does not match the first axes of the batch shape [2]',
      { expected: [2], actual: [] },
    ],
    [
      'of more axes than the batch',
      () => mask(rowsOf(2), tf.zeros([2, 2], 'bool')),
      'mask: a mask of shape [2, 2] does not match the first axes of the batch shape [2]',
      { expected: [2], actual: [2, 2] },
    ],
    [
      'with another second axis',
      () => mask(rowsOf(2, 3), tf.zeros([2, 2], 'bool')),
      'mask: a mask of shape [2, 2] does not match the first axes of the batch shape [2, 3]',
      { expected: [2, 3], actual: [2, 2] },
    ],
    [
      'of text',
      () => mask(rowsOf(2), 'yes' as never),
      'mask: the mask must be a bool tensor or a list of booleans, got string',
      { expected: 'bool', actual: 'string' },
    ],
    [
      'of a list with numbers',
      () => mask(rowsOf(2), [true, 1] as never),
      'mask: the mask must be a bool tensor or a list of booleans, got a list of boolean and number',
      { expected: 'bool', actual: 'a list of boolean and number' },
    ],
    [
      'of null',
      () => mask(rowsOf(2), null as never),
      'mask: the mask must be a bool tensor or a list of booleans, got null',
      { expected: 'bool', actual: 'null' },
    ],
    [
      'of nothing',
      () => mask(rowsOf(2), undefined as never),
      'mask: the mask must be a bool tensor or a list of booleans, got undefined',
      { expected: 'bool', actual: 'undefined' },
    ],
    [
      'as a condition',
      () => where([true], rowsOf(2), rowsOf(2)),
      'where: a mask of shape [1] does not match the first axes of the batch shape [2]',
      { expected: [2], actual: [1] },
    ],
    [
      'as a condition of numbers',
      () => where(tf.zeros([2], 'int32'), rowsOf(2), rowsOf(2)),
      'where: the mask must be a bool tensor or a list of booleans, got a tensor of int32',
      { expected: 'bool', actual: 'a tensor of int32' },
    ],
    [
      'of other weights than elements',
      () => reduceMasked(rowsOf(2), 'sum', [true]),
      'reduceMasked: a mask of shape [1] does not match the first axes of the batch shape [2]',
      { expected: [2], actual: [1] },
    ],
  ])

  itAllows([
    ['of the first axis alone', () => mask(rowsOf(2, 3), [true, false])],
    ['of all axes', () => mask(rowsOf(2, 3), tf.zeros([2, 3], 'bool'))],
    ['of no elements', () => mask(rowsOf(0), [])],
  ])
})

describe('setAt', () => {
  itRefuses([
    [
      'a place that is not there',
      () => setAt(rowsOf(2), [2], rowsOf()),
      'setAt: index 2 is out of range for axis 0 of size 2',
      { paths: [[]], expected: [2], actual: [2] },
    ],
    [
      'values of another shape',
      () => setAt(rowsOf(2, 3), [0], rowsOf(2)),
      'setAt: values of batch shape [2] for places of shape [3]',
      { paths: [[]], actual: [[2, 3], [2]] },
    ],
    [
      'values of fewer axes',
      () => setAt(rowsOf(2, 3), [0], rowsOf()),
      'setAt: values of batch shape [] for places of shape [3]',
      { paths: [[]], actual: [[2, 3], []] },
    ],
    [
      'an element twice',
      () => setAt(rowsOf(3), [[0, -3]], rowsOf(2)),
      'setAt: an element is chosen twice',
      { actual: [[0, -3]] },
    ],
  ])

  itAllows([['each element once', () => setAt(rowsOf(3), [[2, 0]], rowsOf(2))]])
})
