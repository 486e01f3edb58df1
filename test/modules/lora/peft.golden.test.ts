/** Adapters that PEFT wrote: the model computes with them here what it computed there. */
import { liveFiles } from '@tandem-rl/host'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { mergeLora, withLora } from '../../../src/modules/lora/adapter.js'
import { loadAdapter } from '../../../src/modules/lora/peft.js'
import { mergeAdapters } from '../../../src/modules/pretrained/mergeAdapters.js'
import { loadWeights, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { logitsOfRows, readAdaptedLogits } from '../../kit/lora.js'
import { rightOf } from '../../kit/results.js'

useEngine()

const FOLDERS = ['qwen2', 'llama', 'gpt2', 'llama_head', 'qwen2_head', 'gpt2_head']

describe.each(FOLDERS)('the adapter that PEFT made for %s', (name) => {
  const family = name.split('_')[0]!
  const folder = `test/golden/lora/${name}`
  const expected = readAdaptedLogits(folder)
  const load = async () => {
    const { config, arrays } = await rightOf(loadWeights(`test/golden/models/${family}`))
    const { adapter, baseModel } = await rightOf(loadAdapter(folder, config))
    return { config, arrays, adapter, baseModel }
  }

  it('is merged into the weights, and tied embeddings stay as they are', async () => {
    const plain = await rightOf(loadWeights(`test/golden/models/${family}`))
    const { config, arrays } = await rightOf(mergeAdapters([folder], liveFiles)(plain))
    using made = own(scope(() => makeParams(arrays)))
    expectClose(logitsOfRows(made.value, config, expected.input_ids), expected.logits.flat(2), {
      ...{ absolute: 2e-5, relative: 1e-4 },
    })
    const table = `${config.embedding.name}.weight`
    expect(arrays.get(table)!.data).toEqual(plain.arrays.get(table)!.data)
  })

  it('gives the logits that PEFT computed, and so do the merged weights', async () => {
    const { config, arrays, adapter, baseModel } = await load()
    expect(baseModel).toBe(family)
    using made = own(
      scope(() => {
        const lora = { config: adapter.config, tensors: makeParams(adapter.arrays) }
        const base = makeParams(arrays)
        return { base, adapted: withLora(base, lora), merged: mergeLora(config, base, lora) }
      }),
    )
    const { base, adapted, merged } = made.value
    const wanted = expected.logits.flat(2)
    for (const params of [adapted, merged])
      expectClose(logitsOfRows(params, config, expected.input_ids), wanted, { absolute: 2e-5, relative: 1e-4 })
    const plain = logitsOfRows(base, config, expected.input_ids)
    const change = Math.max(...wanted.map((x, i) => Math.abs(x - plain[i]!)))
    expect(change).toBeGreaterThan(0.1) // an adapter that is not looked at would show
    expect(change).toBeLessThanOrEqual(expected.change + 1e-4)
  })
})
