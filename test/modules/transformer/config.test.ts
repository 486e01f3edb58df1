import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { formatConfig, parseConfig } from '../../../src/modules/transformer/config.js'
import { anySmallConfig } from '../../kit/small.js'

const llama = {
  model_type: 'llama',
  vocab_size: 32,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
}

const reasonOf = (changes: Readonly<Record<string, unknown>>): string => {
  const result = parseConfig({ ...llama, ...changes })
  return E.isLeft(result) ? result.left.reason : 'accepted'
}

describe('parseConfig', () => {
  it('reads back what formatConfig writes, through JSON', () => {
    fc.assert(
      fc.property(anySmallConfig, (config) => {
        expect(parseConfig(JSON.parse(JSON.stringify(formatConfig(config))))).toEqual(E.right(config))
      }),
    )
  })

  it('takes the defaults of Transformers for what a file leaves out', () => {
    expect(parseConfig(llama)).toEqual(
      E.right({
        architecture: 'llama',
        vocabularySize: 32,
        hiddenSize: 16,
        intermediateSize: 24,
        layers: 2,
        heads: 4,
        keyValueHeads: 4,
        headSize: 4,
        ropeTheta: 10000,
        normEpsilon: 1e-6,
        maxPositions: 2048,
        projectionBias: false,
        tiedEmbeddings: false,
        endTokens: [],
        padToken: null,
      }),
    )
  })

  it('ignores fields that do not change the arithmetic, whatever they hold', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ minLength: 1 }).map((name) => `x_${name}`),
          fc.jsonValue(),
        ),
        (extra) => {
          expect(parseConfig({ ...extra, ...llama })).toEqual(parseConfig(llama))
        },
      ),
    )
  })

  it('reads the base of the rotary embedding from the old place and from the new one', () => {
    const thetaOf = (changes: object) =>
      E.map(({ ropeTheta }: { ropeTheta: number }) => ropeTheta)(parseConfig({ ...llama, ...changes }))
    expect(thetaOf({ rope_theta: 5e5 })).toEqual(E.right(5e5))
    expect(thetaOf({ rope_parameters: { rope_type: 'default', rope_theta: 1e6 } })).toEqual(E.right(1e6))
    expect(thetaOf({ rope_scaling: null, rope_parameters: null })).toEqual(E.right(10000))
  })

  it.each([
    [{ model_type: 'gpt2' }, "model_type 'gpt2'"],
    [{ hidden_act: 'gelu' }, "hidden_act 'gelu'"],
    [{ rope_scaling: { rope_type: 'yarn', factor: 4 } }, "rope type 'yarn'"],
    [{ rope_scaling: { type: 'linear', factor: 2 } }, "rope type 'linear'"],
    [{ rope_parameters: { rope_type: 'llama3' } }, "rope type 'llama3'"],
    [{ rope_parameters: { type: 'linear', factor: 2 } }, "rope type 'linear'"],
    [{ use_sliding_window: true }, 'use_sliding_window'],
    [{ mlp_bias: true }, 'mlp_bias'],
    [{ attention_bias: true }, 'attention_bias'],
  ])('refuses arithmetic that it does not compute: %j', (changes, named) => {
    expect(reasonOf(changes)).toMatch(/^not supported: /)
    expect(reasonOf(changes)).toContain(named)
  })

  it.each([
    [{ num_key_value_heads: 3 }, 'num_attention_heads 4 is not a multiple of num_key_value_heads 3'],
    [{ hidden_size: 18 }, 'head size 4.5'],
    [{ head_dim: 5 }, 'head size 5'],
  ])('refuses sizes that contradict each other: %j', (changes, reason) => {
    expect(reasonOf(changes)).toContain(reason)
  })

  it.each(['vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'model_type'])(
    'names %s when it is missing or of another type',
    (name) => {
      expect(reasonOf({ [name]: undefined })).toContain(name)
      expect(reasonOf({ [name]: [1] })).toContain(name)
    },
  )

  it.each([0, -1, 1.5, Number.NaN])('refuses %d layers', (num_hidden_layers) => {
    expect(reasonOf({ num_hidden_layers })).toContain('num_hidden_layers')
  })

  it('gives a failure, not an exception, for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        expect(E.isLeft(parseConfig(json))).toBe(true)
      }),
    )
  })
})
