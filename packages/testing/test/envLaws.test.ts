/**
 * The kit of environments accepts good ones and rejects each kind of fault, by the law that names
 * it.
 */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type Env, envFailure } from 'tandem-rl'
import { type Entries, get, merge, meta, type Ragged, ragged, TensorDict, tensorSpec } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { brokenLaws, empty } from '../../../test/kit/conversation.js'
import { useEngine } from '../../../test/kit/engine.js'
import { envLaws } from '../src/envLaws.js'
import { checkLaws } from '../src/law.js'

useEngine()

type Count = { readonly count: tf.Tensor; readonly rows: Ragged<'int32'> }
type Counting = Env<Count, unknown>

/** A step returns the count, and ends the episode at 3. */
const stepOf = (state: TensorDict<Count>): Entries => {
  const before = get(state, 'count')
  const count = tf.add(before, 1)
  const terminated = tf.greaterEqual(count, 3)
  const reward = tf.mul(count, tf.cast(tf.less(before, 3), 'float32'))
  return { count, reward, terminated, truncated: tf.zeros([2], 'bool'), done: tf.clone(terminated) }
}

/** An environment that counts, with changes. */
const counting = (
  changes: { readonly reset?: () => Entries; readonly step?: (state: TensorDict<Count>) => Entries } = {},
) => {
  const reset = changes.reset ?? ((): Entries => ({ count: tf.zeros([2]), rows: ragged('int32', [[1], [2, 3]]) }))
  const step = changes.step ?? stepOf
  const env: Counting = {
    name: 'counting',
    batchSize: 2,
    specs: { observation: { count: tensorSpec('float32') }, action: {} },
    reset: () => TE.fromIO(() => scope(() => TensorDict(reset(), [2]) as unknown as TensorDict<Count>)), // or a fault under test
    step: (state) => TE.fromIO(() => scope(() => merge(state, TensorDict(step(state), state.batchShape)) as never)), // has an outcome, or a fault
  }
  return env
}

const EVERY_LAW = ['replay', 'spec soundness', 'purity', 'outcome', 'fork', 'concurrency', 'storage', 'ends', 'pay']

const broken = (env: Counting, steps = 3): Promise<readonly string[]> =>
  brokenLaws(envLaws(fc.constant({ env, act: () => empty(2), steps }), 3))

