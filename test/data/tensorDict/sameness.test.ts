/** Identity and sharing of results, and the order of their keys. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { none, some } from 'fp-ts/lib/Option.js'
import { describe, expect, it } from 'vitest'
import { autoBatch, withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { exclude, modify, remove, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { dropEmptyNodes, flattenKeys, unflattenKeys } from '../../../src/data/tensorDict/flatKeys.js'
import { ellipsis, index, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import {
  filterMapLeaves,
  foldLeaves,
  leafPaths,
  mapLeaves,
  nodePaths,
  skeleton,
  zipLeaves,
} from '../../../src/data/tensorDict/leaves.js'
import { merge, mergeWith } from '../../../src/data/tensorDict/merge.js'
import { crop, pad, padToMultiple, unpadBatch } from '../../../src/data/tensorDict/padding.js'
import { flip, narrow, repeat, repeatInterleave, roll, slice, take } from '../../../src/data/tensorDict/selecting.js'
import {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  transpose,
  unflattenAxis,
} from '../../../src/data/tensorDict/shape.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { dynamic, rowsOf, small } from '../../kit/refusals.js'

useEngine()

const SAME: readonly (readonly [title: string, td: () => TensorDict, call: (td: TensorDict) => TensorDict])[] = [
  ['set of what is there', small, (td) => set(td, ['n', 'b'], find(td, ['n', 'b'])!)],
  ['modify that changes nothing', small, (td) => modify(td, ['n', 'b'], (leaf) => leaf)],
  ['exclude of nothing', small, (td) => exclude(td)],
  ['exclude of what is not there', small, (td) => exclude(td, 'x', ['n', 'c'], ['a', 'b'], ['x', 'y'])],
  ['remove of what is not there', small, (td) => remove(td, ['n', 'c'])],
  ['select of everything', small, (td) => select(td, 'n', 'a')],
  ['select of everything, leaf by leaf', small, (td) => select(td, ['n', 'b'], 'a')],
  ['rename to its own name', small, (td) => rename(td, ['n', 'b'], ['n', 'b'])],
  ['merge with itself', small, (td) => merge(td, td)],
  ['merge with nothing', small, (td) => merge(td, TensorDict({}, []))],
  ['merge with parts of itself', small, (td) => merge(td, select(td, ['n', 'b']))],
  ['unflattenKeys of names without the separator', small, (td) => dynamic(unflattenKeys(td, '.') as TensorDict)],
  ['dropEmptyNodes of none', small, (td) => dropEmptyNodes(td)],
  ['mapLeaves of the identity', small, (td) => mapLeaves(td, (leaf) => leaf)],
  ['filterMapLeaves that keeps all', small, (td) => filterMapLeaves(td, some)],
  ['zipLeaves that takes the left', small, (td) => zipLeaves(td, td, (left) => left)],
  ['skeleton of nodes', () => dynamic(TensorDict({ n: { m: {} } }, [2])), skeleton],
  ['withBatchShape of its own', () => rowsOf(2, 3), (td) => withBatchShape(td, [2, 3])],
  ['autoBatch of the longest', () => rowsOf(2), autoBatch],
  ['index of whole axes', () => rowsOf(2, 3), (td) => index(td, {}, ellipsis, { start: undefined } as never)],
  ['index by nothing', () => rowsOf(2, 3), (td) => index(td)],
  ['concat of one', () => rowsOf(2), (td) => concat([td])],
  ['pad by nothing', () => rowsOf(2), (td) => pad(td, [[0, 0]])],
  ['crop by nothing', () => rowsOf(2), (td) => crop(td, [[0, 0]])],
  ['padToMultiple of a multiple', () => rowsOf(4), (td) => padToMultiple(td, 2).td],
  ['unpadBatch of what was not padded', () => rowsOf(4), (td) => unpadBatch({ td, size: 4 })],
  ['take of all in order', () => rowsOf(2, 3), (td) => take(td, [0, 1, 2], 1)],
  ['slice of all', () => rowsOf(2), (td) => slice(td, 0, 2)],
  ['narrow to all', () => rowsOf(2, 3), (td) => narrow(td, { axis: 1, start: 0, length: 3 })],
  ['roll by the size', () => rowsOf(3), (td) => roll(td, -3)],
  ['repeat once', () => rowsOf(3), (td) => repeat(td, 1)],
  ['repeatInterleave once', () => rowsOf(3), (td) => repeatInterleave(td, 1)],
  ['flip of one', () => rowsOf(1), (td) => flip(td)],
  ['reshape to its own', () => rowsOf(2, 3), (td) => reshape(td, [2, -1])],
  ['flattenAxes of one', () => rowsOf(2, 3), (td) => flattenAxes(td, 1, 1)],
  ['unflattenAxis to one', () => rowsOf(2, 3), (td) => unflattenAxis(td, -1, [3])],
  ['permute of the own order', () => rowsOf(2, 3), (td) => permute(td, [0, -1])],
  ['transpose of one axis', () => rowsOf(2, 3), (td) => transpose(td, 1, -1)],
  ['squeeze without an axis of 1', () => rowsOf(2, 3), (td) => squeeze(td)],
  ['expand to its own', () => rowsOf(2, 3), (td) => expand(td, [2, 3])],
]

describe('the very TensorDict', () => {
  it.each(SAME)('is what gives %s', (_, make, call) => {
    const td = make()
    expect(call(td)).toBe(td)
  })
})

describe('another TensorDict', () => {
  it.each<readonly [string, (td: TensorDict) => TensorDict, readonly number[]]>([
    ['a new axis', (td) => index(td, newAxis), [1, 2, 3]],
    ['a range of one end', (td) => index(td, { end: 1 }), [1, 3]],
    ['a range backwards', (td) => index(td, { step: -1 }), [2, 3]],
    ['an axis of size 1 less', (td) => squeeze(expand(td, [1, 2, 3]), 0), [2, 3]],
    ['the same number of axes', (td) => reshape(td, [3, 2]), [3, 2]],
    ['fewer axes with the same beginning', (td) => reshape(td, [6]), [6]],
  ])('comes of %s', (_, call, batchShape) => {
    const td = rowsOf(2, 3)
    const result = call(td)
    expect(result).not.toBe(td)
    expect(result.batchShape).toEqual(batchShape)
  })
})

describe('nodes off the path', () => {
  it('are shared by every change of keys', () => {
    const td = dynamic(TensorDict({ a: { x: meta(1) }, b: { y: meta(2), z: {} } }, []))
    const shared = [
      set(td, ['a', 'w'], meta(1)),
      remove(td, ['a', 'x']),
      rename(td, ['a', 'x'], ['a', 'w']),
      modify(td, ['a', 'x'], () => meta(3)),
      merge(td, TensorDict({ a: { v: meta(1) } }, [])),
    ]
    for (const changed of shared) expect(find(changed, 'b')).toBe(find(td, 'b'))
    expect(find(exclude(td, ['b', 'y']), ['b', 'z'])).toBe(find(td, ['b', 'z']))
    expect(
      find(
        mapLeaves(td, (leaf, [name]) => (name === 'a' ? meta(0) : leaf)),
        'b',
      ),
    ).toBe(find(td, 'b'))
  })
})

describe('the order of keys', () => {
  const td = dynamic(TensorDict({ a: meta(1), n: { b: meta(2), c: meta(3) }, d: meta(4) }, []))

  it.each<readonly [string, () => TensorDict, readonly (readonly string[])[]]>([
    [
      'set puts a new entry last',
      () => set(td, ['n', 'a'], meta(0)),
      [['a'], ['n', 'b'], ['n', 'c'], ['n', 'a'], ['d']],
    ],
    ['set keeps the place of an old entry', () => set(td, 'a', meta(0)), [['a'], ['n', 'b'], ['n', 'c'], ['d']]],
    [
      'set makes nodes on the way',
      () => set(td, ['x', 'y', 'z'], meta(0)),
      [['a'], ['n', 'b'], ['n', 'c'], ['d'], ['x', 'y', 'z']],
    ],
    [
      'rename keeps the place if the last name changes',
      () => rename(td, ['n', 'b'], ['n', 'e']),
      [['a'], ['n', 'e'], ['n', 'c'], ['d']],
    ],
    ['rename keeps the place in the root', () => rename(td, 'a', 'e'), [['e'], ['n', 'b'], ['n', 'c'], ['d']]],
    [
      'rename puts the entry last elsewhere',
      () => rename(td, 'a', ['n', 'a']),
      [['n', 'b'], ['n', 'c'], ['n', 'a'], ['d']],
    ],
    ['rename out of a node', () => rename(td, ['n', 'b'], 'b'), [['a'], ['n', 'c'], ['d'], ['b']]],
    [
      'rename into another node of as many names',
      () => rename(td, ['n', 'b'], ['m', 'b']),
      [['a'], ['n', 'c'], ['d'], ['m', 'b']],
    ],
    [
      'rename of a node takes its entries along',
      () => rename(td, 'n', ['m', 'o']),
      [['a'], ['d'], ['m', 'o', 'b'], ['m', 'o', 'c']],
    ],
    ['select keeps the order', () => select(td, 'd', ['n', 'c'], 'a'), [['a'], ['n', 'c'], ['d']]],
    [
      'select of a node covers keys inside',
      () => select(td, ['n', 'c'], 'n'),
      [
        ['n', 'b'],
        ['n', 'c'],
      ],
    ],
    ['exclude of a node covers keys inside', () => exclude(td, 'n', ['n', 'c']), [['a'], ['d']]],
    ['exclude takes several keys of a node', () => exclude(td, ['n', 'b'], ['n', 'c'], 'd'), [['a']]],
    [
      'merge keeps the places of the left, then come the right',
      () => merge(td, TensorDict({ x: meta(1), n: { e: meta(1), b: meta(1) }, a: meta(1) }, [])),
      [['a'], ['n', 'b'], ['n', 'c'], ['n', 'e'], ['d'], ['x']],
    ],
    ['flattenKeys joins names', () => dynamic(flattenKeys(td, '::') as TensorDict), [['a'], ['n::b'], ['n::c'], ['d']]],
    [
      'unflattenKeys takes them apart',
      () =>
        dynamic(
          unflattenKeys(dynamic(TensorDict({ 'n.c.d': meta(1), a: meta(2), 'n.b': meta(3) }, [])), '.') as TensorDict,
        ),
      [['n', 'c', 'd'], ['n', 'b'], ['a']],
    ],
  ])('%s', (_, call, paths) => {
    expect(leafPaths(call())).toEqual(paths)
  })

  it('values go along with their keys', () => {
    expect(find(rename(td, ['n', 'b'], ['n', 'e']), ['n', 'e'])).toBe(find(td, ['n', 'b']))
    expect(find(rename(td, 'a', 'e'), 'e')).toBe(find(td, 'a'))
    expect(find(dynamic(flattenKeys(td, '.') as TensorDict), 'n.c')).toBe(find(td, ['n', 'c']))
    expect(find(merge(td, TensorDict({ a: meta(9) }, [])), 'a')).toEqual(meta(9))
  })

  it('mergeWith asks once for each leaf on both sides, with its path', () => {
    const seen: unknown[] = []
    const right = dynamic(TensorDict({ n: { e: meta(5), c: meta(6) }, x: meta(7), a: meta(8) }, []))
    const merged = mergeWith(td, right, (left, other, path) => {
      seen.push([path, left, other])
      return path[0] === 'n' ? left : other
    })
    expect(seen).toEqual([
      [['n', 'c'], meta(3), meta(6)],
      [['a'], meta(1), meta(8)],
    ])
    expect(toNested(merged)).toEqual({ a: 8, n: { b: 2, c: 3, e: 5 }, d: 4, x: 7 })
  })

  it('empty nodes stay, and go where they are dropped', () => {
    const nodes = dynamic(TensorDict({ e: {}, n: { m: {}, x: meta(1) }, o: { p: { q: {} } } }, []))
    expect(nodePaths(nodes)).toEqual([['e'], ['n'], ['n', 'm'], ['o'], ['o', 'p'], ['o', 'p', 'q']])
    expect(nodePaths(dropEmptyNodes(nodes))).toEqual([['n']])
    expect(nodePaths(remove(nodes, ['n', 'x']))).toEqual(nodePaths(nodes))
    expect(nodePaths(filterMapLeaves(nodes, () => none))).toEqual(nodePaths(nodes))
    expect(leafPaths(skeleton(nodes))).toEqual([])
    expect(nodePaths(dynamic(flattenKeys(nodes, '.') as TensorDict))).toEqual([])
  })

  it('leaves are folded, mapped and zipped in order, with their paths', () => {
    const join = foldLeaves(
      td,
      '',
      (text, leaf, path) => `${text}${path.join('.')}=${String((leaf as { value: unknown }).value)};`,
    )
    expect(join).toBe('a=1;n.b=2;n.c=3;d=4;')
    const seen: string[] = []
    zipLeaves(td, select(merge(TensorDict({ d: meta(0) }, []), td) as never, 'n', 'd', 'a'), (left, right, path) => {
      seen.push(path.join('.'))
      expect(right).toBe(find(td, path))
      return left
    })
    expect(seen).toEqual(['a', 'n.b', 'n.c', 'd'])
  })
})

describe('batch shapes', () => {
  it('of nodes that are made are those of the node around', () => {
    const td = dynamic(TensorDict({ n: TensorDict({}, [1, 2]) }, [1]))
    expect((find(set(td, ['n', 'm', 'x'], data([1, 2])), ['n', 'm']) as TensorDict).batchShape).toEqual([1, 2])
    expect((find(set(td, ['o', 'p', 'x'], data([1])), ['o', 'p']) as TensorDict).batchShape).toEqual([1])
  })

  it('of nodes are kept where they begin with the new one, and become it where they do not', () => {
    const td = dynamic(TensorDict({ long: TensorDict({ x: data([1, 2]) }, [1, 2]), same: { m: meta(1) } }, [1]))
    const longer = withBatchShape(td, [1, 2])
    expect([(find(longer, 'long') as TensorDict).batchShape, (find(longer, 'same') as TensorDict).batchShape]).toEqual([
      [1, 2],
      [1, 2],
    ])
    expect(find(longer, 'long')).toBe(find(td, 'long'))
    const shorter = withBatchShape(td, [])
    expect([
      (find(shorter, 'long') as TensorDict).batchShape,
      (find(shorter, 'same') as TensorDict).batchShape,
    ]).toEqual([[1, 2], [1]])
  })

  it('are the longest that all leaves admit', () => {
    scope(() => {
      const x = tf.zeros([2, 3, 4])
      const y = tf.zeros([2, 3])
      const shapeOf = (td: TensorDict): readonly number[] => td.batchShape
      expect(shapeOf(autoBatch({ x }))).toEqual([2, 3, 4])
      expect(shapeOf(autoBatch({ x, y }))).toEqual([2, 3])
      expect(shapeOf(autoBatch({ x, y, z: tf.zeros([3]) }))).toEqual([])
      expect(shapeOf(autoBatch({ x, y }, 1))).toEqual([2])
      expect(shapeOf(autoBatch({ x, n: { y, d: data(new Array(6).fill(0)) } }))).toEqual([2, 3])
      expect(shapeOf(autoBatch({ x, r: ragged('int32', [[], []]) }))).toEqual([2])
      expect(shapeOf(autoBatch({ x, n: TensorDict({}, [2, 3]) }))).toEqual([2, 3])
      expect(shapeOf(autoBatch({ d: data([1, 2, 3]), r: ragged('int32', [[], [], []]) }))).toEqual([3])
      expect(shapeOf(autoBatch({ m: meta(1), n: {} }))).toEqual([])
      expect(shapeOf(autoBatch(dynamic(TensorDict({ n: TensorDict({ x }, [2, 3]) }, []))))).toEqual([2, 3, 4])
      expect(shapeOf(autoBatch({ x: tf.scalar(1), m: meta(1) }))).toEqual([])
      return []
    })
  })
})
