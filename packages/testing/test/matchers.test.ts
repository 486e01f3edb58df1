/** The matchers in a real runner, this one, with their types; and the functions for the others. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { meta, TensorDict } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { type TandemMatchers, tandemMatchers } from '../src/matchers.js'
import { requireLeft, requireRight } from '../src/results.js'

declare module 'vitest' {
  interface Matchers<T> extends TandemMatchers<T> {}
}

expect.extend(tandemMatchers)
useEngine()

const failure = { _tag: 'EnvFailure', env: 'e', reason: 'no' } as const

describe('toEqualTensorDict and toBeCloseToTensorDict', () => {
  const of = (x: number) => TensorDict({ next: { x: tf.tensor1d([x, Number.NaN]) } }, [2])

  it('pass and fail as they should, both ways round', () => {
    scope(() => {
      expect(of(1)).toEqualTensorDict(of(1))
      expect(of(1)).not.toEqualTensorDict(of(2))
      expect(of(1)).toBeCloseToTensorDict(of(1.01), { absolute: 0.1 })
      expect(of(1)).not.toBeCloseToTensorDict(of(1.01))
      return []
    })
  })

  it('fail with the path, the first index, the largest difference and the tolerance', () => {
    scope(() => {
      expect(() => expect(of(1)).toEqualTensorDict(of(3))).toThrow(
        'at "next" > "x": element [0] is 1, expected 3; 1 of 2 differ, the most at [0] by 2; tolerance 0',
      )
      expect(() => expect(of(1)).not.toEqualTensorDict(of(1))).toThrow('expected another TensorDict, got an equal one')
      expect(() => expect(of(1)).not.toBeCloseToTensorDict(of(1))).toThrow('got one that is close')
      return []
    })
  })

  it('fail for what is no TensorDict', () => {
    expect(() => expect({ a: 1 }).toEqualTensorDict(TensorDict({ a: meta(1) }, []))).toThrow(
      'expected a TensorDict, got object',
    )
  })
})

describe('toBeCloseToTensor', () => {
  it('takes tensors and nested lists', () => {
    scope(() => {
      expect(tf.tensor([[1, 2]])).toBeCloseToTensor([[1, 2.000001]])
      expect(tf.tensor([[1, 2]])).toBeCloseToTensor(tf.tensor([[1, 2.5]]), { relative: 0.5 })
      expect(tf.tensor([[1, 2]])).not.toBeCloseToTensor([[1, 3]])
      expect(() => expect(tf.tensor([[1, 2]])).toBeCloseToTensor([[1, 3]])).toThrow('element [0, 1] is 2, expected 3')
      return []
    })
  })
})

describe('toBeRight and toBeLeft', () => {
  it('tell the sides apart, and the tags', () => {
    expect(E.right(1)).toBeRight()
    expect(E.left(1)).not.toBeRight()
    expect(E.left(failure)).toBeLeft()
    expect(E.left(failure)).toBeLeft('EnvFailure')
    expect(E.left(failure)).not.toBeLeft('PolicyFailure')
    expect(E.right(failure)).not.toBeLeft()
  })

  it('fail with what came instead', () => {
    expect(() => expect(E.left(failure)).toBeRight()).toThrow('expected a Right, got Left({"_tag":"EnvFailure"')
    expect(() => expect(E.right(3)).toBeLeft('EnvFailure')).toThrow('expected Left(EnvFailure), got Right(3)')
    expect(() => expect(E.left(failure)).not.toBeLeft()).toThrow('expected no Left, got one')
  })

  it('have twins that give the value, or throw', () => {
    expect(requireRight(E.right(3))).toBe(3)
    expect(requireLeft(E.left(failure), 'EnvFailure').env).toBe('e')
    expect(() => requireRight(E.left(failure))).toThrow('expected a Right, got Left')
    expect(() => requireLeft(E.right(3))).toThrow('expected a Left, got Right(3)')
    expect(() => requireLeft(E.left(failure), 'Other' as 'EnvFailure')).toThrow('expected Left(Other), got Left') // wrong on purpose
  })
})

describe('toLeaveNoTensors', () => {
  it('runs the function, and counts what lives on', async () => {
    const left: tf.Tensor[] = []
    await expect(() => scope(() => tf.ones([2])).dispose()).toLeaveNoTensors()
    await expect(async () => void left.push(tf.zeros([1]))).not.toLeaveNoTensors()
    await expect(expect(() => void left.push(tf.zeros([1]))).toLeaveNoTensors()).rejects.toThrow('1 tensors left alive')
    tf.dispose(left)
  })
})
