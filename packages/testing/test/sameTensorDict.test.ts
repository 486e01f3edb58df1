import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { data, equals, leafEntries, meta, ragged, TensorDict } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { anyTensorDict } from '../src/arbitraries.js'
import { requireCloseTensorDict, requireEqualTensorDict, tensorDictProblems } from '../src/sameTensorDict.js'

useEngine()

/** The problems of two TensorDicts that are made and freed here. */
const problems = (actual: () => TensorDict, expected: () => TensorDict): readonly string[] => {
  let found: readonly string[] = []
  scope(() => {
    found = tensorDictProblems(actual(), expected())
    return []
  })
  return found
}

describe('tensorDictProblems', () => {
  it('finds nothing exactly where two TensorDicts are equal', () => {
    const shapes = fc.constantFrom([], [1], [2])
    fc.assert(
      fc.property(anyTensorDict(shapes), anyTensorDict(shapes), (first, second) => {
        scope(() => {
          const [a, b] = [first.build(), second.build()]
          expect(tensorDictProblems(a, first.build())).toEqual([])
          expect(tensorDictProblems(a, b).length === 0).toBe(equals(a, b))
          return []
        })
      }),
    )
  })

  it('names every leaf whose entry is gone, by its path', () => {
    fc.assert(
      fc.property(anyTensorDict(), (recipe) => {
        scope(() => {
          const td = recipe.build()
          const found = tensorDictProblems(TensorDict({}, td.batchShape), td)
          const tops = [...new Set(leafEntries(td).map(([path]) => JSON.stringify(path[0])))]
          for (const key of tops) expect(found.some((line) => line.startsWith(`at ${key}: missing`))).toBe(true)
          return []
        })
      }),
    )
  })

  it.each<[string, () => TensorDict, () => TensorDict, readonly string[]]>([
    [
      'a number in a node',
      () => TensorDict({ next: { reward: tf.tensor1d([1, 0]) } }, [2]),
      () => TensorDict({ next: { reward: tf.tensor1d([1, 0.5]) } }, [2]),
      ['at "next" > "reward": element [1] is 0, expected 0.5; 1 of 2 differ, the most at [1] by 0.5; tolerance 0'],
    ],
    [
      'a number in a ragged row, after an empty one',
      () => TensorDict({ rows: ragged('int32', [[1], [], [2, 3]]) }, [3]),
      () => TensorDict({ rows: ragged('int32', [[1], [], [2, 4]]) }, [3]),
      ['at "rows": element [2, 1] is 3, expected 4; 1 of 3 differ, the most at [2, 1] by 1; tolerance 0'],
    ],
    [
      'the length of a ragged row',
      () => TensorDict({ rows: ragged('int32', [[1, 2], []]) }, [2]),
      () => TensorDict({ rows: ragged('int32', [[1], [2]]) }, [2]),
      ['at "rows": row 0 has 2 elements, expected 1'],
    ],
    [
      'a value of data, and one of meta',
      () => TensorDict({ words: data(['a', 'b']), source: meta(1) }, [2]),
      () => TensorDict({ words: data(['a', 'c']), source: meta({ n: 1 }) }, [2]),
      ['at "words": value [1] is "b", expected "c"; 1 of 2 differ', 'at "source": the value is 1, expected {"n":1}'],
    ],
    [
      'kinds, dtypes and keys, all at once',
      () => TensorDict({ a: data(['x']), b: tf.zeros([1]), d: meta(0) }, [1]),
      () => TensorDict({ a: ragged('bool', [[1]]), b: tf.zeros([1], 'int32'), c: {} }, [1]),
      [
        'at "a": Data, expected ragged bool',
        'at "b": float32 [1], expected int32 [1]',
        'at "c": missing, expected a node',
        'at "d": Meta is not expected',
      ],
    ],
    [
      'batch shapes',
      () => TensorDict({ a: meta(0) }, [1]),
      () => TensorDict({ a: meta(0) }, [1, 1]),
      ['batch shape [1], expected [1, 1]'],
    ],
  ])('says of %s what is there and what was expected', (_, actual, expected, lines) => {
    expect(problems(actual, expected)).toEqual(lines)
  })

  it('cuts long values', () => {
    const [line = ''] = problems(
      () => TensorDict({ a: meta('x'.repeat(1000)) }, []),
      () => TensorDict({ a: meta('y') }, []),
    )
    expect(line.length).toBeLessThan(200)
  })
})

describe('requireEqualTensorDict and requireCloseTensorDict', () => {
  const of = (x: number) => TensorDict({ x: tf.tensor1d([x, Number.NaN]), n: ragged('int32', [[1], [2]]) }, [2])

  it('throw the problems, and let pass what is close', () => {
    scope(() => {
      expect(() => requireEqualTensorDict(of(1), of(1))).not.toThrow()
      expect(() => requireEqualTensorDict(of(1), of(1.001))).toThrow(/^at "x": element \[0\] is 1, expected 1.00/)
      expect(() => requireCloseTensorDict(of(1), of(1.001), { absolute: 0.01 })).not.toThrow()
      expect(() => requireCloseTensorDict(of(1), of(1.001))).toThrow('tolerance 0.000001 + 0.00001 * |expected|')
      return []
    })
  })

  it('give no tolerance to whole numbers', () => {
    const ints = (n: number) => TensorDict({ n: ragged('int32', [[n]]) }, [1])
    expect(() => requireCloseTensorDict(ints(1), ints(2), { absolute: 5 })).toThrow('tolerance 0')
  })

  it('list ten problems and count the others', () => {
    const many = TensorDict(Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`k${i}`, meta(i)])), [])
    expect(() => requireEqualTensorDict(TensorDict({}, []), many)).toThrow(/"k9": missing.*\nand 3 more problems$/)
  })
})
