/** Runs that train an adapter: what they save, that they resume bit for bit, and what they leave behind. */
import { readdirSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { own, scope } from '../../src/engine/scope.js'
import { mergeLora } from '../../src/modules/lora/adapter.js'
import { loadAdapter } from '../../src/modules/lora/peft.js'
import { hostArrays, loadPretrained, makeParams } from '../../src/modules/pretrained.js'
import type { RunEvent } from '../../src/run/events.js'
import { prepareRun } from '../../src/run/prepare.js'
import type { RunSettings } from '../../src/run/settings.js'
import { train } from '../../src/run/train.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { contentsOf, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

const LORA = { loraRank: 2, loraAlpha: 8, loraTarget: 'q_proj, v_proj' } as const

const follow = async (request: Parameters<typeof prepareRun>[0], stopAt?: number): Promise<readonly RunEvent[]> => {
  const abort = new AbortController()
  const events: RunEvent[] = []
  for await (const event of train({ ...(await rightOf(prepareRun(request))), signal: abort.signal })) {
    events.push(event)
    if (event.type === 'step' && event.step === stopAt) abort.abort()
  }
  return events
}

const start = (name: string, settings: Partial<RunSettings>, stopAt?: number): Promise<readonly RunEvent[]> =>
  follow({ _tag: 'New', folder: path(name), settings: smallSettings(model, settings) }, stopAt)

const TRAINED = ['adapter_model.safetensors', 'adapter_config.json', 'optimizer.safetensors'] as const

describe('a run with an adapter', () => {
  it('saves the adapter and its optimizer alone, and says how many numbers it trains', async () => {
    const events = await start('run', { ...LORA, dtype: 'BF16' })
    const [first] = events
    if (first?.type !== 'start') throw new Error('a run begins with its start')
    expect(first.trained).toBeLessThan(first.parameters / 10)
    expect(events.filter(({ type }) => type === 'export')).toEqual([
      { type: 'export', path: path('run/adapter') },
      { type: 'export', path: path('run/model') },
      { type: 'export', path: path('run/best/adapter') },
      { type: 'export', path: path('run/best/model') },
    ])
    expect(readdirSync(path('run/checkpoints/step-000004')).sort()).toEqual([...TRAINED, 'state.json'].sort())
    expect(readdirSync(path('run/adapter')).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
    const [adapter, checkpoint] = [contentsOf(path('run/adapter')), contentsOf(path('run/checkpoints/step-000004'))]
    expect(adapter['adapter_model.safetensors']).toBe(checkpoint['adapter_model.safetensors'])
    for (const event of events) if (event.type === 'step') expect(event.maxLogProbGap).toBeLessThan(1e-5)
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
      await start(`whole-${recompute}`, settings)
      await start(`stopped-${recompute}`, settings, 3)
      await follow({ _tag: 'Resume', folder: path(`stopped-${recompute}`), asked: {} })
      const [whole, resumed] = ['whole', 'stopped'].map((name) =>
        contentsOf(path(`${name}-${recompute}/checkpoints/step-000004`)),
      )
      for (const file of TRAINED) expect(resumed![file], file).toBe(whole![file])
    },
  )

  it('refuses modules that the model does not have, and makes no folder', async () => {
    const settings = smallSettings(model, { ...LORA, loraTarget: 'c_attn' })
    const failure = await leftOf(prepareRun({ _tag: 'New', folder: path('never'), settings }))
    expect(failure).toMatchObject({
      _tag: 'ConfigFailure',
      reason: expect.stringContaining("'c_attn' is no projection") as string,
    })
    expect(readdirSync(path('.'))).not.toContain('never')
  })

  it('refuses to go on with another adapter', async () => {
    const failure = await leftOf(prepareRun({ _tag: 'Resume', folder: path('run'), asked: { loraRank: 4 } }))
    expect(failure).toMatchObject({ reason: expect.stringContaining('loraRank is 2, not 4') as string })
  })
})
