/** Laws of TensorDict; the numbers are those of the reference's list of 93. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { exclude, rename, select, set } from '../../../src/data/tensorDict/edit.js'
import { format, toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { data, isLeaf, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { leafEntries, mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { repeatInterleave, slice, take } from '../../../src/data/tensorDict/selecting.js'
import { splitEach } from '../../../src/data/tensorDict/splitting.js'
import {
  batchSize,
  find,
  get,
  has,
  isTensorDict,
  TensorDict,
  TensorDictError,
} from '../../../src/data/tensorDict/tensorDict.js'
import { discard, scope } from '../../../src/engine/scope.js'
import {
  alikeTensorDicts,
  anyBatchShape,
  anyName,
  anyTensorDict,
  type TensorDictRecipe,
} from '../../../src/testing/arbitraries.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const options = { numRuns: 40 }

/** Checks a law on built TensorDicts inside a scope; everything is freed. */
const forAll = <T extends readonly unknown[]>(
  arbitraries: { readonly [K in keyof T]: fc.Arbitrary<T[K]> },
  law: (...values: T) => void,
): void => {
  fc.assert(
    fc.property(fc.tuple(...(arbitraries as readonly fc.Arbitrary<unknown>[])), (values) => {
      scope(() => {
        law(...(values as unknown as T)) // one value for each arbitrary
        return []
      })
    }),
    options,
  )
}

/** Law 1: every node's batch shape begins with its parent's, and every leaf fits its node. */
const expectWellFormed = (td: TensorDict): void => {
  for (const [key, entry] of td.entries) {
    if (isTensorDict(entry)) {
      expect(entry.batchShape.slice(0, td.batchShape.length), key).toEqual(td.batchShape)
      expectWellFormed(entry)
    } else if (entry instanceof tf.Tensor) {
      expect(entry.shape.slice(0, td.batchShape.length), key).toEqual(td.batchShape)
    } else if (entry._tag === 'Ragged') {
      expect(entry.offsets.length - 1, key).toBe(batchSize(td.batchShape))
    } else if (entry._tag === 'Data') {
      expect(entry.items.size, key).toBe(batchSize(td.batchShape))
    }
  }
}

const withRows = anyTensorDict(anyBatchShape.map((shape) => [2, ...shape.slice(0, 1)]))

/** Two recipes with one batch shape. */
const pairOf = anyBatchShape.chain((shape) =>
  fc.tuple(anyTensorDict(fc.constant(shape)), anyTensorDict(fc.constant(shape))),
)

const indices = fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 4 })

describe('construction', () => {
  it('law 1: nodes and leaves begin with the batch shape above them', () => {
    forAll([anyTensorDict()], (recipe: TensorDictRecipe) => {
      expectWellFormed(recipe.build())
    })
  })

  it('law 2: refuses what does not fit, naming every place', () => {
    scope(() => {
      const make = () =>
        TensorDict({ a: tf.zeros([3]), b: { c: ragged('int32', [[1]]) }, d: data([1, 2]), e: meta('x') }, [2])
      expect(make).toThrow(TensorDictError)
      expect(make).toThrow(/"a": tensor of shape \[3\].*"b" > "c": 1 ragged rows/)
      expect(() => TensorDict({}, [-1])).toThrow('no natural number')
      expect(() => TensorDict({ a: 5 as never }, [])).toThrow('got number')
      return []
    })
  })

  it('law 3: a TensorDict made of its own entries is equal', () => {
    forAll([anyTensorDict()], (recipe: TensorDictRecipe) => {
      const td = recipe.build()
      expect(equals(TensorDict(Object.fromEntries(td.entries), td.batchShape), td)).toBe(true)
    })
  })

  it('law 73: later writes to an array that a ragged leaf was made from do not change it', () => {
    const row = Int32Array.of(1, 2)
    const leaf = ragged('int32', [row])
    row[0] = 9
    expect(Array.from(leaf.values)).toEqual([1, 2])
  })
})

describe('lenses', () => {
  it('laws 6 to 8: set and get', () => {
    forAll([pairOf, anyName], ([first, second], name) => {
      const td = first.build()
      const child = second.build()
      const once = set(td, name, child)
      expect(find(once, [name])).toBe(child)
      expect(set(once, name, child)).toBe(once)
      expect(equals(set(set(td, name, meta(1)), name, child), once)).toBe(true)
    })
  })

  it('laws 12 and 13: has, and removing what was set', () => {
    forAll([anyTensorDict(), anyName], (recipe: TensorDictRecipe, name) => {
      const td = recipe.build()
      fc.pre(!has(td, name))
      const more = set(td, name, meta(0))
      expect(has(more, name)).toBe(true)
      expect(has(more, name, 'deeper')).toBe(false)
      expect(equals(exclude(more, name), td)).toBe(true)
      expect(exclude(td, name)).toBe(td)
    })
  })

  it('get throws, naming the keys that exist', () => {
    const td = TensorDict({ a: meta(1), b: meta(2) }, []) as TensorDict as TensorDict<{ readonly c: never }>
    expect(() => get(td, 'c')).toThrow('the keys are "a", "b"')
  })

  it('law 70: nodes off the path are the same', () => {
    forAll([pairOf], ([first, second]) => {
      const td = set(TensorDict({ left: first.build() }, first.batchShape), 'right', second.build())
      expect(find(set(td, 'new', meta(1)), ['left'])).toBe(find(td, ['left']))
    })
  })
})

