import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import type { LogProbModel } from '../../../src/data/policy.js'
import { REWARD_KL_FORMS, rewardKL } from '../../../src/data/rewardKL.js'
import { raggedSpec } from '../../../src/data/spec.js'
import { diff } from '../../../src/data/tensorDict/compare.js'
import { data, ragged, raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { KLComputation } from '../../../src/envs/transforms/klComputation.js'
import {
  KLRewardTransform,
  type KLRewardTransformOptions,
  RetrieveKL,
} from '../../../src/envs/transforms/klRewardTransform.js'
import { RetrieveLogProb } from '../../../src/envs/transforms/retrieveLogProb.js'
import { compose } from '../../../src/envs/transforms/transform.js'
import { answered, empty, freeing, numbersAt, refused, rowsAt } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'
import { deadModel, idRows, sampledAt, tableModel } from '../../kit/logProbModels.js'

useEngine()

/** A completion: its ids, and the log-probabilities under which they were sampled. */
interface Sampled {
  readonly ids: readonly number[]
  readonly logProbs: readonly number[]
}

const logProb = fc.integer({ min: -64, max: 0 }).map((n) => n / 8) // sums of these are exact in float32
const sampled: fc.Arbitrary<Sampled> = fc
  .array(fc.tuple(fc.nat(99), logProb), { maxLength: 6 })
  .map((tokens) => ({ ids: tokens.map(([id]) => id), logProbs: tokens.map(([, p]) => p) }))
const rows = fc.array(sampled, { minLength: 1, maxLength: 4 })

const refLogProb = (id: number): number => -id / 8

/** A reference that has one log-probability for each id. */
const reference: LogProbModel = {
  name: 'table',
  score: (_, completions) =>
    TE.right(
      ragged(
        'float32',
        raggedRows(completions).map((row) => row.map(refLogProb)),
      ),
    ),
}

const actionOf = (completions: readonly Sampled[], temperature = 1): TensorDict =>
  TensorDict(
    {
      tokens: {
        response: ragged(
          'int32',
          completions.map(({ ids }) => ids),
        ),
      },
      logProbs: {
        response: ragged(
          'float32',
          completions.map(({ logProbs }) => logProbs),
        ),
      },
      sampling: data(
        completions.map(() => ({ temperature, topK: null, topP: null, maxNewTokens: 6, minNewTokens: 0 })),
      ),
    },
    [completions.length],
  )

const stateOf = (size: number): TensorDict =>
  TensorDict(
    {
      tokens: {
        prompt: ragged(
          'int32',
          Array.from({ length: size }, (_, i) => [i, i]),
        ),
      },
    },
    [size],
  )

const stepped = (options: KLRewardTransformOptions, next: TensorDict, action: TensorDict) =>
  KLRewardTransform(options).step(next as never, { previous: stateOf(action.batchShape[0]!), action }, null) // reads no entry of its schema

const gaps = ({ ids, logProbs }: Sampled): readonly number[] => ids.map((id, t) => logProbs[t]! - refLogProb(id))

const sum = (numbers: readonly number[]): number => numbers.reduce((total, x) => total + x, 0)

describe('KLRewardTransform', () => {
  const samples = rows.map((completions) => ({
    inner: { observation: { tokens: { prompt: raggedSpec('int32') } }, action: {} },
    state: () => stateOf(completions.length),
    action: () => actionOf(completions),
    next: () =>
      TensorDict(
        { ...Object.fromEntries(stateOf(completions.length).entries), reward: tf.ones([completions.length]) },
        [completions.length],
      ),
  }))
  const penalties = fc.integer({ min: -2, max: 2 }).map((coefficient) => KLRewardTransform({ reference, coefficient }))
  describe('as a transform', () => checkLaws(it, transformLaws(penalties.map(erased), samples)))

  it('takes the coefficient times the summed difference of log-probabilities from the reward', async () => {
    const law = fc.asyncProperty(rows, fc.integer({ min: -4, max: 4 }), (completions, quarter) =>
      freeing(async (keep) => {
        const coefficient = quarter / 4
        const given = completions.map((_, i) => i)
        const next = keep(TensorDict({ reward: tf.tensor1d(given, 'float32') }, [completions.length]))
        const [added] = await answered(stepped({ reference, coefficient }, next, actionOf(completions)))
        keep(added)
        const expected = completions.map((row, i) => i - coefficient * sum(gaps(row)))
        expect(numbersAt(added, 'reward').map((x) => x + 0)).toEqual(expected.map((x) => x + 0)) // no negative zeros
      }),
    )
    await fc.assert(law)
  })

  it('sums and does not average: the same gap at twice the tokens costs twice as much', () =>
    freeing(async (keep) => {
      const one = { ids: [8], logProbs: [-0.5] }
      const two = { ids: [8, 8], logProbs: [-0.5, -0.5] }
      const [added] = await answered(stepped({ reference }, empty(2), actionOf([one, two])))
      keep(added)
      expect(numbersAt(added, 'reward')).toEqual([-0.5, -1]) // log pi - log pi_ref = -0.5 + 1
    }))

  it.each(REWARD_KL_FORMS)('takes the form %s of the divergence where it is asked for', (form) =>
    freeing(async (keep) => {
      const completion = { ids: [8, 4, 2], logProbs: [-0.5, -1, -0.25] } // against -1, -0.5 and -0.25
      const [added] = await answered(stepped({ reference, coefficient: 2, form }, empty(1), actionOf([completion])))
      keep(added)
      const each = [0.5, -0.5, 0].map((d) => rewardKL(form, d))
      expect(rowsAt(added, 'klPenalty')).toEqual([Array.from(Float32Array.from(each))])
      expect(numbersAt(added, 'reward')[0]).toBeCloseTo(-2 * sum(each), 6)
    }),
  )

  it('keeps the estimate and the reference of every token', async () => {
    const law = fc.asyncProperty(rows, (completions) =>
      freeing(async (keep) => {
        const [added] = await answered(
          stepped({ reference, coefficient: 0.25 }, empty(completions.length), actionOf(completions)),
        )
        keep(added)
        expect(rowsAt(added, 'klPenalty')).toEqual(completions.map(gaps))
        const expected = completions.map(({ ids }) => Array.from(Float32Array.from(ids.map(refLogProb))))
        expect(rowsAt(added, 'refLogProbs', 'response')).toEqual(expected)
      }),
    )
    await fc.assert(law)
  })

  it('a policy that is its reference pays nothing, and an empty completion neither', () =>
    freeing(async (keep) => {
      const same = { ids: [3, 5], logProbs: [3, 5].map(refLogProb) }
      const next = keep(TensorDict({ reward: tf.tensor1d([7, 8]) }, [2]))
      const [added] = await answered(
        stepped({ reference, coefficient: 9 }, next, actionOf([same, { ids: [], logProbs: [] }])),
      )
      keep(added)
      expect(numbersAt(added, 'reward')).toEqual([7, 8])
      expect(numbersAt(next, 'reward')).toEqual([7, 8])
    }))

  it('scores each row by itself: alone or in a batch', async () => {
    const law = fc.asyncProperty(rows, (completions) =>
      freeing(async (keep) => {
        const [together] = await answered(stepped({ reference }, empty(completions.length), actionOf(completions)))
        keep(together)
        for (const [i, row] of completions.entries()) {
          const [alone] = await answered(stepped({ reference }, empty(1), actionOf([row])))
          keep(alone)
          expect(numbersAt(alone, 'reward')[0]).toBe(numbersAt(together, 'reward')[i])
        }
      }),
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it.each([
    [0.7, 0.7],
    [1, 1],
    [0, 1],
  ])('asks the reference about the prompt at the temperature that sampled: %d as %d', (sampledAt, asked) =>
    freeing(async (keep) => {
      const calls: unknown[] = []
      const model: LogProbModel = {
        name: 'listening',
        score: (prompts, completions, temperature) => {
          calls.push([raggedRows(prompts), raggedRows(completions), temperature])
          return reference.score(prompts, completions, temperature)
        },
      }
      const [added] = await answered(
        stepped({ reference: model }, empty(1), actionOf([{ ids: [4], logProbs: [0] }], sampledAt)),
      )
      keep(added)
      expect(calls).toEqual([[[[0, 0]], [[4]], asked]])
    }),
  )

  it('a reference that fails gives its failure, not a reward', async () => {
    const down: LogProbModel = {
      name: 'down',
      score: () => TE.left({ _tag: 'PolicyFailure', policy: 'down', reason: 'connection refused' }),
    }
    const failure = await refused(stepped({ reference: down }, empty(1), actionOf([{ ids: [1], logProbs: [0] }])))
    expect(failure).toMatchObject({ _tag: 'EnvFailure', env: 'KLRewardTransform', cause: { policy: 'down' } })
    expect(failure.reason).toBe('down failed: connection refused')
  })

  it.each([
    ['token ids', TensorDict({ logProbs: { response: ragged('float32', [[0]]) } }, [1]), 'tokens.response'],
    ['log-probabilities', TensorDict({ tokens: { response: ragged('int32', [[1]]) } }, [1]), 'logProbs.response'],
  ])('refuses an action without %s', async (_, action, path) => {
    expect((await refused(stepped({ reference }, empty(1), action))).reason).toContain(`the action has no ${path}`)
  })

  it.each([
    ['too few tokens', [[0]]],
    ['too many tokens', [[0, 0, 0]]],
    ['too few rows', []],
  ])('refuses a reference that answers with %s', async (_, answer) => {
    const wrong: LogProbModel = { name: 'wrong', score: () => TE.right(ragged('float32', answer)) }
    const failure = await refused(
      stepped({ reference: wrong }, empty(1), actionOf([{ ids: [1, 2], logProbs: [0, 0] }])),
    )
    expect(failure.reason).toContain('wrong')
  })

  it('has empty rows before the first step', async () => {
    const [added] = await answered(KLRewardTransform({ reference }).reset(stateOf(2) as never, null, keyFromSeed(1))) // has prompts
    expect(rowsAt(added, 'klPenalty')).toEqual([[], []])
    expect(rowsAt(added, 'refLogProbs', 'response')).toEqual([[], []])
  })

  it('is RetrieveLogProb with KLComputation behind it', async () => {
    const law = fc.asyncProperty(rows, (completions) =>
      freeing(async (keep) => {
        const size = completions.length
        const [previous, action] = [stateOf(size), actionOf(completions)]
        const next = keep(TensorDict({ ...Object.fromEntries(previous.entries), reward: tf.ones([size]) }, [size]))
        const options = { form: 'k2', coefficient: 0.5, shape: 'sum' } as const
        const both = compose(RetrieveLogProb({ model: reference }), KLComputation(options))
        const context = { previous, action }
        const [whole] = await answered(KLRewardTransform({ reference, ...options }).step(next as never, context, null)) // it has prompts
        const [parts] = await answered(both.step(next as never, context, both.initial)) // it has prompts
        keep([whole, parts])
        expect(diff(parts, whole)).toEqual([])
      }),
    )
    await fc.assert(law, { numRuns: 20 })
  })
})

describe('RetrieveKL', () => {
  const ids = { ids: [8, 4], logProbs: [-0.5, -3] }

  it('is KLRewardTransform where the policy told its numbers', () =>
    freeing(async (keep) => {
      const context = { previous: stateOf(1), action: actionOf([ids]) }
      const [own] = await answered(RetrieveKL({ reference }).step(empty(1) as never, context, null)) // reads no entry of its schema
      const [other] = await answered(stepped({ reference }, empty(1), actionOf([ids])))
      keep([own, other])
      expect(diff(own, other)).toEqual([])
    }))

  it('scores the policy where it told none, and only then', () =>
    freeing(async (keep) => {
      const policy = tableModel('policy', () => -2)
      const mute = TensorDict({ tokens: { response: idRows([8, 4]) }, sampling: sampledAt(1) }, [1])
      const context = { previous: stateOf(1), action: mute }
      const kl = RetrieveKL({ reference, policy, reward: 'keep' })
      const [added] = await answered(kl.step(empty(1) as never, context, null)) // reads no entry of its schema
      keep(added)
      expect(rowsAt(added, 'klPenalty')).toEqual([[-1, -1.5]])
      expect([...added.entries.keys()].sort()).toEqual(['klPenalty', 'refLogProbs'])
      const alone = RetrieveKL({ reference }).step(empty(1) as never, context, null) // reads no entry of its schema
      expect((await refused(alone)).reason).toContain('has to be scored by a model')
      const dead = RetrieveKL({ reference, policy: deadModel('dead') }).step(empty(1) as never, context, null) // as above
      expect((await refused(dead)).reason).toBe('dead failed: connection refused')
    }))

  it('has the numbers of whole conversations, and pays for the turn alone', () =>
    freeing(async (keep) => {
      const spans = [{ start: 1, end: 2, message: 1, role: 'assistant', origin: 'sampled' }]
      const previous = TensorDict({ tokens: { prompt: idRows([3, 16, 3]), spans: data([spans]) } }, [1])
      const kl = RetrieveKL({ reference, input: { _tag: 'conversation' } })
      const [added] = await answered(kl.step(empty(1) as never, { previous, action: actionOf([ids]) }, null)) // as above
      keep(added)
      expect(rowsAt(added, 'refLogProbs', 'full')).toEqual([[Number.NaN, -2, Number.NaN, -1, -0.5]])
      expect(numbersAt(added, 'reward')).toEqual([2]) // -(-0.5 + 1) - (-3 + 0.5)
    }))
})
