import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { answered, empty, freeing, numbersAt, replies } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const counters = fc
  .option(fc.integer({ min: 1, max: 3 }), { nil: undefined })
  .map((maxSteps) => StepCounter(maxSteps === undefined ? {} : { maxSteps }))

const samples = fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }).map((ended) => ({
  inner: { observation: {}, action: {} },
  state: () => empty(ended.length),
  action: () => empty(ended.length),
  next: () =>
    TensorDict(
      {
        reward: tf.zeros([ended.length]),
        terminated: tf.tensor1d(ended, 'bool'),
        truncated: tf.zeros([ended.length], 'bool'),
        done: tf.tensor1d(ended, 'bool'),
      },
      [ended.length],
    ),
}))

const request = (batchSize: number): TensorDict =>
  TensorDict({ query: data(Array.from({ length: batchSize }, (_, i) => `question ${i}`)) }, [batchSize])

const key = { _tag: 'Key', high: 0, low: 1 } as const

describe('StepCounter', () => {
  describe('as a transform', () => {
    checkLaws(it, transformLaws(counters.map(erased), samples))
  })

  it('counts from 0 by 1, and truncates at maxSteps and not before', async () => {
    const law = fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 3 }),
      (maxSteps, batchSize) =>
        freeing(async (keep) => {
          const env = append(StepCounter({ maxSteps }))(ChatEnv({ batchSize }))
          const reply = replies(...Array.from({ length: batchSize }, () => 'so'))
          let state = keep(await answered(env.reset(request(batchSize), key)))
          expect(numbersAt(state, 'stepCount')).toEqual(new Array(batchSize).fill(0))
          for (let step = 1; step <= maxSteps + 1; step++) {
            const next = keep(await answered(env.step(state, reply)))
            const cut = new Array(batchSize).fill(step >= maxSteps ? 1 : 0)
            expect(numbersAt(next, 'stepCount')).toEqual(new Array(batchSize).fill(step))
            expect(numbersAt(next, 'truncated')).toEqual(cut)
            expect(numbersAt(next, 'done')).toEqual(cut)
            expect(numbersAt(next, 'terminated')).toEqual(new Array(batchSize).fill(0))
            state = next
          }
        }),
    )
    await fc.assert(law, { numRuns: 10 })
  })

  it('without maxSteps only counts', () =>
    freeing(async (keep) => {
      const env = append(StepCounter())(ChatEnv({ batchSize: 1 }))
      let state = keep(await answered(env.reset(request(1), key)))
      for (let step = 1; step <= 20; step++) state = keep(await answered(env.step(state, replies('so'))))
      expect(numbersAt(state, 'stepCount')).toEqual([20])
      expect(numbersAt(state, 'done')).toEqual([0])
    }))

  it('does not undo what the environment has ended', () =>
    freeing(async (keep) => {
      const next = keep(TensorDict({ truncated: tf.tensor1d([1, 0], 'bool'), done: tf.tensor1d([1, 1], 'bool') }, [2]))
      const previous = keep(TensorDict({ stepCount: tf.tensor1d([0, 4], 'int32') }, [2]))
      const [added] = await answered(StepCounter({ maxSteps: 5 }).step(next, { previous, action: empty(2) }, null))
      keep(added)
      expect(numbersAt(added, 'stepCount')).toEqual([1, 5])
      expect(numbersAt(added, 'truncated')).toEqual([1, 1])
      expect(numbersAt(added, 'done')).toEqual([1, 1])
    }))

  it('starts at 0 again after a reset', () =>
    freeing(async (keep) => {
      const env = append(StepCounter({ maxSteps: 1 }))(ChatEnv({ batchSize: 1 }))
      const first = keep(await answered(env.reset(request(1), key)))
      keep(await answered(env.step(first, replies('so'))))
      expect(numbersAt(keep(await answered(env.reset(request(1), key))), 'stepCount')).toEqual([0])
    }))

  it('specs gain stepCount and keep the action', () => {
    const env = append(StepCounter({ maxSteps: 1 }))(ChatEnv({ batchSize: 1 }))
    expect(env.specs.observation.stepCount).toEqual({ _tag: 'TensorSpec', dtype: 'int32', shape: [] })
    expect(env.specs.action).toEqual(ChatEnv({ batchSize: 1 }).specs.action)
  })

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('refuses maxSteps %d', (maxSteps) => {
    expect(() => StepCounter({ maxSteps })).toThrow(RangeError)
  })

  describe('around a ChatEnv', () => {
    const env = append(StepCounter({ maxSteps: 2 }))(ChatEnv({ batchSize: 2 }))
    checkLaws(it, envLaws(fc.constant({ env, request: () => request(2), act: () => replies('a', 'b'), steps: 3 })))
  })
})