describe('keys', () => {
  it('laws 15 to 17: select and exclude take a TensorDict apart', () => {
    forAll([anyTensorDict(), fc.nat()], (recipe: TensorDictRecipe, choice) => {
      const td = recipe.build()
      const keys = [...td.entries.keys()]
      const chosen = keys.filter((_, i) => (choice >> i) % 2 === 1)
      const typed = td as TensorDict as TensorDict<Record<string, never>>
      expect(select(typed, ...keys)).toBe(td)
      expect(exclude(td)).toBe(td)
      const parts = merge(select(typed, ...chosen) as TensorDict, exclude(td, ...chosen) as TensorDict)
      expect(equals(parts, td)).toBe(true)
      expect(equals(select(typed, ...[...chosen].reverse(), ...chosen), select(typed, ...chosen))).toBe(true)
    })
  })

  it('law 19: renaming there and back, and refusing a name that is taken', () => {
    const td = TensorDict({ a: meta(1), b: meta(2) }, [])
    const there = rename(td, 'a', 'c')
    expect([...there.entries.keys()]).toEqual(['c', 'b'])
    expect(equals(rename(there, 'c', 'a'), td)).toBe(true)
    expect(() => rename(td, 'a', 'b')).toThrow('the name "b" is taken')
    expect(() => select(td as never, 'z' as never)).toThrow('no such entry')
  })

  it('law 20: merge is associative, has a unit, is idempotent and right-biased', () => {
    forAll([alikeTensorDicts(3)], (recipes: readonly TensorDictRecipe[]) => {
      const [a, b, c] = recipes.map((recipe) => recipe.build()) as [TensorDict, TensorDict, TensorDict]
      expect(equals(merge(merge(a, b) as TensorDict, c), merge(a, merge(b, c) as TensorDict))).toBe(true)
      expect(merge(a, TensorDict({}, a.batchShape))).toBe(a)
      expect(equals(merge(a, a), a)).toBe(true)
      const merged: TensorDict = merge(a, b)
      for (const [path, leaf] of leafEntries(b)) expect(find(merged, path)).toBe(leaf)
    })
  })

  it('merge refuses different batch shapes', () => {
    expect(() => merge(TensorDict({}, [2]), TensorDict({}, [3]))).toThrow('batch shapes [2] and [3] differ')
  })
})

describe('leaves', () => {
  it('laws 26 to 28: mapping the identity changes nothing, leaves are visited once, in order', () => {
    forAll([anyTensorDict()], (recipe: TensorDictRecipe) => {
      const td = recipe.build()
      const paths: string[] = []
      const mapped = mapLeaves(td, (leaf, path) => {
        paths.push(JSON.stringify(path))
        return leaf
      })
      expect(mapped).toBe(td)
      expect(paths).toEqual(leafEntries(td).map(([path]) => JSON.stringify(path)))
      expect(leafEntries(td).every(([, leaf]) => isLeaf(leaf))).toBe(true)
    })
  })

  it('law 29: a map that breaks the batch shape is refused with the path', () => {
    scope(() => {
      const td = TensorDict({ a: { b: tf.zeros([2, 3]) } }, [2])
      expect(() => mapLeaves(td, () => tf.zeros([5]))).toThrow('"a" > "b"')
      return []
    })
  })
})