describe('envLaws', () => {
  checkLaws(it, envLaws(fc.nat(4).map((steps) => ({ env: counting(), act: () => empty(2), steps }))))

  it('finds nothing wrong with an environment that keeps its word', async () => {
    expect(await broken(counting())).toEqual([])
  })

  it('replay rejects a reset that remembers outside of the state', async () => {
    let resets = 0
    expect(await broken(counting({ reset: () => ({ count: tf.fill([2], resets++) }) }))).toContain('replay')
  })

  it('replay rejects a step that draws from the global random source', async () => {
    const step = (state: TensorDict<Count>): Entries => ({ ...stepOf(state), luck: meta(Math.random()) })
    expect(await broken(counting({ step }))).toContain('replay')
  })

  it.each<[string, Counting]>([
    [
      'a reset without what is promised',
      counting({ reset: () => ({ other: tf.zeros([2]), count: meta(0) }), step: () => ({}) }),
    ],
    ['a reset of another dtype', counting({ reset: () => ({ count: tf.zeros([2], 'int32') }) })],
    [
      'a step without a reward',
      counting({
        step: (s) => {
          const { reward: _, ...rest } = stepOf(s)
          return rest
        },
      }),
    ],
    ['a step whose done is no truth value', counting({ step: (s) => ({ ...stepOf(s), done: tf.zeros([2]) }) })],
  ])('spec soundness rejects %s', async (_, env) => {
    expect(await broken(env)).toContain('spec soundness')
  })

  it.each([1, 3])('purity rejects a step that writes into the state before it: %d steps', async (steps) => {
    const step = (state: TensorDict<Count>): Entries => {
      const values = get(state, 'rows').values as Int32Array // ragged int32 values are one
      values.fill(9)
      return { ...stepOf(state), rows: ragged('int32', [[1], [2, 3]]) }
    }
    expect(await broken(counting({ step }), steps)).toContain('purity')
  })

  it('purity rejects a step that frees a tensor of the state before it', async () => {
    const step = (state: TensorDict<Count>): Entries => {
      const next = stepOf(state)
      get(state, 'count').dispose()
      return next
    }
    expect(await broken(counting({ step }))).toContain('purity')
  })

  it.each<[string, (state: TensorDict<Count>) => Entries]>([
    ['not done though terminated', (s) => ({ ...stepOf(s), done: tf.zeros([2], 'bool') })],
    ['done though neither', (s) => ({ ...stepOf(s), done: tf.ones([2], 'bool') })],
    ['not done though truncated', (s) => ({ ...stepOf(s), truncated: tf.ones([2], 'bool') })],
  ])('outcome rejects an episode that is %s', async (_, step) => {
    expect(await broken(counting({ step }))).toContain('outcome')
  })

  it('an environment that counts beside its states, from reset on, replays alone, and neither forks nor takes turns with another', async () => {
    let count = 0
    const reset = (): Entries => {
      count = 0
      return { count: tf.zeros([2]) }
    }
    const step = (state: TensorDict<Count>): Entries => ({ ...stepOf(state), beside: meta(++count) })
    const result = await broken(counting({ reset, step }))
    expect(result).not.toContain('replay')
    expect(result).toEqual(expect.arrayContaining(['fork', 'concurrency']))
  })

  it.each<[string, unknown]>([
    ['a function', () => 1],
    ['a promise', Promise.resolve(1)],
    ['a value of a class', new Map()],
  ])('storage rejects a state that keeps %s', async (_, value) => {
    expect(await broken(counting({ reset: () => ({ count: tf.zeros([2]), beside: meta(value) }) }))).toEqual([
      'storage',
    ])
  })

  it('ends rejects an episode that continues after its end', async () => {
    const step = (state: TensorDict<Count>): Entries => {
      const terminated = tf.equal(tf.add(get(state, 'count'), 1), 3)
      return { ...stepOf(state), terminated, done: tf.clone(terminated) }
    }
    expect(await broken(counting({ step }))).toContain('ends')
  })

  it('ends rejects a step in which the others need the one that has ended', async () => {
    const step = (state: TensorDict<Count>): Entries => {
      const [size = 0] = state.batchShape
      const terminated = tf.tensor1d(
        Array.from({ length: size }, (_, i) => size === 2 && i === 0),
        'bool',
      )
      const flags = { terminated, truncated: tf.zeros([size], 'bool'), done: tf.clone(terminated) }
      return { count: tf.add(get(state, 'count'), size), reward: tf.zeros([size]), ...flags }
    }
    expect(await broken(counting({ step }))).toEqual(['ends'])
  })

  it.each<[string, (state: TensorDict<Count>) => Entries]>([
    ['a reward', (s) => ({ ...stepOf(s), reward: tf.ones([2]) })],
    ['a part of the reward', (s) => ({ ...stepOf(s), rewardLuck: tf.add(get(s, 'count'), 1) })],
    ['a sum over the episode', (s) => ({ ...stepOf(s), episodeReward: tf.add(get(s, 'count'), 1) })],
    ['another end', (s) => ({ ...stepOf(s), truncated: tf.greaterEqual(get(s, 'count'), 3) })],
  ])('pay rejects an environment that gives %s to what has ended', async (_, step) => {
    expect(await broken(counting({ step }))).toEqual(['pay'])
  })

  it('every law rejects an environment that leaks a tensor', async () => {
    const leaked: tf.Tensor[] = []
    const step = (state: TensorDict<Count>): Entries => {
      leaked.push(tf.keep(tf.zeros([1])))
      return stepOf(state)
    }
    const result = await broken(counting({ step }))
    tf.dispose(leaked)
    expect(result).toEqual(EVERY_LAW)
  })

  it('every law rejects an environment that fails', async () => {
    const failing: Counting = { ...counting(), reset: () => TE.left(envFailure('counting', 'no')) }
    expect(await broken(failing)).toEqual(EVERY_LAW)
  })
})
