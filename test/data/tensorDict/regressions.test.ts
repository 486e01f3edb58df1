/**
 * Traps of TensorDict 0.14, by the items of the list in the reference, and of our own earlier
 * versions: none of them is here.
 */
import { discard, liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { fromNested, zeros } from '../../../src/data/nested.js'
import { dataSpec, nodeSpec, refine, specOf, tensorSpec } from '../../../src/data/spec.js'
import { add, cast, div } from '../../../src/data/tensorDict/arithmetic.js'
import { autoBatch, withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { diff, equals, hash } from '../../../src/data/tensorDict/compare.js'
import { exclude, partitionKeys, remove, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { flattenKeys, unflattenKeys } from '../../../src/data/tensorDict/flatKeys.js'
import { format, toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { leafPaths, mapLeaves, nodePaths, zipLeaves } from '../../../src/data/tensorDict/leaves.js'
import { assign, merge, mergeWith } from '../../../src/data/tensorDict/merge.js'
import { find, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { traverseLeavesTask } from '../../../src/data/tensorDict/traverse.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, thrownBy } from '../../kit/refusals.js'

useEngine()

describe('traps of TensorDict 0.14', () => {
  it('item 10: TensorDicts without keys have batch shapes all the same, and those are compared', () => {
    expect(() => merge(TensorDict({}, [3, 4]), TensorDict({}, [3, 5]))).toThrow('batch shapes [3, 4] and [3, 5] differ')
    expect(() => zipLeaves(TensorDict({}, [3]), TensorDict({}, [4]), (leaf) => leaf)).toThrow('[3] and [4] differ')
    expect(equals(TensorDict({}, [3]), TensorDict({}, [4]))).toBe(false)
  })

  it('item 11: a node that is renamed into itself is refused, not lost', () => {
    const td = TensorDict({ n: { k: meta(1) } }, [])
    expect(() => rename(td, 'n', ['n', 'k2'])).toThrow('cannot move into itself, to "n" > "k2"')
    expect(() => rename(td, 'n', ['n', 'k'])).toThrow('cannot move into itself')
    expect(leafPaths(td)).toEqual([['n', 'k']])
  })

  it('item 11: renaming refuses what is taken, instead of overwriting it', () => {
    const td = TensorDict({ a: meta(1), n: { b: meta(2) } }, [])
    expect(() => rename(td, 'a', ['n', 'b'])).toThrow('the name "n" > "b" is taken')
    expect(() => rename(td, ['n', 'b'], 'n')).toThrow('the name "n" is taken')
    expect(leafPaths(rename(td, 'a', ['n', 'a']))).toEqual([
      ['n', 'b'],
      ['n', 'a'],
    ])
  })

  it('item 12: a merge that fails at the second key has not changed the first', () => {
    const td = TensorDict({ a: data([1]), n: {} }, [1])
    const before = toNested(td)
    const error = thrownBy(() => assign(td, { a: data([2]), n: data([1]), m: data([1, 2]) }))
    expect(error.details.problems).toEqual([{ path: ['m'], reason: '2 values for batch shape [1]' }])
    expect(() => merge(td, TensorDict({ a: data([2]), n: data([1]) }, [1]))).toThrow('a node on the left and a leaf')
    expect(toNested(td)).toEqual(before)
  })

  it('item 15: wrong keys and shapes are named in one kind of error', () => {
    for (const key of [5, null, [], ['a', 5], { a: 1 }]) {
      const error = thrownBy(() => select(dynamic(TensorDict({}, [])), key as never))
      expect(error.message).toContain('a key is a string or a list of at least one string')
    }
    expect(thrownBy(() => withBatchShape(TensorDict({}, []), [1.5])).message).toContain('not a natural number')
    expect(thrownBy(() => autoBatch(TensorDict({}, []), -1)).message).toContain('maxAxes')
  })

  it('item 17: nothing changes its argument, in any node', () => {
    const td = TensorDict({ a: { b: { c: meta(1) } } }, [])
    const text = format(td)
    set(td, ['a', 'b', 'd'], meta(2))
    remove(td, ['a', 'b', 'c'])
    rename(td, ['a', 'b'], ['a', 'x'])
    expect(format(td)).toBe(text)
  })

  it('select keeps the rest of a node of which a key is named as well, in the order of the source', () => {
    const td = TensorDict({ n: { a: meta(1), b: meta(2) }, c: meta(3) }, [])
    expect(leafPaths(select(td, 'c', ['n', 'a'], 'n'))).toEqual([['n', 'a'], ['n', 'b'], ['c']])
    expect(leafPaths(select(td, 'c', ['n', 'b']))).toEqual([['n', 'b'], ['c']])
  })

  it('empty nodes stay: in exclude, in parts, in select of the node', () => {
    const td = TensorDict({ n: { a: meta(1) }, m: {} }, [])
    expect(nodePaths(exclude(td, ['n', 'a']))).toEqual([['n'], ['m']])
    const [part, rest] = partitionKeys(td, [['n', 'a']])
    expect([nodePaths(part), nodePaths(rest)]).toEqual([[['n']], [['n'], ['m']]])
  })

  it('flat names that collide are refused with both paths, the empty separator too', () => {
    const td = TensorDict({ 'a.b': meta(1), a: { b: meta(2) } }, [])
    expect(() => flattenKeys(td, '.')).toThrow('"a" > "b": would have the name "a.b" of "a.b"')
    expect(() => flattenKeys(td, '')).toThrow('the separator is empty')
    expect(() => unflattenKeys(TensorDict({ 'a.b': meta(1), a: meta(2) }, []), '.')).toThrow(
      'its place is taken by the node "a"',
    )
    expect(leafPaths(unflattenKeys(TensorDict({ 'a..b': meta(1) }, []), '.'))).toEqual([['a', '', 'b']])
  })

  it('a separator that names make with their neighbours is refused: it could not be taken apart', () => {
    expect(() => flattenKeys(TensorDict({ a: { b: meta(1) } }, []), 'aa')).toThrow('could not be distinguished')
  })

  it('dtypes are not promoted, and bools are not added', () => {
    scope(() => {
      const of = (x: tf.Tensor): TensorDict => TensorDict({ x }, [])
      expect(() => add(of(tf.scalar(1)), of(tf.scalar(1, 'int32')))).toThrow('float32 tensor [] and int32 tensor []')
      expect(() => add(of(tf.scalar(true, 'bool')), of(tf.scalar(true, 'bool')))).toThrow('arithmetic is for numbers')
      expect(() => add(of(tf.scalar(1, 'int32')), 0.5)).toThrow('0.5 is not int32')
      expect(toNested(div(of(tf.scalar(-3, 'int32')), 2))).toEqual({ x: -2 })
      expect((find(cast(of(tf.scalar(2, 'int32')), 'float32'), 'x') as tf.Tensor).dtype).toBe('int32') // not floating
      return []
    })
  })
})

describe('traps of our own earlier versions', () => {
  it('nodes of other batch shapes are not merged into one in which their leaves do not fit', () => {
    const left = TensorDict({ n: TensorDict({ d: data([1, 2]) }, [1, 2]) }, [1])
    const right = TensorDict({ n: { e: data([1]) } }, [1])
    expect(() => merge(left, right)).toThrow('"n": batch shapes [1, 2] and [1] differ')
  })

  it('the root can shrink over a node that has more batch axes', () => {
    const td = TensorDict({ n: TensorDict({ d: data([1, 2, 3, 4]) }, [2, 2]) }, [2])
    const small = withBatchShape(td, [])
    expect((find(small, 'n') as TensorDict).batchShape).toEqual([2, 2])
    expect(equals(withBatchShape(small, [2]), td)).toBe(true)
  })

  it('the error of a map lists every path, and its tensors are freed', () => {
    scope(() => {
      const td = TensorDict({ a: tf.zeros([2]), n: { b: tf.zeros([2]) } }, [2])
      const before = liveTensors().count
      const error = thrownBy(() => mapLeaves(td, () => tf.zeros([5])))
      expect(error.details.problems?.map(({ path }) => path)).toEqual([['a'], ['n', 'b']])
      expect(liveTensors().count).toBe(before)
      return []
    })
  })

  it('a tensor without elements keeps its axes as nested lists', () => {
    scope(() => {
      const td = TensorDict({ x: tf.zeros([2, 0, 3]) }, [2])
      expect(toNested(td)).toEqual({ x: [[], []] })
      const read = fromNested(specOf(td), toNested(td), [2])
      expect(E.isRight(read) && equals(read.right, td)).toBe(true)
      return []
    })
  })

  it('0 and -0 differ, as their reciprocals do; values that are equal have one hash', () => {
    const of = (x: unknown): TensorDict => TensorDict({ r: ragged('float32', [[x as number]]) }, [1])
    expect(diff(of(0), of(-0))).toEqual([{ path: ['r'], reason: '0 and -0 at element 0' }])
    expect(equals(of(Number.NaN), of(-Number.NaN))).toBe(true)
    const [a, b] = [
      { ids: Int32Array.of(1, 2), tags: ['x'] },
      { tags: ['x'], ids: Int32Array.of(1, 2) },
    ].map((value) => TensorDict({ value: meta(value) }, []))
    expect(equals(a!, b!)).toBe(true)
    expect(hash(a!)).toBe(hash(b!))
  })

  it('what a resolver makes must fit, and is freed if it does not', () => {
    scope(() => {
      const td = TensorDict({ x: tf.zeros([2]) }, [2])
      const before = liveTensors().count
      expect(() =>
        mergeWith(td, td.entries.isEmpty() ? td : TensorDict({ x: find(td, 'x')! }, [2]), () => tf.zeros([3])),
      ).toThrow('"x"')
      expect(liveTensors().count).toBe(before)
      return []
    })
  })
})

describe('plain values', () => {
  const spec = { n: nodeSpec([2], { x: tensorSpec('int32', [2]) }), text: dataSpec<string>('string') }

  it('of a spec are read, nodes with more batch axes too', () => {
    scope(() => {
      const value = {
        n: {
          x: [
            [
              [1, 2],
              [3, 4],
            ],
          ],
        },
        text: ['a'],
      }
      const read = fromNested(spec, value, [1])
      expect(E.isRight(read) && toNested(read.right)).toEqual(value)
      expect(E.isRight(read) && E.isRight(refine(spec, read.right, 'here'))).toBe(true)
      return []
    })
  })

  it.each([
    [
      'a number that the dtype cannot hold',
      {
        n: {
          x: [
            [
              [1, 2],
              [3, 0.5],
            ],
          ],
        },
        text: ['a'],
      },
      '"n" > "x": [0] [1] [1] 0.5 is not int32',
    ],
    [
      'a list that is too short',
      { n: { x: [[[1, 2]]] }, text: ['a'] },
      '"n" > "x": [0] expected a list of 2, got one of 1',
    ],
    [
      'text where a number should be',
      {
        n: {
          x: [
            [
              ['1', 2],
              [3, 4],
            ],
          ],
        },
        text: ['a'],
      },
      'expected int32, got string',
    ],
    ['what is missing and what is too much', { text: ['a'], rest: 1 }, '"n": missing; "rest": not in the spec'],
    [
      'a list for a record',
      { n: [], text: 5 },
      '"n": expected a record, got a list of 0; "text": expected a list of 1, got number',
    ],
    ['null', null, 'expected a record, got null'],
    ['a long list of nothing', { n: { x: new Array(1e6) }, text: ['a'] }, 'expected a list of 1, got one of 1000000'],
  ])('of another shape are refused: %s', (_, value, reason) => {
    const read = fromNested(spec, value, [1])
    expect(E.isLeft(read) && read.left.reason).toContain(reason)
  })

  it('zeros of data need a value', () => {
    expect(() => zeros(spec, [1])).toThrow('"text": data of string has no zero')
    scope(() => {
      expect(toNested(zeros(spec, [1], { value: () => '' }))).toEqual({
        n: {
          x: [
            [
              [0, 0],
              [0, 0],
            ],
          ],
        },
        text: [''],
      })
      return []
    })
  })
})

describe('values that only untyped code can give', () => {
  it('no change takes a value that is no entry', () => {
    const td = TensorDict({ a: meta(1) }, [])
    for (const [value, said] of [
      [undefined, 'got undefined'],
      [null, 'got null'],
      [3, 'got number'],
      [{ b: meta(1) }, 'got object'],
      [{ _tag: 'Other' }, 'got object'],
    ] as const) {
      const untyped = value as never
      expect(() => set(td, 'a', untyped)).toThrow(TensorDictError)
      for (const key of ['a', 'new']) expect(() => set(td, key, untyped)).toThrow(said)
    }
  })

  it('TensorDicts in meta values are equal if their entries are', () => {
    const holding = (x: number): TensorDict => TensorDict({ best: meta(TensorDict({ a: meta(x) }, [])) }, [])
    expect(equals(holding(1), holding(1))).toBe(true)
    expect(hash(holding(1))).toBe(hash(holding(1)))
    expect(equals(holding(1), holding(2))).toBe(false)
  })
})

describe('tasks over leaves', () => {
  const make = (): TensorDict => scope(() => TensorDict({ a: tf.zeros([1]), b: tf.ones([1]) }, [1]))

  it('give all leaves, one after the other', async () => {
    const td = make()
    const result = await traverseLeavesTask(td, (leaf) => TE.right(leaf instanceof tf.Tensor ? tf.neg(leaf) : leaf))()
    expect(E.isRight(result) && toNested(result.right)).toEqual({ a: [-0], b: [-1] })
    discard([td, E.isRight(result) ? result.right : []])
  })

  it('that fail, reject or do not fit leave no tensor of the tasks before', async () => {
    const td = make()
    const before = liveTensors().count
    const second = <T>(last: () => T) =>
      traverseLeavesTask(td, (leaf, [name]) =>
        name === 'a' && leaf instanceof tf.Tensor
          ? TE.right(tf.neg(leaf))
          : (last() as TE.TaskEither<string, tf.Tensor>),
      )
    expect(await second(() => TE.left('no'))()).toEqual(E.left('no'))
    await expect(second(() => () => Promise.reject(new Error('broken')))()).rejects.toThrow('broken')
    await expect(second(() => TE.right(tf.zeros([3])))()).rejects.toThrow('"b"')
    expect(liveTensors().count).toBe(before)
    discard(td)
  })
})