describe('the first batch axis', () => {
  it('laws 34, 39, 44: take moves every kind of leaf alike, and composes', () => {
    forAll([withRows, indices, indices], (recipe: TensorDictRecipe, first, second) => {
      const td = recipe.build()
      const once = take(td, first)
      expectWellFormed(once)
      expect(once.batchShape).toEqual([first.length, ...td.batchShape.slice(1)])
      const inside = second.filter((i) => i < first.length)
      expect(
        equals(
          take(once, inside),
          take(
            td,
            inside.map((i) => first[i]!),
          ),
        ),
      ).toBe(true)
      expect(take(td, [0, 1])).toBe(td)
    })
  })

  it('law 40: a permutation and its inverse', () => {
    forAll([withRows], (recipe: TensorDictRecipe) => {
      const td = recipe.build()
      expect(equals(take(take(td, [1, 0]), [1, 0]), td)).toBe(true)
    })
  })

  it('law 46: joining what was split gives the whole', () => {
    forAll([withRows], (recipe: TensorDictRecipe) => {
      const td = recipe.build()
      expect(equals(concat(splitEach(td)), td)).toBe(true)
      expect(equals(concat([slice(td, 0, 1), slice(td, 1, 2)]), td)).toBe(true)
      expect(concat([td])).toBe(td)
    })
  })

  it('law 51: repeatInterleave', () => {
    forAll([withRows, fc.integer({ min: 1, max: 3 })], (recipe: TensorDictRecipe, count) => {
      const td = recipe.build()
      const repeated = repeatInterleave(td, count)
      expect(repeated.batchShape[0]).toBe(2 * count)
      for (let i = 0; i < 2 * count; i++) {
        expect(equals(slice(repeated, i, i + 1), slice(td, Math.floor(i / count), Math.floor(i / count) + 1))).toBe(
          true,
        )
      }
    })
  })

  it('law 49: parts that do not go together are refused with every conflict', () => {
    scope(() => {
      const a = TensorDict({ x: tf.zeros([1, 2]), y: data(['a']), m: meta(1) }, [1])
      const b = TensorDict(
        { x: tf.zeros([1, 3]), y: ragged('int32', [[1]]), m: meta(2) },
        [1],
      ) as TensorDict as typeof a
      expect(() => concat([a, b])).toThrow(
        /"x": float32 tensor of features \[2\] and .*\[3\].*"y": Data and ragged int32.*"m": different meta/,
      )
      expect(() => concat([a, exclude(a, 'y') as never])).toThrow('at "y": Data and nothing')
      expect(() => concat([])).toThrow('nothing to join')
      return []
    })
  })

  it('law 38: indices out of range are refused', () => {
    const td = TensorDict({ y: data(['a', 'b']) }, [2])
    expect(() => take(td, [2])).toThrow('index 2 is not in 0 .. 1')
    expect(() => take(td, [-1])).toThrow('index -1')
    expect(() => slice(td, 1, 3)).toThrow('1 .. 3 is not inside 0 .. 2')
    expect(() => take(TensorDict({}, []), [0])).toThrow('no batch axis')
  })

  it('law 5: a shorter batch shape that all leaves admit, and back', () => {
    scope(() => {
      const td = TensorDict({ x: tf.zeros([2, 3, 4]), n: { z: tf.zeros([2, 3]) } }, [2, 3])
      const short = withBatchShape(td, [2])
      expectWellFormed(short)
      expect(equals(withBatchShape(short, [2, 3]), td)).toBe(true)
      expect(() => withBatchShape(td, [3])).toThrow(TensorDictError)
      return []
    })
  })
})

describe('equality', () => {
  it('law 66: is reflexive, symmetric, blind to the order of keys, and sees every difference', () => {
    forAll([pairOf], ([first, second]) => {
      const [a, b] = [first.build(), second.build()]
      expect(equals(a, first.build())).toBe(true)
      expect(equals(a, b)).toBe(equals(b, a))
      const reversed = TensorDict(Object.fromEntries([...a.entries].reverse()), a.batchShape)
      expect(equals(a, reversed)).toBe(true)
      if (!equals(a, b))
        expect([format(a), JSON.stringify(toNested(a))]).not.toBe([format(b), JSON.stringify(toNested(b))])
    })
  })

  it('takes NaN for equal to NaN, and 0 for unequal to 1', () => {
    const of = (x: number): TensorDict => TensorDict({ r: ragged('float32', [[x]]) }, [1])
    expect(equals(of(Number.NaN), of(Number.NaN))).toBe(true)
    expect(equals(of(0), of(1))).toBe(false)
  })
})

describe('memory', () => {
  it('law 71: changes of keys make no tensor', () => {
    forAll([anyTensorDict()], (recipe: TensorDictRecipe) => {
      const td = recipe.build()
      const before = tf.memory().numTensors
      merge(set(exclude(td, 'a'), 'q', meta(1)) as TensorDict, td)
      expect(tf.memory().numTensors).toBe(before)
    })
  })

  it('outside of scopes, take and concat leave only their results', () => {
    const td = scope(() => TensorDict({ x: tf.tensor2d([[1], [2]]), y: data(['a', 'b']) }, [2]))
    const before = tf.memory().numTensors
    const parts = [take(td, [1]), slice(td, 0, 1)]
    const joined = concat(parts)
    expect(toNested(joined)).toEqual({ x: [[2], [1]], y: ['b', 'a'] })
    expect(tf.memory().numTensors - before).toBe(3) // two parts and the whole
    discard([td, parts, joined])
  })
})

describe('format', () => {
  it('shows kinds, dtypes, shapes and lengths', () => {
    scope(() => {
      const td = TensorDict(
        {
          tokens: { prompt: ragged('int32', [[1, 2], [3]]) },
          reward: tf.zeros([2]),
          query: data(['a', 'b']),
          name: meta('m'),
        },
        [2],
      )
      expect(format(td)).toBe(
        [
          'TensorDict [2]',
          '  tokens',
          '    prompt: ragged int32, 2 rows of 1 to 2: [1, 2], …',
          '  reward: float32 [2]: 0, 0',
          '  query: data: "a", "b"',
          '  name: meta: "m"',
        ].join('\n'),
      )
      return []
    })
  })
})
