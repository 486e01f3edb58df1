import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { leakChecks, leaksOf, withoutLeaks } from '../src/leaks.js'

useEngine()

describe('withoutLeaks', () => {
  it('gives the result of a function that frees what it makes, with and without awaiting', async () => {
    const f = () => {
      const made = scope(() => tf.add(tf.ones([2]), 1))
      const values = made.arraySync()
      made.dispose()
      return values
    }
    expect(await withoutLeaks(f)).toEqual([2, 2])
    expect(await withoutLeaks(async () => f())).toEqual([2, 2])
  })

  it('counts the tensors that live on, also those made after an await', async () => {
    const made: tf.Tensor[] = []
    const leaking = withoutLeaks(async () => {
      await Promise.resolve()
      made.push(tf.zeros([1]), tf.zeros([1]))
    })
    await expect(leaking).rejects.toThrow(/^2 tensors left alive$/)
    tf.dispose(made)
  })

  it('counts values that are still owned, and tensors that were freed too much', async () => {
    const owned: Owned<unknown>[] = []
    await expect(withoutLeaks(() => void owned.push(own({})))).rejects.toThrow(/^1 owned values left alive$/)
    for (const each of owned) each.release()
    const before = tf.zeros([1])
    await expect(withoutLeaks(() => before.dispose())).rejects.toThrow(/^1 earlier tensors freed$/)
  })

  it('passes on the failure of the function itself', async () => {
    const failing = () => {
      throw new Error('mine')
    }
    await expect(withoutLeaks(failing)).rejects.toThrow('mine')
    await expect(leaksOf(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
  })
})

describe('leakChecks', () => {
  /** The two hooks of one test file, as a runner holds them. */
  const hooks = () => {
    const held: (() => void)[] = []
    leakChecks({ beforeEach: (run) => held.push(run), afterEach: (run) => held.push(run) })
    const [start, end] = held as [() => void, () => void] // both were registered
    return { start, end }
  }

  it('registers one hook before each test and one after it', () => {
    const { start, end } = hooks()
    start()
    expect(end).not.toThrow()
  })

  it('fails after a test that leaves a tensor, and not after the next one', () => {
    const { start, end } = hooks()
    start()
    const left = tf.zeros([1])
    expect(end).toThrow('1 tensors left alive')
    start()
    expect(end).not.toThrow()
    left.dispose()
  })

  it('does not count what lived before', () => {
    const { start, end } = hooks()
    const fixture = tf.zeros([1])
    start()
    expect(end).not.toThrow()
    fixture.dispose()
  })
})
