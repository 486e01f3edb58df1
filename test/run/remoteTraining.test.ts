/** The settings that a run on a server refuses, because they would have no effect. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { openedBy, remoteTraining } from '../../src/cli/tinkerTraining.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import type { OpenTraining } from '../../src/run/parts/remoteTraining.js'
import { checkRemote } from '../../src/run/parts/remoteTraining.js'
import { policySettings } from '../../src/run/parts/settings.js'
import { useEngine } from '../kit/engine.js'
import { byteConfig } from '../kit/small.js'
import { tinkerServer } from '../kit/tinker.js'

useEngine()

const REFUSED: readonly (readonly [string, object])[] = [
  ['lora.alpha', { lora: { rank: 4, alpha: 8 } }],
  ['lora.target', { lora: { rank: 4, target: ['q_proj'] } }],
  ['lora.scaling', { lora: { rank: 4, scaling: 'alpha/sqrt(rank)' } }],
  ['compute.microBatch', { compute: { microBatch: 512 } }],
  ['compute.recompute', { compute: { recompute: 'layers' } }],
  ['compute.workers', { compute: { workers: 2 } }],
  ['compute.dtype', { compute: { dtype: 'BF16' } }],
  ['sampling.temperature', { sampling: { temperature: 0.7 } }],
  ['sampling.samplerThreads', { sampling: { samplerThreads: 2 } }],
]

describe('checkRemote', () => {
  it('accepts the defaults, and a rank', () => {
    expect(() => checkRemote(policySettings.parse({}))).not.toThrow()
    expect(() => checkRemote(policySettings.parse({ lora: { rank: 4 } }))).not.toThrow()
  })

  it.each(REFUSED)('refuses %s', (name, changed) => {
    const settings = policySettings.parse(changed)
    expect(() => checkRemote(settings)).toThrow(RangeError)
    expect(() => checkRemote(settings)).toThrow(`${name} must be`)
  })

  it('names the alpha that servers choose', () => {
    expect(() => checkRemote(policySettings.parse({ lora: { alpha: 8 } }))).toThrow(/alpha 32 divided by the rank/)
  })
})

describe('--learner tinker', () => {
  const training: OpenTraining = () => Promise.reject(new Error('not opened'))

  it('refuses a recipe that trains in this process', async () => {
    const closed: string[] = []
    const build = async () => ({ close: async () => void closed.push('run') })
    await expect(openedBy(training, build)).rejects.toThrow(/recipe that uses grpoParts/)
    expect(closed).toEqual(['run'])
  })

  it('refuses --base-model without --learner', () => {
    expect(() => remoteTraining({ baseModel: 'toy' })).toThrow(/--learner tinker/)
    expect(() => remoteTraining({ prices: { sent: 1, sampled: 1, trained: 1 } })).toThrow(/--prices needs --learner/)
    expect(() => remoteTraining({ checkpointTtl: 60 })).toThrow(/--checkpoint-ttl needs --learner/)
  })

  it('sends nothing about a new model, because servers load a checkpoint only as its first request', async () => {
    const app = tinkerServer()
    const paths: string[] = []
    const answer = (request: Request): Promise<Response> => {
      paths.push(new URL(request.url).pathname)
      return app.fetch(request)
    }
    const server = orThrow(await liveHttpServer(answer, { port: 0, refusal: (_, reason) => reason })())
    const open = remoteTraining({ learner: 'tinker', url: server.url, baseModel: 'toy' })!
    const opened = await open({
      ...{ config: byteConfig(), loss: policyLoss(), optimizer: adamW({ learningRate: 1e-3 }), key: keyFromSeed(0) },
      ...{ passes: {}, maxGradNorm: 1, lora: 2, maxTokens: 4, offPolicy: {} },
    })
    await opened.close()
    await server.close({ graceMs: 0, atLimit: async () => {} })
    await app.close()
    expect(paths).toContain('/api/v1/create_model')
    expect(paths.filter((path) => path.endsWith('/save_weights_for_sampler'))).toEqual([])
  })
})
