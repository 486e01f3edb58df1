import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { openGguf, openGgufModel } from '@tandem-rl/gguf'
import { liveFiles } from '@tandem-rl/host'
import { type TextTokenizer, textTokenizer } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { readSafetensors } from '../../../src/data/codecs/safetensorsFile.js'
import { parseConfig } from '../../../src/modules/transformer/config.js'
import { parameterShapes } from '../../../src/modules/transformer/params.js'
import { familyTokenizer } from '../../../test/kit/tokenizers.js'
import { tokenizerFiles } from '../src/huggingFace/tokenizer.js'

const GOLDEN = 'packages/gguf/test/golden'

const opened = async (path: string) => orThrow(await openGgufModel(`${GOLDEN}/${path}`, liveFiles)())

const bits = (data: ArrayLike<number>): Uint32Array => new Uint32Array(Float32Array.from(data).buffer)

/** Checkpoints of test/golden/models, converted by llama.cpp. */
const MODELS = [
  ...['llama', 'llama_biases', 'llama_linear', 'llama_llama3', 'qwen2', 'qwen3'],
  ...['gemma2', 'gemma3', 'smollm3', 'olmo2', 'gpt2'],
]

/** Fields that both configs have, and that the arithmetic does not depend on. */
const OUTSIDE = ['source', 'endTokens', 'padToken', 'ignoredFields']

/** The scaling of all Llama 3 models, which the generator gives to this checkpoint. */
const LLAMA3 = {
  rope_type: 'llama3',
  rope_theta: 500_000,
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
}

/** Settings that GGUF does not hold, at the values with which llama.cpp computes. */
const LOST: Readonly<Record<string, object>> = {
  gemma2: { query_pre_attn_scalar: 8 },
  gemma3: { query_pre_attn_scalar: 8, layer_types: null, sliding_window_pattern: null, _sliding_window_pattern: null },
  smollm3: { no_rope_layers: null, no_rope_layer_interval: null },
  llama_llama3: { rope_parameters: LLAMA3 },
}

describe('a model that llama.cpp has converted', () => {
  it.each(MODELS)('has every tensor of the checkpoint that it was made of: %s', async (name) => {
    const { shapes, read, close, config } = await opened(`models/${name}.gguf`)
    const { arrays } = orThrow(await readSafetensors(`test/golden/models/${name}/model.safetensors`)())
    const wanted = [...parameterShapes(orThrow(parseConfig(config))).keys()]
    expect([...shapes.keys()].sort()).toEqual([...wanted].sort())
    for (const tensor of wanted) {
      const { shape, data } = orThrow(await read(tensor)())
      const original = arrays.get(tensor)!
      expect(shape).toEqual(original.shape)
      expect(shapes.get(tensor)).toEqual(original.shape)
      if (!name.startsWith('gemma') || !tensor.endsWith('norm.weight'))
        expect(bits(data)).toEqual(bits(original.data as Float32Array)) // float32
      else data.forEach((x, i) => expect(Math.abs(x - Number(original.data[i]))).toBeLessThan(1.2e-7)) // 1 + x was rounded
    }
    orThrow(await close())
  })

  it.each(MODELS)('has the arithmetic of its config.json: %s', async (name) => {
    const { config, close } = await opened(`models/${name}.gguf`)
    orThrow(await close())
    const file = JSON.parse(readFileSync(`test/golden/models/${name}/config.json`, 'utf8')) as object // the generator's own format
    const own = orThrow(parseConfig({ ...file, ...LOST[name] }))
    const found = orThrow(parseConfig(config))
    const arithmetic = (all: object) =>
      Object.fromEntries(Object.entries(all).filter(([field]) => !OUTSIDE.includes(field)))
    expect(arithmetic(found)).toEqual(arithmetic(own))
  })
})

/** Ids that llama.cpp has computed. */
const expected = JSON.parse(readFileSync(`${GOLDEN}/vocab.json`, 'utf8')) as {
  readonly texts: readonly string[]
} & Readonly<
  Record<string, { readonly plain: readonly (readonly number[])[]; readonly framed: readonly (readonly number[])[] }>
> // the generator's own format

const tokenizerOf = async (name: string): Promise<TextTokenizer> => {
  const { metadata, close } = orThrow(await openGguf(`${GOLDEN}/vocab/${name}.gguf`, liveFiles)())
  orThrow(await close())
  const made = tokenizerFiles(metadata)
  if ('problem' in made) throw new Error(made.problem)
  return orThrow(textTokenizer(made.tokenizer, made.settings))
}

describe('a tokenizer that llama.cpp has converted', () => {
  it.each(['gpt2', 'smollm', 'qwen', 'llama3', 'gemma', 'llama2'])('cuts texts as llama.cpp does: %s', async (name) => {
    const { encode } = await tokenizerOf(name)
    const { plain, framed } = expected[name]!
    expected.texts.forEach((text, i) => {
      if (name === 'qwen' && text !== text.normalize('NFC')) return // llama.cpp does not normalize
      const shown = `${name} ${JSON.stringify(text)}`
      expect([...encode(text, { specialTokens: 'plainText' })], shown).toEqual(plain[i])
      expect([...encode(text, { template: 'add' })], shown).toEqual(framed[i])
    })
  })

  it.each(['gpt2', 'qwen', 'llama3'] as const)(
    'cuts texts as the tokenizer.json that it was made of: %s',
    async (name) => {
      const { encode } = await tokenizerOf(name)
      const own = familyTokenizer(name)
      for (const text of expected.texts) expect([...encode(text)]).toEqual([...own.encode(text)])
    },
  )
})
