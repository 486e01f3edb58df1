/** The kits of environments and rewards accept good ones and reject each kind of fault, by the law that names it. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { tensorSpec } from '../../src/data/spec.js'
import { meta, type Ragged, ragged } from '../../src/data/tensorDict/leaf.js'
import { merge } from '../../src/data/tensorDict/merge.js'
import { type Entries, get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { scope } from '../../src/engine/scope.js'
import { type Env, envFailure } from '../../src/envs/env.js'
import { gsm8kReward } from '../../src/envs/rewards/gsm8k.js'
import { envLaws, type RewardSample, rewardLaws } from '../../src/testing/envLaws.js'
import { checkLaws } from '../../src/testing/law.js'
import { brokenLaws, empty } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

type Count = { readonly count: tf.Tensor; readonly rows: Ragged<'int32'> }
type Counting = Env<Count, unknown>

/** What a step gives: the count, and an end at 3 of them. */
const stepOf = (state: TensorDict<Count>): Entries => {
  const count = tf.add(get(state, 'count'), 1)
  const terminated = tf.greaterEqual(count, 3)
  return { count, reward: tf.mul(count, 2), terminated, truncated: tf.zeros([2], 'bool'), done: tf.clone(terminated) }
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
    step: (state) => TE.fromIO(() => scope(() => merge(state, TensorDict(step(state), [2])) as never)), // has an outcome, or a fault
  }
  return env
}

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
    expect(await broken(counting({ step }))).toEqual(['outcome'])
  })

  it('every law rejects an environment that leaks a tensor', async () => {
    const leaked: tf.Tensor[] = []
    const step = (state: TensorDict<Count>): Entries => {
      leaked.push(tf.keep(tf.zeros([1])))
      return stepOf(state)
    }
    const result = await broken(counting({ step }))
    tf.dispose(leaked)
    expect(result).toEqual(['replay', 'spec soundness', 'purity', 'outcome'])
  })

  it('every law rejects an environment that fails', async () => {
    const failing: Counting = { ...counting(), reset: () => TE.left(envFailure('counting', 'no')) }
    expect(await broken(failing)).toEqual(['replay', 'spec soundness', 'purity', 'outcome'])
  })
})

const [GOLD, NOTHING, PURE] = [
  'the gold answer scores full marks',
  'empty and adversarial answers score nothing',
  'the score is a pure number between nothing and full marks',
]

const rewarding = (score: RewardSample['score']): Promise<readonly string[]> =>
  brokenLaws(
    rewardLaws(
      fc.integer({ min: 1, max: 99 }).map((n) => ({
        score,
        reference: `#### ${n}`,
        gold: `<answer>${n}</answer>`,
        fullMarks: 1,
        worthless: ['', `${n}`, `#### ${n}`, '<answer></answer>'],
      })),
      20,
    ),
  )

const fair: RewardSample['score'] = (completion, reference) => gsm8kReward(completion, reference).reward

describe('rewardLaws', () => {
  it('find nothing wrong with the reward of GSM8K', async () => {
    expect(await rewarding(fair)).toEqual([])
  })

  it('reject a reward that depends on the completions scored before: a running baseline', async () => {
    const seen: number[] = []
    const centered: RewardSample['score'] = (completion, reference) => {
      seen.push(fair(completion, reference))
      return seen.at(-1)! - seen.reduce((sum, x) => sum + x, 0) / seen.length
    }
    expect(await rewarding(centered)).toEqual(expect.arrayContaining([GOLD, PURE]))
  })

  it('reject a reward that finds the number anywhere', async () => {
    const loose: RewardSample['score'] = (completion, reference) => (completion.includes(reference.slice(5)) ? 1 : 0)
    expect(await rewarding(loose)).toEqual([NOTHING])
  })

  it('reject a reward that takes the right answer for a wrong one', async () => {
    expect(await rewarding(() => 0)).toEqual([GOLD])
  })

  it('reject a reward above full marks, below nothing, or that is no number', async () => {
    expect(await rewarding((completion, reference) => 2 * fair(completion, reference))).toEqual([GOLD, PURE])
    expect(await rewarding((completion, reference) => fair(completion, reference) || -1)).toEqual([NOTHING, PURE])
    expect(await rewarding(() => Number.NaN)).toEqual([GOLD, NOTHING, PURE])
  })
})
