/**
 * Runs that train an adapter: what they save, that they resume bit for bit, and what they leave
 * behind.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { beforeAll, describe, expect, it } from 'vitest'
import { mergeLora } from '../../src/modules/lora/adapter.js'
import { loadAdapter } from '../../src/modules/lora/peft.js'
import { hostArrays, loadPretrained, makeParams } from '../../src/modules/pretrained/pretrained.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import { contentsOf, type Flags, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { runEvents, storedSettings } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

const LORA = { loraRank: 2, loraAlpha: 8, loraTarget: ['q_proj', 'v_proj', 'lm_head'] } as const

const follow = async (name: string, flags: Flags, stopAt?: number): Promise<readonly RunEvent[]> => {
  const events: RunEvent[] = []
  const isLast = (event: RunEvent): boolean => event.type === 'step' && event.step === stopAt
  for await (const event of runEvents(path(name), smallSettings(model, flags), { stopAt: isLast })) events.push(event)
  return events
}

const TRAINED = ['adapter_model.safetensors', 'adapter_config.json', 'optimizer.safetensors'] as const

describe('a run with an adapter', () => {
  it('saves the adapter and its optimizer alone, and writes adapter and model at its end', async () => {
    const events = await follow('run', { ...LORA, dtype: 'BF16' })
    expect(readdirSync(path('run/best')).sort()).toEqual(['adapter', 'model'])
    expect(readdirSync(path('run/checkpoints/step-000004')).sort()).toEqual(
      [...TRAINED, 'learner.json', 'state.json'].sort(),
    )
    expect(readdirSync(path('run/adapter')).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
    const [adapter, checkpoint] = [contentsOf(path('run/adapter')), contentsOf(path('run/checkpoints/step-000004'))]
    expect(adapter['adapter_model.safetensors']).toBe(checkpoint['adapter_model.safetensors'])
    for (const event of events) if (event.type === 'step') expect(event.update.maxLogProbGap).toBeLessThan(1e-5)
  })

  it('learns: the adapter is another one after each step, and the first weights are the reference', async () => {
    const [two, four] = [2, 4].map((step) => contentsOf(path(`run/checkpoints/step-00000${step}`)))
    expect(two!['adapter_model.safetensors']).not.toBe(four!['adapter_model.safetensors'])
    const { config, arrays } = await rightOf(loadPretrained(model))
    const { adapter, baseModel } = await rightOf(loadAdapter(path('run/adapter'), config))
    expect(baseModel).toBe(model)
    expect(
      [...adapter.arrays].some(([name, { data }]) => name.endsWith('lora_B.weight') && data.some((x) => x !== 0)),
    ).toBe(true)
    expect([...arrays.keys()].some((name) => adapter.arrays.has(name))).toBe(false)
  })

  it('writes the merged model, rounded as it was asked to', async () => {
    const { config, arrays } = await rightOf(loadPretrained(model))
    const { adapter } = await rightOf(loadAdapter(path('run/adapter'), config))
    const merged = await rightOf(loadPretrained(path('run/model')))
    using exact = own(
      scope(() =>
        mergeLora(config, makeParams(arrays), { config: adapter.config, tensors: makeParams(adapter.arrays) }),
      ),
    )
    let rounded = 0
    for (const [name, { data }] of hostArrays(exact.value)) {
      const read = merged.arrays.get(name)!.data
      for (const [i, x] of data.entries()) {
        if (Math.abs(read[i]! - x) > Math.abs(x) * 2 ** -8) throw new Error(`${name}[${i}] is ${read[i]}, not ${x}`)
        if (read[i] !== x) rounded++
      }
    }
    expect(rounded).toBeGreaterThan(0)
    expect(JSON.parse(readFileSync(path('run/model/config.json'), 'utf8'))).toMatchObject({ dtype: 'bfloat16' })
    expect(merged.text.files).toEqual((await rightOf(loadPretrained(model))).text.files)
  })

  it.each(['none', 'layers'] as const)(
    'ends, when resumed, with the adapter of a run that was never stopped, bit for bit (recompute %s)',
    async (recompute) => {
      const settings = { ...LORA, recompute, microBatch: 150 }
      await follow(`whole-${recompute}`, settings)
      await follow(`stopped-${recompute}`, settings, 3)
      const name = `stopped-${recompute}`
      for await (const _ of runEvents(path(name), await storedSettings(path(name))));
      const [whole, resumed] = ['whole', 'stopped'].map((name) =>
        contentsOf(path(`${name}-${recompute}/checkpoints/step-000004`)),
      )
      for (const file of TRAINED) expect(resumed![file], file).toBe(whole![file])
    },
  )

  it('refuses modules that the model does not have, and makes no folder', async () => {
    await expect(follow('never', { ...LORA, loraTarget: 'c_attn' })).rejects.toThrow("'c_attn' is not a projection")
    expect(readdirSync(path('.'))).not.toContain('never')
  })

  it('refuses to resume with another adapter', async () => {
    await expect(follow('run', { ...LORA, loraRank: 4, dtype: 'BF16' })).rejects.toThrow('a run with other parts')
  })
})
