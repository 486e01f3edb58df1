/** The settings that a run on a server refuses, because they would have no effect. */
import { describe, expect, it } from 'vitest'
import { openedBy, remoteTraining } from '../../src/cli/remoteTraining.js'
import type { OpenTraining } from '../../src/run/parts/remoteTraining.js'
import { checkRemote } from '../../src/run/parts/remoteTraining.js'
import { policySettings } from '../../src/run/parts/settings.js'

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

  it.each([
    ['--base-model', { baseModel: 'toy' }],
    ['--prices', { prices: { sent: 1, sampled: 1, trained: 1 } }],
    ['--checkpoint-ttl', { checkpointTtl: 60 }],
    ['--wire', { wire: 'json' as const }],
  ])('refuses %s without --learner', (name, flags) =>
    expect(remoteTraining(flags)).rejects.toThrow(`${name} needs --learner tinker`),
  )
})
