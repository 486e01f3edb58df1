import { anyTensorDict } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { isLeft, isRight } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { refine } from '../../../src/data/spec.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { data, meta } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { envFailure, nextRequest, outcomeSpec, REMEMBERED } from '../../../src/envs/base/env.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

describe('nextRequest', () => {
  const remembered = TensorDict({ 'ChatEnv > primer': meta({ next: 4 }) }, [2])

  it('keeps what transforms remember, and nothing of the episode', () => {
    const state = TensorDict({ query: data(['a', 'b']), [REMEMBERED]: remembered }, [2])
    expect(equals(nextRequest(state), TensorDict({ [REMEMBERED]: remembered }, [2]))).toBe(true)
  })

  it('of any state has its batch shape, and asking twice changes nothing', () => {
    const law = fc.property(anyTensorDict(), (recipe) => {
      scope(() => {
        const request = nextRequest(recipe.build())
        expect(request.batchShape).toEqual(recipe.batchShape)
        expect(equals(nextRequest(request), request)).toBe(true)
        return []
      })
    })
    fc.assert(law, { numRuns: 40 })
  })

  it('of a state that remembers nothing is empty', () => {
    expect(nextRequest(TensorDict({ query: data(['a']) }, [1])).entries.size).toBe(0)
  })
})

describe('outcomeSpec', () => {
  const outcome = (dtype: 'bool' | 'int32') => ({
    reward: tf.zeros([2]),
    terminated: tf.zeros([2], dtype),
    truncated: tf.zeros([2], 'bool'),
    done: tf.zeros([2], 'bool'),
  })

  it('takes a reward of numbers and three truth values for each element', () => {
    scope(() => {
      expect(isRight(refine(outcomeSpec, TensorDict(outcome('bool'), [2]), 'here'))).toBe(true)
      return []
    })
  })

  it('names what is missing or of another dtype', () => {
    scope(() => {
      const { reward: _, ...rest } = outcome('int32')
      const result = refine(outcomeSpec, TensorDict(rest, [2]), 'here')
      expect(isLeft(result) && result.left.problems).toEqual([
        'reward: missing',
        'terminated: expected bool [2], got int32 [2]',
      ])
      return []
    })
  })
})

describe('envFailure', () => {
  it('has a cause only where there is one', () => {
    const cause = { _tag: 'TemplateFailure', reason: 'why' } as const
    expect(envFailure('env', 'no')).toEqual({ _tag: 'EnvFailure', env: 'env', where: 'env', reason: 'no' })
    expect('cause' in envFailure('env', 'no')).toBe(false)
    expect(envFailure('env', 'no', cause).cause).toBe(cause)
  })
})
