import { anyTensorDict, checkLaws, type TensorDictRecipe } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { List } from 'immutable'
import { describe, expect, it } from 'vitest'
import { data, meta } from '../../src/data/tensorDict/leaf.js'
import { nodeOf, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../kit/engine.js'
import { wellFormed } from './tensorDictLaws/checking.js'
import { tensorDictLaws } from './tensorDictLaws/tensorDictLaws.js'

useEngine()

describe('the laws of TensorDicts', () => {
  checkLaws(it, tensorDictLaws(anyTensorDict()))

  it('are those of docs/laws.md, but for codecs and modules, in order', () => {
    const numbers = tensorDictLaws().map(({ number }) => number)
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
    expect([...new Set(numbers)]).toEqual([...Array.from({ length: 82 }, (_, i) => i + 1), 87])
  })
})

describe('the kit', () => {
  const broken = (build: () => TensorDict): fc.Arbitrary<TensorDictRecipe> => fc.constant({ batchShape: [2], build })
  const lawNumbered = (number: number, samples: fc.Arbitrary<TensorDictRecipe>) =>
    tensorDictLaws(samples, { numRuns: 2 }).find((law) => law.number === number)!

  /** The message of a failing law, which fast-check reports as the cause. */
  const complaint = (law: { readonly check: () => void | Promise<void> }): string => {
    try {
      void law.check()
    } catch (thrown) {
      return thrown instanceof Error ? String(thrown.cause) : ''
    }
    return 'nothing'
  }

  it('finds a node whose leaf does not fit', () => {
    const samples = broken(() => nodeOf(TensorDict({ d: data([1]) }, [1]).entries, [2]))
    expect(complaint(lawNumbered(1, samples))).toContain('not well formed')
    expect(() => wellFormed(nodeOf(TensorDict({ n: {} }, [1]).entries, [3]))).toThrow('batch shape')
  })

  it('finds what is not equal to itself', () => {
    const samples = broken(() => TensorDict({ d: data([new Set(), Symbol('x')]), m: meta(List()) }, [2]))
    expect(complaint(lawNumbered(66, samples))).toContain('not equal')
  })

  it('finds a sample that leaves tensors behind', () => {
    const kept: tf.Tensor[] = []
    const samples = broken(() => {
      kept.push(tf.keep(tf.zeros([2])))
      return TensorDict({}, [2])
    })
    expect(complaint(lawNumbered(26, samples))).toContain('tensors were left alive')
    for (const tensor of kept) tensor.dispose()
  })

  it('passes for a user’s own samples', () => {
    const own = broken(() => TensorDict({ x: tf.ones([2, 3]), text: data(['a', 'b']) }, [2]))
    scope(() => {
      for (const { check, number } of tensorDictLaws(own, { numRuns: 3 })) if (number < 30) void check()
      return []
    })
  })
})
