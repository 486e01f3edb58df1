/** TorchRL's options of wrappers are refused with the form that takes their place. */
import { describe, expect, it } from 'vitest'
import { SGLangWrapper } from '../../src/modules/remote/SGLangWrapper.js'
import { vLLMWrapper } from '../../src/modules/remote/vLLMWrapper.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'

const WRAPPERS = { TransformersWrapper, vLLMWrapper, SGLangWrapper } as const

describe.each(Object.entries(WRAPPERS))('%s', (name, wrapper) => {
  const made = (options: object) => () => (wrapper as (options: never) => unknown)(options as never)

  it.each([
    ['inputMode', 'history', /For conversations use historyPolicy\(.*Tokenizer/],
    ['input_mode', 'text', /reads token ids/],
    ['numSamples', 4, /one row has one completion.*repeatInterleave/],
    ['num_samples', 4, /repeats of the environment/],
    ['returnLogProbs', true, /every action has the log-probabilities/],
    ['log_probs_key', 'x', /rename the entry/],
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
