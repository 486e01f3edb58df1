/** Exact error messages of making and reading a TensorDict. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { modify, partitionKeys, remove, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { absence, get, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, itAllows, itRefuses, small, thrownBy } from '../../kit/refusals.js'

useEngine()

const numbered = (count: number): TensorDict =>
  dynamic(TensorDict(Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, meta(i)])), []))

describe('TensorDict', () => {
  itRefuses([
    [
      'a negative size',
      () => TensorDict({}, [2, -1]),
      'TensorDict: batch shape [2,-1] has a size that is not a natural number',
      { expected: 'natural numbers', actual: [2, -1] },
    ],
    [
      'a size with a fraction',
      () => TensorDict({}, [1.5]),
      'TensorDict: batch shape [1.5] has a size that is not a natural number',
      { expected: 'natural numbers', actual: [1.5] },
    ],
    [
      'a size that no number is exact for',
      () => TensorDict({}, [2 ** 53]),
      'TensorDict: batch shape [9007199254740992] has a size that is not a natural number',
      { expected: 'natural numbers', actual: [9007199254740992] },
    ],
    [
      'a batch shape that is no list',
      () => TensorDict({}, 2 as never),
      'TensorDict: batch shape [2] has a size that is not a natural number',
      { expected: 'natural numbers', actual: 2 },
    ],
    [
      'too few values',
      () => TensorDict({ d: data([1]) }, [2]),
      'TensorDict: at "d": 1 values for batch shape [2]',
      { path: ['d'], paths: [['d']], expected: [2] },
    ],
    [
      'too many ragged rows',
      () => TensorDict({ r: ragged('int32', [[], []]) }, []),
      'TensorDict: at "r": 2 ragged rows for batch shape []',
      { path: ['r'], paths: [['r']], expected: [] },
    ],
    [
      'a tensor with another first axis',
      () => TensorDict({ x: tf.zeros([3, 2]) }, [2]),
      'TensorDict: at "x": tensor of shape [3, 2] does not begin with the batch shape [2]',
      { path: ['x'], paths: [['x']], expected: [2] },
    ],
    [
      'a tensor with fewer axes',
      () => TensorDict({ x: tf.zeros([2]) }, [2, 1]),
      'TensorDict: at "x": tensor of shape [2] does not begin with the batch shape [2, 1]',
      { path: ['x'], paths: [['x']], expected: [2, 1] },
    ],
    [
      'a node with another batch shape',
      () => TensorDict({ n: TensorDict({}, [3, 1]) }, [2]),
      'TensorDict: at "n": node of batch shape [3, 1] does not begin with the batch shape [2]',
      { path: ['n'], paths: [['n']], expected: [2] },
    ],
    [
      'a node with fewer batch axes',
      () => TensorDict({ n: TensorDict({}, []) }, [2]),
      'TensorDict: at "n": node of batch shape [] does not begin with the batch shape [2]',
      { path: ['n'], paths: [['n']], expected: [2] },
    ],
    [
      'null',
      () => TensorDict({ a: null as never }, []),
      'TensorDict: at "a": expected a tensor, ragged rows, data, meta or a record, got null',
      { path: ['a'], paths: [['a']], expected: [] },
    ],
    [
      'a function, a list and an instance of a class',
      () => TensorDict({ f: (() => 1) as never, l: [1] as never, d: new Date(0) as never }, []),
      'TensorDict: at "f": expected a tensor, ragged rows, data, meta or a record, got function; at "l": expected a tensor, ragged rows, data, meta or a record, got object; at "d": expected a tensor, ragged rows, data, meta or a record, got object',
      { path: ['f'], paths: [['f'], ['l'], ['d']], expected: [] },
    ],
    [
      'an unknown kind of leaf',
      () => TensorDict({ a: Object.assign(new Map(), { _tag: 'Blob' }) as never }, []),
      'TensorDict: at "a": expected a tensor, ragged rows, data, meta or a record, got object',
      { path: ['a'], paths: [['a']], expected: [] },
    ],
    [
      'every problem at every depth',
      () => TensorDict({ a: data([]), n: { b: 5 as never, m: { c: data([1, 2]) } }, ok: meta(1) }, [1]),
      'TensorDict: at "a": 0 values for batch shape [1]; at "n" > "b": expected a tensor, ragged rows, data, meta or a record, got number; at "n" > "m" > "c": 2 values for batch shape [1]',
      { path: ['a'], paths: [['a'], ['n', 'b'], ['n', 'm', 'c']], expected: [1] },
    ],
  ])

  itAllows([
    ['no batch elements', () => TensorDict({ d: data([]), r: ragged('int32', []), x: tf.zeros([0, 2]) }, [0])],
    ['a record without a prototype', () => TensorDict(Object.assign(Object.create(null), { a: meta(1) }), [])],
    ['the largest exact size', () => TensorDict({}, [2 ** 53 - 1])],
    ['a node with more batch axes', () => TensorDict({ n: TensorDict({}, [2, 0]) }, [2])],
  ])

  it('refuses a variable, which would change with its next assignment', () => {
    scope(() => {
      const variable = tf.variable(tf.zeros([2]))
      try {
        expect(thrownBy(() => TensorDict({ v: { w: variable } }, [2])).message).toBe(
          'TensorDict: at "v" > "w": a tf.Variable would change with its next assignment: use `variable.clone()`, which keeps its current value',
        )
      } finally {
        variable.dispose()
      }
      return []
    })
  })

  it('keeps its batch shape if the list that was given changes', () => {
    const shape = [1]
    const td = TensorDict({ n: {} }, shape)
    shape[0] = 2
    expect([td.batchShape, get(td, 'n').batchShape]).toEqual([[1], [1]])
  })
})

describe('TensorDictError', () => {
  it('is an error by its name, with its operation, path and details', () => {
    const error = new TensorDictError('set', ['a', 'b'], 'no')
    expect([error.name, error.message, error.operation, error.path, error.details]).toEqual([
      'TensorDictError',
      'set: at "a" > "b": no',
      'set',
      ['a', 'b'],
      { reason: 'no' },
    ])
  })

  it('starts with the reason, then lists all problems, then the alternative', () => {
    const problems = [
      { path: ['x'], reason: 'one' },
      { path: [], reason: 'two' },
    ]
    expect(new TensorDictError('f', ['p'], { reason: 'no', problems, hint: 'do g' }).message).toBe(
      'f: at "p": no; at "x": one; two (do g)',
    )
    expect(new TensorDictError('f', ['p'], { problems }).message).toBe('f: at "x": one; two')
  })
})

describe('get', () => {
  itRefuses([
    [
      'a key that is not there',
      () => get(small() as never, 'c' as never),
      'get: at "c": no such entry; the keys are "a", "n"',
      { path: ['c'] },
    ],
    [
      'a key that is not in a node',
      () => get(small() as never, 'n' as never, 'c' as never),
      'get: at "n" > "c": no such entry in "n"; the keys are "b"',
      { path: ['n', 'c'] },
    ],
    [
      'a key inside of a leaf',
      () => get(small() as never, 'n' as never, 'b' as never, 'c' as never),
      'get: at "n" > "b" > "c": no such entry; "n" > "b" is a leaf',
      { path: ['n', 'b', 'c'] },
    ],
    [
      'a key of a TensorDict without keys',
      () => get(TensorDict({ n: {} }, []) as never, 'n' as never, 'x' as never, 'y' as never),
      'get: at "n" > "x" > "y": no such entry in "n"; the node has no keys',
      { path: ['n', 'x', 'y'] },
    ],
    [
      'a key, naming all of twenty',
      () => get(numbered(20) as never, 'x' as never),
      'get: at "x": no such entry; the keys are "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19"',
      { path: ['x'] },
    ],
    [
      'a key, naming twenty of twenty-two',
      () => get(numbered(22) as never, 'x' as never),
      'get: at "x": no such entry; the keys are "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19" and 2 more',
      { path: ['x'] },
    ],
  ])

  it('reports nothing if all is present', () => {
    expect([absence(small(), ['n', 'b']), absence(small(), ['n']), absence(small(), [])]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })
})

describe('a key', () => {
  itRefuses([
    [
      'a number: set',
      () => set(small(), 5 as never, meta(1)),
      'set: a key is a string or a list of at least one string, got number',
      { expected: 'a string or a list of strings', actual: 5 },
    ],
    [
      'null: modify',
      () => modify(small(), null as never, () => meta(1)),
      'modify: a key is a string or a list of at least one string, got null',
      { expected: 'a string or a list of strings', actual: null },
    ],
    [
      'an empty list: remove',
      () => remove(small(), [] as never),
      'remove: a key is a string or a list of at least one string, got an empty list',
      { expected: 'a string or a list of strings', actual: [] },
    ],
    [
      'a list with a number and null: remove',
      () => remove(small(), ['a', 5, null] as never),
      'remove: a key is a string or a list of at least one string, got a list of string and number and null',
      { expected: 'a string or a list of strings', actual: ['a', 5, null] },
    ],
    [
      'a record: select',
      () => select(small(), { a: 1 } as never),
      'select: a key is a string or a list of at least one string, got object',
      { expected: 'a string or a list of strings', actual: { a: 1 } },
    ],
    [
      'a list with nothing: partitionKeys',
      () => partitionKeys(small(), [[undefined, 'a'] as never]),
      'partitionKeys: a key is a string or a list of at least one string, got a list of undefined and string',
      { expected: 'a string or a list of strings', actual: [undefined, 'a'] },
    ],
    [
      'false: rename, from',
      () => rename(small(), false as never, 'b'),
      'rename: a key is a string or a list of at least one string, got boolean',
      { expected: 'a string or a list of strings', actual: false },
    ],
    [
      'true: rename, to',
      () => rename(small(), 'a', true as never),
      'rename: a key is a string or a list of at least one string, got boolean',
      { expected: 'a string or a list of strings', actual: true },
    ],
  ])
})
