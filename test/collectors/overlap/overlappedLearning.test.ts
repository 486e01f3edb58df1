/**
 * Asynchronous sampling with a real decoder, by an in-process policy and by a generation engine.
 */
import { describe, expect, it } from 'vitest'
import { vLLMUpdater } from '../../../src/collectors/updaters/vLLMUpdater.js'
import { inProcessUpdater } from '../../../src/collectors/weightSync.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { enginePolicy } from '../../../src/modules/generation/policy/enginePolicy.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { useEngine } from '../../kit/engine.js'
import { firstParams, inTurns, overlapConfig, overlapped, type Sampler } from '../../kit/overlap.js'

useEngine()

const NEW_TOKENS = 6

const wrapper = (): Sampler => {
  using params = firstParams()
  const policy = TransformersWrapper({
    config: overlapConfig,
    params: params.value,
    sampling: { maxNewTokens: NEW_TOKENS },
  })
  return { policy, updater: inProcessUpdater(policy), close: policy.release }
}

const engine = (): Sampler => {
  using params = firstParams()
  const made = modelEngine({ config: overlapConfig, params: params.value, limits: { memoryBytes: 2 ** 24 } })
  const client = localClient(made, 'engine')
  const updater = vLLMUpdater({ clients: [client], model: { config: overlapConfig } })
  return {
    policy: enginePolicy({ engine: client, sampling: { maxTokens: NEW_TOKENS } }),
    updater,
    close: () => {
      updater.release()
      return client.close()
    },
  }
}

const withSampler = async <T>(make: () => Sampler, f: (sampler: Sampler) => Promise<T>): Promise<T> => {
  const sampler = make()
  try {
    return await f(sampler)
  } finally {
    await sampler.close()
  }
}

describe.each([
  { name: 'the policy of the same weights', make: wrapper, rules: ['wait', 'drop', 'correct'] as const },
  { name: 'a generation engine', make: engine, rules: ['wait'] as const },
])('a learner that samples ahead with $name', ({ make, rules }) => {
  it('with maxLag 0 gives the parameters of a loop in turns, bit for bit, whatever becomes of stale groups', async () => {
    const turns = await withSampler(make, (sampler) => inTurns(sampler, 3, 2))
    expect(turns.metrics.length).toBeGreaterThan(1)
    for (const stale of rules) {
      const given = { groups: 2, maxLag: 0, stale, lastVersion: 3 }
      expect(await withSampler(make, (sampler) => overlapped(sampler, given))).toEqual(turns)
    }
  })

  it('samples one step ahead with maxLag 1, and learns from each task once', async () => {
    const given = { groups: 2, maxLag: 1, lastVersion: 3 }
    const { tasks, lags } = await withSampler(make, (sampler) => overlapped(sampler, given))
    expect(tasks.flat().sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5])
    expect(lags[0]).toEqual([0, 0])
    expect(Math.max(...lags.flat())).toBe(1)
  })
})
