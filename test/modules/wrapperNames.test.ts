/** TorchRL's options of wrappers are refused with the form that takes their place. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { loadPretrained, makeParams } from '../../src/modules/pretrained/pretrained.js'
import { vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'

useEngine()

const WRAPPERS = { TransformersWrapper, vLLMWrapper } as const

describe.each(Object.entries(WRAPPERS))('%s', (name, wrapper) => {
  const made = (options: object) => () => (wrapper as (options: never) => unknown)(options as never)

  it.each([
    ['inputMode', 'history', /For conversations use historyPolicy\(.*Tokenizer/],
    ['input_mode', 'text', /reads token ids/],
    ['numSamples', 4, /one row has one completion.*repeatInterleave/],
    ['num_samples', 4, /repeats of the environment/],
    ['returnLogProbs', true, /every action has the log-probabilities/],
    ['log_probs_key', 'x', /rename the entry .* sideBySide/],
    ['inputKey', 'x', /rename the entry/],
    ['pad_output', true, /toPadded/],
  ])('refuses %s, and names what takes its place', (option, value, place) => {
    expect(made({ [option]: value })).toThrow(RangeError)
    expect(made({ [option]: value })).toThrow(`${name}: unknown option '${option}': `)
    expect(made({ [option]: value })).toThrow(place)
  })

  it('refuses a name that is in neither list, with the nearest that is', () => {
    expect(made({ samplings: {} })).toThrow(`${name}: unknown option 'samplings': did you mean 'sampling'?`)
  })
})

describe('the sampling of TransformersWrapper', () => {
  it('refuses a setting that it does not have, also from withSampling', async () => {
    const { config, arrays } = await rightOf(loadPretrained('embedded'))
    const policy = scope(() => TransformersWrapper({ config, params: makeParams(arrays) }))
    const made = (sampling: object) => () => policy.withSampling(sampling)
    expect(made({ maxTokens: 8 })).toThrow("TransformersWrapper, sampling: unknown option 'maxTokens'")
    expect(made({ temperature: '1' })).toThrow('temperature must be a number')
    policy.release()
  })
})
