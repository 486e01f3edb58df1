/**
 * Cases of TensorDicts beside the laws of `tensorDictLaws`: messages of refusals, an oracle for law
 * 1, what is shown.
 */
import { anyTensorDict } from '@tandem-rl/testing'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { exclude, rename, select } from '../../../src/data/tensorDict/edit.js'
import { format, toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { slice, take } from '../../../src/data/tensorDict/selecting.js'
import { batchSize, get, isTensorDict, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

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

describe('construction', () => {
  it('law 1: nodes and leaves begin with the batch shape above them, by a definition of its own', () => {
    const law = fc.property(anyTensorDict(), (recipe) => {
      scope(() => {
        expectWellFormed(recipe.build())
        return []
      })
    })
    fc.assert(law, { numRuns: 40 })
  })

  it('law 2: refuses what does not fit, naming every place', () => {
    scope(() => {
      const make = () =>
        TensorDict({ a: tf.zeros([3]), b: { c: ragged('int32', [[1]]) }, d: data([1, 2]), e: meta('x') }, [2])
      expect(make).toThrow(TensorDictError)
      expect(make).toThrow(/"a": tensor of shape \[3\].*"b" > "c": 1 ragged rows/)
      expect(() => TensorDict({}, [-1])).toThrow('not a natural number')
      expect(() => TensorDict({ a: 5 as never }, [])).toThrow('got number')
      return []
    })
  })
})

describe('lenses', () => {
  it('get throws, naming the keys that exist', () => {
    const td = TensorDict({ a: meta(1), b: meta(2) }, []) as TensorDict as TensorDict<{ readonly c: never }>
    expect(() => get(td, 'c')).toThrow('the keys are "a", "b"')
  })
})

describe('keys', () => {
  it('law 19: renaming there and back, and refusing a name that is taken', () => {
    const td = TensorDict({ a: meta(1), b: meta(2) }, [])
    const there = rename(td, 'a', 'c')
    expect([...there.entries.keys()]).toEqual(['c', 'b'])
    expect(equals(rename(there, 'c', 'a'), td)).toBe(true)
    expect(() => rename(td, 'a', 'b')).toThrow('the name "b" is taken')
    expect(() => select(td as never, 'z' as never)).toThrow('no such entry')
  })

  it('merge refuses different batch shapes', () => {
    expect(() => merge(TensorDict({}, [2]), TensorDict({}, [3]))).toThrow('batch shapes [2] and [3] differ')
  })
})

describe('leaves', () => {
  it('law 29: a map that breaks the batch shape is refused with the path', () => {
    scope(() => {
      const td = TensorDict({ a: { b: tf.zeros([2, 3]) } }, [2])
      expect(() => mapLeaves(td, () => tf.zeros([5]))).toThrow('"a" > "b"')
      return []
    })
  })
})

describe('the first batch axis', () => {
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
      expect(() => concat([])).toThrow('no parts to join')
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
  it('takes NaN for equal to NaN, and 0 for unequal to 1', () => {
    const of = (x: number): TensorDict => TensorDict({ r: ragged('float32', [[x]]) }, [1])
    expect(equals(of(Number.NaN), of(Number.NaN))).toBe(true)
    expect(equals(of(0), of(1))).toBe(false)
  })
})

describe('memory', () => {
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
