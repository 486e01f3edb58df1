import { requireRight } from '@tandem-rl/testing'
import { describe, expect, it } from 'vitest'
import { generateAll } from '../../../src/modules/generation/generateAll.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { requestOf } from '../../kit/engineSuiteParts.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { scriptedEngine, toyAdapter, toyWeights } from '../../kit/scriptedEngine.js'

/** Runs `f` with the client of an engine that is closed afterwards. */
const withClient = async (f: (client: ReturnType<typeof localClient>) => Promise<void>): Promise<void> => {
  const client = localClient(scriptedEngine().engine, 'toy')
  try {
    await f(client)
  } finally {
    await client.close()
  }
}

const versionsOf = async (client: ReturnType<typeof localClient>, changes = {}) => {
  const { completions } = requireRight((await generateAll(client, [requestOf([3, 1], {}, changes)]))[0]!)
  return new Set(completions[0]!.tokens.map(({ version }) => version))
}

describe('the client of an engine at hand', () => {
  it('reports the engine and its state', () =>
    withClient(async (client) => {
      expect(await rightOf(client.connect)).toMatchObject({ logProbs: 'all', promptLogProbs: 'yes', stamps: 'yes' })
      await rightOf(client.health)
      expect(await rightOf(client.state)).toEqual({ version: 1, isPaused: false, adapters: [] })
      await rightOf(client.pause({ mode: 'keep', cache: 'clear' }))
      expect(await rightOf(client.state)).toMatchObject({ isPaused: true })
      await rightOf(client.resume)
      await rightOf(client.resetPrefixCache)
      expect(await rightOf(client.abort())).toBe(0)
    }))

  it('loads weights under their version, and refuses those that the engine refuses', () =>
    withClient(async (client) => {
      await rightOf(client.loadWeights(toyWeights(0.5), { version: 9 }))
      expect(await versionsOf(client)).toEqual(new Set([9]))
      const failure = await leftOf(client.loadWeights(toyWeights(Number.NaN), { version: 10 }))
      expect(failure).toMatchObject({ _tag: 'EngineFailure', engine: 'toy', kind: 'refused' })
      expect(await rightOf(client.state)).toMatchObject({ version: 9 })
    }))

  it('samples with the adapter that serves, under the version that it serves as', () =>
    withClient(async (client) => {
      await rightOf(client.loadAdapter('policy-v4', toyAdapter(0.25)))
      expect((await leftOf(client.loadAdapter('policy-v4', toyAdapter(1)))).kind).toBe('refused')
      expect(await versionsOf(client)).toEqual(new Set([1]))
      client.serve({ version: 4, adapter: 'policy-v4', cacheSalt: '' })
      expect(await versionsOf(client)).toEqual(new Set([4]))
      expect(client.inFlight()).toBe(0)
      client.serve({ version: 5, adapter: null, cacheSalt: '' })
      await rightOf(client.unloadAdapter('policy-v4'))
      expect(await rightOf(client.state)).toMatchObject({ adapters: [] })
    }))

  it('of a closed engine is reported', async () => {
    const client = localClient(scriptedEngine().engine, 'toy')
    await client.close()
    expect(await leftOf(client.loadWeights(toyWeights(1), { version: 2 }))).toMatchObject({ kind: 'refused' })
    expect((await generateAll(client, [requestOf([1])]))[0]).toMatchObject({ left: { kind: 'closed' } })
  })
})
