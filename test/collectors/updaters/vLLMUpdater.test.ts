/** Pushes of a real decoder into real engines. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft } from '@tandem-rl/testing'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { afterAll, describe, expect, it } from 'vitest'
import { vLLMUpdater } from '../../../src/collectors/updaters/vLLMUpdater.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { hostArrays, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import type { DecoderConfig } from '../../../src/modules/transformer/config.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { useEngine } from '../../kit/engine.js'
import { rightOf } from '../../kit/results.js'
import { byteConfig, byteText } from '../../kit/small.js'
import { fullVersions, loraVersions, syncRounds } from '../../kit/syncRounds.js'

useEngine()

const config = byteConfig()
const folder = mkdtempSync(join(tmpdir(), 'tandem-updater-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const base = (config: DecoderConfig) => scope(() => hostArrays(initialParams(config, keyFromSeed(1), 0.5)))

/** Two engines of this process. */
const engines = (config = byteConfig()) => {
  const arrays = base(config)
  const clients = ['one', 'two'].map((name) => {
    const engine = scope(() => modelEngine({ config, params: makeParams(arrays), limits: { memoryBytes: 2 ** 22 } }))
    return localClient(engine, name)
  })
  return { arrays, clients, close: () => Promise.all(clients.map((client) => client.close())) }
}

describe('vLLMUpdater on engines of this process', () => {
  it('pushes adapters while requests run: each is verified, and each sample is of the version it is stamped with', async () => {
    const { arrays, clients, close } = engines()
    const updater = vLLMUpdater({ clients, model: { config } })
    const rounds = await syncRounds(loraVersions(config, arrays), { clients, updater }, { rounds: 6, parallel: 8 })
    expect([rounds.mixed, rounds.failed]).toEqual([0, 0])
    expect(rounds.worstProbeGap).toBeLessThan(1e-4)
    expect(rounds.worstSampleGap).toBeLessThan(1e-4)
    expect(rounds.versions.size).toBeGreaterThan(5)
    expect(updater.report()).toMatchObject({ how: 'adapter', outcome: 'committed' })
    for (const client of clients) {
      const { adapters } = await rightOf(client.state)
      expect(adapters).toContain('policy-v6')
      expect(adapters.length).toBeLessThanOrEqual(3)
    }
    updater.release()
    await close()
  })

  it.each(['arrays', 'folder'] as const)('replaces whole weights by %s, an adapter merged', async (by) => {
    const { arrays, clients, close } = engines()
    const checkpoints = { folder, text: byteText() }
    const updater = vLLMUpdater({
      clients,
      how: 'full',
      model: { config, ...(by === 'folder' && { checkpoints }) },
    })
    const versions = by === 'arrays' ? fullVersions(config, arrays) : loraVersions(config, arrays)
    const rounds = await syncRounds(versions, { clients, updater }, { rounds: 5, parallel: 8 })
    expect([rounds.mixed, rounds.failed]).toEqual([0, 0])
    expect(rounds.worstProbeGap).toBeLessThan(1e-4)
    expect(rounds.worstSampleGap).toBeLessThan(1e-4)
    if (by === 'folder') expect(readdirSync(folder).sort()).toEqual(['v4', 'v5'])
    updater.release()
    await close()
  })

  it.each(['arrays', 'folder'] as const)(
    'replaces a tied model by %s with the output projection of an adapter',
    async (by) => {
      const tied = byteConfig({ tiedEmbeddings: true })
      const { arrays, clients, close } = engines(tied)
      const checkpoints = { folder, text: byteText(), projection: 'own' as const }
      const updater = vLLMUpdater({
        clients,
        how: 'full',
        model: { config: tied, ...(by === 'folder' && { checkpoints }) },
      })
      const versions = loraVersions(tied, arrays, ['lm_head'])
      const rounds = await syncRounds(versions, { clients, updater }, { rounds: 3, parallel: 4 })
      expect([rounds.mixed, rounds.failed]).toEqual([0, 0])
      expect(rounds.worstProbeGap).toBeLessThan(1e-4)
      expect(rounds.worstSampleGap).toBeLessThan(1e-4)
      updater.release()
      await close()
    },
  )

  it('refuses an output projection that servers of a tied model would ignore, before any server is changed', async () => {
    const tied = byteConfig({ tiedEmbeddings: true })
    const { arrays, clients, close } = engines(tied)
    const updater = vLLMUpdater({
      clients,
      how: 'full',
      model: { config: tied, checkpoints: { folder, text: byteText() } },
    })
    using adapted = own(scope(() => loraVersions(tied, arrays, ['lm_head']).weights(1)))
    const refused = requireLeft(await updater.push(adapted.value, 1)())
    expect(refused).toMatchObject({
      report: null,
      reason: expect.stringContaining('set checkpoints.projection to own'),
    })
    for (const client of clients) expect(await rightOf(client.state)).toMatchObject({ version: 0, isPaused: false })
    updater.release()
    await close()
  })
})
