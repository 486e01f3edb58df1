/** Exact error messages of changing keys. */
import { describe } from 'vitest'
import { exclude, modify, partitionKeys, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { flattenKeys, unflattenKeys } from '../../../src/data/tensorDict/flatKeys.js'
import { data, meta } from '../../../src/data/tensorDict/leaf.js'
import { assign, merge, mergeWith } from '../../../src/data/tensorDict/merge.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { dynamic, itAllows, itRefuses, rowsOf, small } from '../../kit/refusals.js'

describe('set, modify, exclude', () => {
  itRefuses([
    [
      'a leaf on the way',
      () => set(small(), ['a', 'x', 'y'], meta(1)),
      'set: at "a" > "x" > "y": "a" is a leaf, not a node (remove "a" first, to put a node in its place)',
      { path: ['a', 'x', 'y'], expected: 'a node', actual: meta(1) },
    ],
    [
      'a leaf on the way, in a node',
      () => set(small(), ['n', 'b', 'x'], meta(1)),
      'set: at "n" > "b" > "x": "n" > "b" is a leaf, not a node (remove "n" > "b" first, to put a node in its place)',
      { path: ['n', 'b', 'x'], expected: 'a node', actual: meta(2) },
    ],
    [
      'an entry that does not fit',
      () => set(rowsOf(2), 'e', data([1])),
      'set: at "e": 1 values for batch shape [2]',
      { path: ['e'], expected: [2], actual: data([1]) },
    ],
    [
      'an entry that does not fit in a node',
      () => set(dynamic(TensorDict({ n: TensorDict({}, [1, 2]) }, [1])), ['n', 'e'], data([1])),
      'set: at "n" > "e": 1 values for batch shape [1, 2]',
      { path: ['n', 'e'], expected: [1, 2], actual: data([1]) },
    ],
    [
      'an entry that does not fit in a new node',
      () => set(rowsOf(2), ['n', 'e'], data([1])),
      'set: at "n" > "e": 1 values for batch shape [2]',
      { path: ['n', 'e'], expected: [2], actual: data([1]) },
    ],
    [
      'to modify what is not there',
      () => modify(small(), ['n', 'c'], () => meta(1)),
      'modify: at "n" > "c": no such entry in "n"; the keys are "b"',
      { path: ['n', 'c'] },
    ],
    [
      'to modify inside of a leaf',
      () => modify(small(), ['a', 'c'], () => meta(1)),
      'modify: at "a" > "c": no such entry; "a" is a leaf',
      { path: ['a', 'c'] },
    ],
    [
      'a modified entry that does not fit',
      () => modify(rowsOf(2), 'd', () => data([1, 2, 3])),
      'modify: at "d": 3 values for batch shape [2]',
      { path: ['d'], expected: [2], actual: data([1, 2, 3]) },
    ],
    [
      'to exclude a number',
      () => exclude(small(), 'a', 7 as never),
      'exclude: a key is a string or a list of at least one string, got number',
      { expected: 'a string or a list of strings', actual: 7 },
    ],
  ])
})

describe('select, partitionKeys', () => {
  itRefuses([
    [
      'to select what is not there, naming each',
      () => select(small(), 'x', 'a', ['n', 'y']),
      'select: at "x": no such entry; the keys are "a", "n"; at "n" > "y": no such entry in "n"; the keys are "b"',
      { path: ['x'], paths: [['x'], ['n', 'y']] },
    ],
    [
      'to take apart by what is not there',
      () => partitionKeys(small(), ['a'], ['y', ['n', 'z']]),
      'partitionKeys: at "y": no such entry; the keys are "a", "n"; at "n" > "z": no such entry in "n"; the keys are "b"',
      { path: ['y'], paths: [['y'], ['n', 'z']] },
    ],
    [
      'a key in two lists',
      () => partitionKeys(small(), ['n'], ['a'], ['a']),
      'partitionKeys: at "a": in list 1, overlaps with "a" in list 2',
      { path: ['a'], paths: [['a']] },
    ],
    [
      "a key inside of another list's",
      () => partitionKeys(small(), ['n', 'a'], [['n', 'b'], 'a']),
      'partitionKeys: at "n": in list 0, overlaps with "n" > "b" in list 1; at "a": in list 0, overlaps with "a" in list 1',
      { path: ['n'], paths: [['n'], ['a']] },
    ],
    [
      "a key around another list's",
      () => partitionKeys(small(), [['n', 'b']], ['n']),
      'partitionKeys: at "n" > "b": in list 0, overlaps with "n" in list 1',
      { path: ['n', 'b'], paths: [['n', 'b']] },
    ],
  ])

  itAllows([['overlaps within a list', () => partitionKeys(small(), ['n', ['n', 'b']], ['a'])]])
})

describe('rename', () => {
  itRefuses([
    [
      'what is not there',
      () => rename(small(), 'x', 'y'),
      'rename: at "x": no such entry; the keys are "a", "n"',
      { path: ['x'] },
    ],
    [
      'what is not there, to itself',
      () => rename(small(), 'x', 'x'),
      'rename: at "x": no such entry; the keys are "a", "n"',
      { path: ['x'] },
    ],
    ['a name that is taken', () => rename(small(), 'a', 'n'), 'rename: at "a": the name "n" is taken', { path: ['a'] }],
    [
      'a name that is taken in a node',
      () => rename(small(), 'a', ['n', 'b']),
      'rename: at "a": the name "n" > "b" is taken',
      { path: ['a'] },
    ],
    [
      'a node into itself',
      () => rename(small(), 'n', ['n', 'm']),
      'rename: at "n": cannot move into itself, to "n" > "m"',
      { path: ['n'] },
    ],
    [
      'a leaf into itself',
      () => rename(small(), 'a', ['a', 'b']),
      'rename: at "a": cannot move into itself, to "a" > "b"',
      { path: ['a'] },
    ],
    [
      'a way through a leaf',
      () => rename(small(), ['n', 'b'], ['a', 'b']),
      'rename: at "a" > "b": "a" is a leaf, not a node (remove "a" first, to put a node in its place)',
      { path: ['a', 'b'], expected: 'a node', actual: meta(1) },
    ],
    [
      'an entry that does not fit where it goes',
      () => rename(dynamic(TensorDict({ d: data([1]), n: TensorDict({}, [1, 2]) }, [1])), 'd', ['n', 'd']),
      'rename: at "n" > "d": 1 values for batch shape [1, 2]',
      { path: ['n', 'd'], expected: [1, 2], actual: data([1]) },
    ],
  ])
})

describe('merge, mergeWith, assign', () => {
  itRefuses([
    [
      'other batch shapes',
      () => merge(rowsOf(2), rowsOf(3)),
      'merge: batch shapes [2] and [3] differ (to replace an entry, exclude it on the left first)',
      { paths: [[]], expected: [2], actual: [3] },
    ],
    [
      'a leaf for a node, and a node for a leaf',
      () => merge(small(), TensorDict({ n: meta(1), a: {} }, [])),
      'merge: at "n": a node on the left and a leaf on the right; at "a": a leaf on the left and a node on the right (to replace an entry, exclude it on the left first)',
      { path: ['n'], paths: [['n'], ['a']], expected: [], actual: [] },
    ],
    [
      'a leaf for a node in a node',
      () => merge(TensorDict({ m: small() }, []), TensorDict({ m: { n: meta(3) } }, [])),
      'merge: at "m" > "n": a node on the left and a leaf on the right (to replace an entry, exclude it on the left first)',
      { path: ['m', 'n'], paths: [['m', 'n']], expected: [], actual: [] },
    ],
    [
      'nodes of other batch shapes',
      () => merge(TensorDict({ n: TensorDict({}, [1]) }, []), TensorDict({ n: {} }, [])),
      'merge: at "n": batch shapes [1] and [] differ (to replace an entry, exclude it on the left first)',
      { path: ['n'], paths: [['n']], expected: [], actual: [] },
    ],
    [
      'all of it at once',
      () =>
        mergeWith(
          TensorDict({ a: {}, n: TensorDict({}, [2, 4]) }, [2]),
          TensorDict({ a: meta(1), n: TensorDict({}, [3, 1]) }, [3]),
          (left) => left,
        ),
      'mergeWith: batch shapes [2] and [3] differ; at "a": a node on the left and a leaf on the right; at "n": batch shapes [2, 4] and [3, 1] differ (to replace an entry, exclude it on the left first)',
      { paths: [[], ['a'], ['n']], expected: [2], actual: [3] },
    ],
    [
      'results that do not fit',
      () =>
        mergeWith(
          TensorDict({ n: rowsOf(2), d: data([1, 2]) }, [2]),
          TensorDict({ n: rowsOf(2), d: data([1, 2]) }, [2]),
          () => data([1]),
        ),
      'mergeWith: at "n" > "d": 1 values for batch shape [2]; at "d": 1 values for batch shape [2]',
      { path: ['n', 'd'], paths: [['n', 'd'], ['d']] },
    ],
    [
      'entries that do not fit',
      () => assign(rowsOf(2), { e: data([1]) }),
      'TensorDict: at "e": 1 values for batch shape [2]',
      { path: ['e'], paths: [['e']], expected: [2] },
    ],
    [
      'an entry against a node',
      () => assign(small(), { n: meta(1) }),
      'merge: at "n": a node on the left and a leaf on the right (to replace an entry, exclude it on the left first)',
      { path: ['n'], paths: [['n']], expected: [], actual: [] },
    ],
  ])
})

describe('flattenKeys, unflattenKeys', () => {
  itRefuses([
    [
      'an empty separator',
      () => flattenKeys(small(), ''),
      'flattenKeys: the separator is empty',
      { expected: 'a string that is not empty', actual: '' },
    ],
    [
      'a separator that is no string',
      () => unflattenKeys(small(), 5 as never),
      'unflattenKeys: the separator must be a string, got number',
      { expected: 'a string that is not empty', actual: 5 },
    ],
    [
      'two leaves of one name',
      () => flattenKeys(TensorDict({ n: { 'b.c': meta(1) }, 'n.b': { c: meta(2) } }, []), '.'),
      'flattenKeys: at "n" > "b.c": could not be distinguished from "n" > "b" > "c" by the separator "."; at "n.b" > "c": would have the name "n.b.c" of "n" > "b.c"; at "n.b" > "c": could not be distinguished from "n" > "b" > "c" by the separator "." (rename colliding entries, or select the entries to flatten)',
      {
        path: ['n', 'b.c'],
        paths: [
          ['n', 'b.c'],
          ['n.b', 'c'],
          ['n.b', 'c'],
        ],
      },
    ],
    [
      'a name with the separator in it',
      () => flattenKeys(TensorDict({ 'a.b': meta(1), c: meta(2) }, []), '.'),
      'flattenKeys: at "a.b": could not be distinguished from "a" > "b" by the separator "." (rename colliding entries, or select the entries to flatten)',
      { path: ['a.b'], paths: [['a.b']] },
    ],
    [
      'names that make the separator',
      () => flattenKeys(TensorDict({ 'a-': { b: meta(1) } }, []), '--'),
      'flattenKeys: at "a-" > "b": could not be distinguished from "a" > "-b" by the separator "--" (rename colliding entries, or select the entries to flatten)',
      { path: ['a-', 'b'], paths: [['a-', 'b']] },
    ],
    [
      'names that make as many other names',
      () => flattenKeys(TensorDict({ 'a-': { b: meta(1) } }, []), '-'),
      'flattenKeys: at "a-" > "b": could not be distinguished from "a" > "" > "b" by the separator "-" (rename colliding entries, or select the entries to flatten)',
      { path: ['a-', 'b'], paths: [['a-', 'b']] },
    ],
    [
      'nodes with more batch axes',
      () => flattenKeys(TensorDict({ n: TensorDict({ m: { a: meta(1) } }, [2, 3]) }, []), '.'),
      'flattenKeys: at "n": batch shape [2, 3] of a node would be lost; at "n" > "m": batch shape [2, 3] of a node would be lost (rename colliding entries, or select the entries to flatten)',
      { path: ['n'], paths: [['n'], ['n', 'm']] },
    ],
    [
      'a node where a leaf is',
      () => unflattenKeys(TensorDict({ a: meta(1), 'a.b': meta(2) }, []), '.'),
      'unflattenKeys: at "a.b": its place is taken by "a" (rename one of them first)',
      { path: ['a.b'], paths: [['a.b']] },
    ],
    [
      'leaves where nodes are',
      () => unflattenKeys(TensorDict({ 'a.b.c': meta(1), 'a.b': meta(2), a: meta(3) }, []), '.'),
      'unflattenKeys: at "a.b": its place is taken by the node "a" > "b"; at "a": its place is taken by the node "a" (rename one of them first)',
      { path: ['a.b'], paths: [['a.b'], ['a']] },
    ],
  ])

  itAllows([
    ['an empty node with more batch axes', () => flattenKeys(TensorDict({ n: TensorDict({}, [2]) }, []), '.')],
    [
      'names that share a beginning',
      () => unflattenKeys(TensorDict({ 'a.b': meta(1), 'a.c': meta(2), ab: meta(3) }, []), '.'),
    ],
  ])
})
