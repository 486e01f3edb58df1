import { type Key, keyFromSeed } from '@tandem-rl/base'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import { ragged, raggedRows, rowLengths } from '../../src/data/tensorDict/leaf.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { initialParams, type Params } from '../../src/modules/transformer/params.js'
import { type TransformersPolicy, TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'
import { tinyConfig } from '../kit/models.js'
import { leftOf, rightOf } from '../kit/results.js'
import { tokenPrompt } from '../kit/small.js'

useEngine()

const config = tinyConfig({ vocabularySize: 24, maxPositions: 64, layers: 1 })
const key = keyFromSeed(3)
const SAMPLING = { maxNewTokens: 12 }

const paramsOf = (seed: number): Params => initialParams(config, keyFromSeed(seed), 0.4)

/** A policy with the weights of a seed, which it alone owns. */
const policyWith = (seed: number): TransformersPolicy => {
  using params = own(scope(() => paramsOf(seed)))
  return TransformersWrapper({ config, params: params.value, sampling: SAMPLING })
}

const PROMPTS = [[5, 6, 7], [5, 6, 7], [9], [9]]

const act = (
  policy: Policy<TokenPrompt, TokenAction>,
  rows: readonly (readonly number[])[] = PROMPTS,
  given: Key = key,
): Promise<TensorDict<TokenAction>> => rightOf(policy.act(tokenPrompt(rows), given))

const idsOf = (action: TensorDict<TokenAction>) => raggedRows(get(action, 'tokens', 'response'))
const logProbsOf = (action: TensorDict<TokenAction>) => raggedRows(get(action, 'logProbs', 'response'))

let policy: TransformersPolicy

beforeAll(() => {
  policy = policyWith(1)
})
afterAll(() => policy.release())

describe('acting', () => {
  it('gives for every prompt ids with as many log-probabilities, why it stopped, and how it was sampled', async () => {
    const action = await act(policy)
    expect(action.batchShape).toEqual([4])
    expect(rowLengths(get(action, 'logProbs', 'response'))).toEqual(rowLengths(get(action, 'tokens', 'response')))
    for (const row of logProbsOf(action)) for (const x of row) expect(x).toBeLessThanOrEqual(0)
    for (const [i, row] of idsOf(action).entries()) {
      expect(row.length).toBeGreaterThan(0)
      const stopped = get(action, 'stopReason').items.get(i) === 'stop'
      expect(row.indexOf(3)).toBe(stopped ? row.length - 1 : -1) // 3 is the model's end token
      if (!stopped) expect(row).toHaveLength(12)
    }
    const record = { temperature: 1, topK: null, topP: null, maxNewTokens: 12, minNewTokens: 0 }
    expect(get(action, 'sampling').items.toArray()).toEqual(Array(4).fill(record))
  })

  it('gives equal actions for equal keys, and others for other keys', async () => {
    const ids = idsOf(await act(policy))
    expect(idsOf(await act(policy))).toEqual(ids)
    expect(idsOf(await act(policy, PROMPTS, keyFromSeed(4)))).not.toEqual(ids)
  })

  it('samples each row from its own place, whatever the prompts of the other rows', async () => {
    const rows = fc.array(fc.array(fc.integer({ min: 4, max: 23 }), { minLength: 1, maxLength: 20 }), {
      minLength: 1,
      maxLength: 5,
    })
    const alone = await act(policy, [[5, 6, 7]])
    await fc.assert(
      fc.asyncProperty(rows, async (others) => {
        const action = await act(policy, [[5, 6, 7], ...others])
        expect(idsOf(action)[0]).toEqual(idsOf(alone)[0])
        expectClose(logProbsOf(action)[0]!, logProbsOf(alone)[0]!, { absolute: 1e-5 })
      }),
      { numRuns: 15 },
    )
  })

  it('takes the same tokens for equal prompts at temperature 0, whatever the key', async () => {
    const greedy = policy.withSampling({ temperature: 0 })
    const ids = idsOf(await act(greedy))
    expect(idsOf(await act(greedy, PROMPTS, keyFromSeed(8)))).toEqual(ids)
    expect(ids[0]).toEqual(ids[1])
    expect(ids[0]).not.toEqual(ids[2])
  })

  it('ends at its own stop tokens and limit where they are given', async () => {
    using params = own(scope(() => paramsOf(1)))
    const stops = [4, 6, 8, 10, 12, 14, 16]
    const stopping = TransformersWrapper({
      config,
      params: params.value,
      stopTokens: stops,
      sampling: { maxNewTokens: 5 },
    })
    const action = await act(stopping, Array(12).fill([5, 6]))
    const reasons = get(action, 'stopReason').items.toArray()
    expect(new Set(reasons)).toEqual(new Set(['stop', 'length']))
    for (const [i, row] of idsOf(action).entries()) {
      expect(row.slice(0, -1).filter((id) => stops.includes(id))).toEqual([])
      if (reasons[i] === 'stop') expect(stops).toContain(row.at(-1))
      else expect(row).toHaveLength(5)
    }
    stopping.release()
  })

  it('records the sampling that was used, and leaves the policy it was made from alone', async () => {
    const changed = policy.withSampling({ temperature: 0.5, topK: 3, topP: 0.9 })
    const record = { temperature: 0.5, topK: 3, topP: 0.9, maxNewTokens: 12, minNewTokens: 0 }
    expect(get(await act(changed), 'sampling').items.first()).toEqual(record)
    expect(get(await act(policy), 'sampling').items.first()?.temperature).toBe(1)
  })

  it.each([
    ['an empty prompt', [[5], []], 'prompt 1 is empty'],
    ['a prompt that leaves no room', [Array(60).fill(5)], 'limit of 64'],
  ])('gives a failure for %s, and keeps nothing', async (_, rows, reason) => {
    const before = liveTensors().count
    const failure = await leftOf(policy.act(tokenPrompt(rows), key))
    expect(failure).toMatchObject({ _tag: 'PolicyFailure', policy: 'TransformersWrapper' })
    expect(failure.reason).toContain(reason)
    expect(liveTensors().count).toBe(before)
  })

  it('refuses temperatures and cuts that cannot be, all at once', async () => {
    const failure = await leftOf(
      policy.withSampling({ temperature: -1, topK: -3, topP: 2 }).act(tokenPrompt(PROMPTS), key),
    )
    for (const name of ['temperature', 'topK', 'topP']) expect(failure.reason).toContain(`${name} must be`)
  })
})

describe('scoring', () => {
  it.each([1, 0.6, 1.7])('gives the log-probabilities that were recorded at temperature %d', async (temperature) => {
    const action = await act(policy.withSampling({ temperature }))
    const prompts = ragged('int32', PROMPTS)
    const scores = await rightOf(policy.score(prompts, get(action, 'tokens', 'response'), temperature))
    expect(rowLengths(scores)).toEqual(rowLengths(get(action, 'tokens', 'response')))
    expectClose(raggedRows(scores).flat(), logProbsOf(action).flat(), { absolute: 1e-5 })
  })

  it('gives a failure when completions are missing', async () => {
    const failure = await leftOf(policy.score(ragged('int32', [[5], [6]]), ragged('int32', [[1]]), 1))
    expect(failure).toMatchObject({
      _tag: 'PolicyFailure',
      reason: expect.stringContaining('got 2 prompts and 1 completions'),
    })
  })
})

/** Runs `f` with a fresh policy of seed 1 and with the weights of seed 2. */
const withUpdate = async (f: (fresh: TransformersPolicy, params: Params) => Promise<void>): Promise<void> => {
  const fresh = policyWith(1)
  const params = own(scope(() => paramsOf(2)))
  try {
    await f(fresh, params.value)
  } finally {
    params.release()
    fresh.release()
  }
}

describe('new weights', () => {
  it('are sampled with from then on, under their version, as by a policy that began with them', async () => {
    const other = policyWith(2)
    const expected = await act(other)
    other.release()
    await withUpdate(async (fresh, params) => {
      expect(fresh.version()).toBe(0)
      expect(get(await act(fresh), 'policyVersion').items.toArray()).toEqual([0, 0, 0, 0])
      expect(await rightOf(fresh.load(params, 7))).toBe(7)
      expect(fresh.version()).toBe(7)
      const action = await act(fresh)
      expect(get(action, 'policyVersion').items.toArray()).toEqual([7, 7, 7, 7])
      expect(idsOf(action)).toEqual(idsOf(expected))
      expect(logProbsOf(action)).toEqual(logProbsOf(expected))
    })
  })

  it('do not change a call that has begun', async () => {
    await withUpdate(async (fresh, params) => {
      const before = await act(fresh)
      const running = act(fresh)
      await rightOf(fresh.load(params, 1))
      const action = await running
      expect(idsOf(action)).toEqual(idsOf(before))
      expect(get(action, 'policyVersion').items.first()).toBe(0)
    })
  })

  it('are not loaded before the task is run', async () => {
    await withUpdate(async (fresh, params) => {
      const task = fresh.load(params, 1)
      expect(fresh.version()).toBe(0)
      await rightOf(task)
      expect(fresh.version()).toBe(1)
    })
  })

  it('are kept alive by the policy alone, and the old ones are freed', async () => {
    const fresh = policyWith(1)
    const before = liveTensors().count
    const params = own(scope(() => paramsOf(2)))
    await rightOf(fresh.load(params.value, 1))
    params.release()
    expect(liveTensors().count).toBe(before)
    expect(idsOf(await act(fresh))).toHaveLength(4)
    fresh.release()
  })

  it.each([
    ['misses one', (params: Params) => ({ ...params, 'model.norm.weight': undefined }), "'model.norm.weight' must be"],
    ['has one of another shape', (params: Params) => ({ ...params, 'model.norm.weight': tf.zeros([3]) }), 'got [3]'],
    ['has one more', (params: Params) => ({ ...params, extra: tf.zeros([1]) }), "'extra' is not a parameter"],
  ])('of which it %s are refused, and the old weights go on under their version', async (_, change, reason) => {
    await withUpdate(async (fresh, params) => {
      const [before, owned] = [await act(fresh), ownedCount()]
      using bad = own(scope(() => change(params) as Params)) // wrong on purpose
      const failure = await leftOf(fresh.load(bad.value, 1))
      expect(failure).toMatchObject({ _tag: 'WeightFailure', receiver: 'TransformersWrapper' })
      expect(failure.reason).toContain(reason)
      expect([fresh.version(), ownedCount()]).toEqual([0, owned + 1])
      expect(idsOf(await act(fresh))).toEqual(idsOf(before))
    })
  })

  it('of another architecture are refused at once when a policy is made', () => {
    using params = own(scope(() => initialParams(tinyConfig({ vocabularySize: 25, layers: 1 }), key)))
    expect(() => TransformersWrapper({ config, params: params.value })).toThrow("'model.embed_tokens.weight' must be")
  })
})
