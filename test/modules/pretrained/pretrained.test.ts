import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { child, type HostArray, keyFromSeed, type ModelFailure, normals, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { History, renderText } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { encodeSafetensors } from '../../../src/data/codecs/safetensors.js'
import {
  hostArrays,
  type LoadOptions,
  loadPretrained,
  loadWeights,
  makeParams,
  type Pretrained,
} from '../../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../../../src/modules/pretrained/saveModel.js'
import { type DecoderConfig, formatConfig } from '../../../src/modules/transformer/config.js'
import { parameterShapes } from '../../../src/modules/transformer/params.js'
import { anySmallConfig } from '../../kit/configs.js'
import { useEngine } from '../../kit/engine.js'
import { configOf } from '../../kit/models.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { byteConfig, byteText } from '../../kit/small.js'

useEngine()

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-pretrained-'))
})
afterEach(() => rm(folder, { recursive: true }))

const text = byteText()

const randomArrays = (config: DecoderConfig, seed = 1): ReadonlyMap<string, HostArray> =>
  new Map(
    [...parameterShapes(config)].map(([name, shape]) => {
      const size = shape.reduce((n, m) => n * m, 1)
      return [name, { shape, data: Float32Array.from(normals(child(keyFromSeed(seed), name), size)) }]
    }),
  )

const config = byteConfig({ hiddenSize: 4, intermediateSize: 4, heads: 2, keyValueHeads: 1, headSize: 2 })
const model: Pretrained = { config, arrays: randomArrays(config), text }

const save = async (files: Readonly<Record<string, Uint8Array | string>>): Promise<void> => {
  await rightOf(liveFiles.writeFolder(folder, files))
}

/** The failure of a good folder in which files are replaced, or removed with null. */
const failureWith = async (changes: Readonly<Record<string, Uint8Array | string | null>>): Promise<ModelFailure> => {
  const files = { ...pretrainedFiles(model), ...changes }
  const kept = Object.entries(files).flatMap(([name, file]) => (file === null ? [] : [[name, file] as const]))
  await save(Object.fromEntries(kept))
  return leftOf(loadPretrained(folder))
}

const bitsOf = (arrays: ReadonlyMap<string, HostArray>) =>
  [...arrays].map(([name, { shape, data }]) => [
    name,
    [...shape],
    Array.from(new Uint32Array(data.buffer, data.byteOffset, data.length)),
  ])

const weightsWith = (change: (arrays: Map<string, HostArray>) => void): Uint8Array => {
  const arrays = new Map(model.arrays)
  change(arrays)
  return encodeSafetensors(arrays)
}

describe('saving and loading', () => {
  it('gives config, names, shapes and numbers back bit for bit, whatever the architecture', async () => {
    await fc.assert(
      fc.asyncProperty(anySmallConfig, fc.nat(99), async (drawn, seed) => {
        const ends = [0, text.tokenizer.idOf(text.endOfTurn)]
        const given = configOf({ ...formatConfig(drawn), vocab_size: 260, eos_token_id: ends })
        const arrays = randomArrays(given, seed)
        await save(pretrainedFiles({ config: given, arrays, text }))
        const loaded = await rightOf(loadPretrained(folder))
        expect(loaded.config).toEqual(configOf({ ...formatConfig(given), dtype: 'float32' }))
        expect(bitsOf(loaded.arrays)).toEqual(bitsOf(arrays))
      }),
      { numRuns: 15 },
    )
  })

  it('reports float32 although the file has another type', () => {
    const half = configOf({ ...formatConfig(config), torch_dtype: 'bfloat16', dtype: 'bfloat16', _name_or_path: 'x/y' })
    const written: unknown = JSON.parse(pretrainedFiles({ ...model, config: half })['config.json'] as string) // a text file
    expect(written).toEqual({ ...formatConfig(config), dtype: 'float32', _name_or_path: 'x/y' })
  })

  it('reads a GPT-2 whose names leave out the model, with the masks that older files hold', async () => {
    const gpt2 = configOf({ model_type: 'gpt2', vocab_size: 260, n_embd: 4, n_head: 2, n_layer: 2, n_positions: 8 })
    const arrays = randomArrays(gpt2)
    const bare = new Map([...arrays].map(([name, array]) => [name.replace('transformer.', ''), array]))
    const mask = { shape: [1, 1, 2, 2], data: Float32Array.of(1, 0, 1, 1) }
    for (const name of ['h.0.attn.bias', 'h.1.attn.masked_bias']) bare.set(name, mask)
    await save({ ...pretrainedFiles({ config: gpt2, arrays, text }), 'model.safetensors': encodeSafetensors(bare) })
    expect(bitsOf((await rightOf(loadPretrained(folder))).arrays)).toEqual(bitsOf(arrays))
    const renamed = encodeSafetensors(bare.set('h.0.attn.c_attn.scale', mask))
    const failure = await failureWith({
      'config.json': JSON.stringify(formatConfig(gpt2)),
      'model.safetensors': renamed,
    })
    expect(failure.reason).toBe("'transformer.h.0.attn.c_attn.scale' is not a parameter of this architecture")
  })

  it('writes the same files again from what it has read', async () => {
    const files = pretrainedFiles(model)
    await save(files)
    expect(pretrainedFiles(await rightOf(loadPretrained(folder)))).toEqual(files)
  })

  it('keeps unusual numbers: negative zero, the smallest and the largest, through tensors too', async () => {
    const arrays = new Map(model.arrays)
    arrays.set('model.norm.weight', { shape: [4], data: Float32Array.of(-0, 1e-45, 3.4028234663852886e38, 1e-38) })
    await save(pretrainedFiles({ ...model, arrays }))
    const loaded = await rightOf(loadPretrained(folder))
    expect(bitsOf(scope(() => hostArrays(makeParams(loaded.arrays))))).toEqual(bitsOf(arrays))
  })

  it('reads the tokenizer that was saved: its ids, its end of turn and its template', async () => {
    await save(pretrainedFiles(model))
    const loaded = await rightOf(loadPretrained(`${folder}/`))
    expect(loaded.text.endOfTurn).toBe(text.endOfTurn)
    expect(loaded.text.template.source).toBe(text.template.source)
    expect(loaded.text.tokenizer.encode('a b<|im_end|>')).toEqual(text.tokenizer.encode('a b<|im_end|>'))
  })

  it('has the named template of a list in the config, and those of files of their own, and writes them again', async () => {
    const named = [
      { name: 'default', template: 'd' },
      { name: 'rag', template: 'r' },
    ]
    const settings = JSON.stringify({ eos_token: text.endOfTurn, chat_template: named })
    const { 'chat_template.jinja': _, ...files } = pretrainedFiles(model)
    await save({ ...files, 'tokenizer_config.json': settings })
    const sourceOf = async (options: LoadOptions) =>
      (await rightOf(loadPretrained(folder, liveFiles, options))).text.template.source
    expect([await sourceOf({}), await sourceOf({ templateName: 'rag' })]).toEqual(['d', 'r'])
    const missing = await leftOf(loadPretrained(folder, liveFiles, { templateName: 'none' }))
    expect(missing).toMatchObject({ file: 'chat_template.jinja', reason: expect.stringContaining("'default', 'rag'") })
    await liveFiles.makeFolder(join(folder, 'additional_chat_templates'))()
    await rightOf(liveFiles.write(join(folder, 'additional_chat_templates/more.jinja'), 'm'))
    expect(await sourceOf({ templateName: 'more' })).toBe('m')
    const loaded = await rightOf(loadPretrained(folder, liveFiles, { templateName: 'more' }))
    await save(pretrainedFiles(loaded))
    expect(await sourceOf({ templateName: 'more' })).toBe('m')
  })

  it('gives the template every special token by its name, and the moment of loading', async () => {
    const source = "{{ cls_token }}{{ image_token }}{{ strftime_now('%Y-%m-%d') }}"
    const settings = { eos_token: text.endOfTurn, cls_token: text.endOfTurn, image_token: '<image>' }
    await save({
      ...pretrainedFiles(model),
      'chat_template.jinja': source,
      'tokenizer_config.json': JSON.stringify(settings),
    })
    const calendar = { today: () => new Date(Date.UTC(2024, 2, 5)) }
    const { template } = (await rightOf(loadPretrained(folder, liveFiles, { calendar }))).text
    const textAt = (options: object) =>
      orThrow(renderText(template, History([]), { generationPrompt: 'omit', ...options }))
    expect(textAt({})).toBe(`${text.endOfTurn}<image>2024-03-05`)
    expect(textAt({ now: new Date(Date.UTC(2025, 0, 1)) })).toContain('2025-01-01')
    const year = orThrow(
      renderText((await rightOf(loadPretrained(folder))).text.template, History([]), { generationPrompt: 'omit' }),
    )
    expect(year).toMatch(/<image>20\d\d-\d\d-\d\d$/)
  })

  it('reads shards that an index names', async () => {
    const entries = [...model.arrays]
    const parts = { 'a.safetensors': entries.slice(0, 3), 'b.safetensors': entries.slice(3) }
    const weight_map = Object.fromEntries(
      Object.entries(parts).flatMap(([file, part]) => part.map(([name]) => [name, file])),
    )
    const { 'model.safetensors': _, ...rest } = pretrainedFiles(model)
    const shards = Object.entries(parts).map(([file, part]) => [file, encodeSafetensors(new Map(part))])
    await save({
      ...rest,
      ...Object.fromEntries(shards),
      'model.safetensors.index.json': JSON.stringify({ weight_map }),
    })
    expect(bitsOf((await rightOf(loadPretrained(folder))).arrays)).toEqual(bitsOf(model.arrays))
  })

  it('ignores copies and tables that Transformers also writes', async () => {
    const copies = weightsWith((arrays) => {
      arrays.set('lm_head.weight', arrays.get('model.embed_tokens.weight')!)
      arrays.set('model.layers.0.self_attn.rotary_emb.inv_freq', { shape: [1], data: Float32Array.of(1) })
    })
    await save({ ...pretrainedFiles(model), 'model.safetensors': copies })
    expect(bitsOf((await rightOf(loadPretrained(folder))).arrays)).toEqual(bitsOf(model.arrays))
  })
})

describe('files of older versions of Transformers', () => {
  const { 'chat_template.jinja': template, ...files } = pretrainedFiles(model)
  const settings = { eos_token: text.endOfTurn, model_max_length: 99 }
  const loadedWith = async (changes: Readonly<Record<string, object>>) => {
    const written = Object.entries(changes).map(([name, json]) => [name, JSON.stringify(json)])
    await save({ ...files, 'tokenizer_config.json': JSON.stringify(settings), ...Object.fromEntries(written) })
    return (await rightOf(loadPretrained(folder))).text
  }

  it('have the template of a processor where there is no other', async () => {
    const own = { 'chat_template.json': { chat_template: String(template) } }
    const loaded = await loadedWith(own)
    expect(loaded.template.source).toBe(String(template))
    const other = await loadedWith({ ...own, 'tokenizer_config.json': { ...settings, chat_template: 'other' } })
    expect(other.template.source).toBe('other')
    const wrong = { 'chat_template.json': '{"chat_template": 5}', 'chat_template.jinja': null }
    expect(await failureWith(wrong)).toMatchObject({
      file: 'chat_template.json',
      reason: "'chat_template' is not a text",
    })
  })

  it('have special tokens in a file of their own, unless the config lists the added tokens', async () => {
    const own = { 'chat_template.json': { chat_template: '{{ eos_token }}{{ cls_token }}' } }
    const tokens = {
      eos_token: { content: text.endOfTurn, lstrip: false, special: true },
      cls_token: '<cls>',
      additional_special_tokens: [text.endOfTurn],
    }
    const loaded = await loadedWith({
      ...own,
      'tokenizer_config.json': { eos_token: 'a', model_max_length: 99 },
      'special_tokens_map.json': tokens,
    })
    expect(loaded.endOfTurn).toBe(text.endOfTurn)
    expect(loaded.tokenizer.settings).toMatchObject({ maxLength: 99, roles: { cls: '<cls>' } })
    const shown = orThrow(renderText(loaded.template, History([]), { generationPrompt: 'omit' }))
    expect(shown).toBe(`${text.endOfTurn}<cls>`)
    const listed = await loadedWith({
      ...own,
      'tokenizer_config.json': { ...settings, added_tokens_decoder: {} },
      'special_tokens_map.json': { ...tokens, eos_token: 'a' },
    })
    expect(listed.endOfTurn).toBe(text.endOfTurn)
    await save({ ...pretrainedFiles({ ...model, text: loaded }) })
    expect((await rightOf(loadPretrained(folder))).text.tokenizer.settings).toMatchObject({ roles: { cls: '<cls>' } })
  })
})

describe('a folder that cannot be used', () => {
  it.each([
    ...['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'],
    ...['special_tokens_map.json', 'model.safetensors.index.json'],
  ])('has a pointer of Git LFS in place of %s, which is named', async (file) => {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 2689\n`
    const failure = await failureWith({ [file]: pointer })
    expect(failure).toMatchObject({ folder, file })
    expect(failure.reason).toMatch(/^it is a Git LFS pointer.*, not the file itself: fetch it with 'git lfs pull'$/)
  })

  it.each(['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])(
    'names %s when it is missing, and the folder',
    async (file) => {
      const failure = await failureWith({ [file]: null })
      expect(failure).toMatchObject({ _tag: 'ModelFailure', folder, file })
    },
  )

  it('names the missing folder', async () => {
    const missing = join(folder, 'nowhere')
    const expected = { _tag: 'ModelFailure', folder: missing, reason: expect.stringContaining('no such folder') }
    expect(await leftOf(loadPretrained(missing))).toMatchObject(expected)
  })

  it.each(['config.json', 'tokenizer.json', 'tokenizer_config.json'])('names %s when it is not JSON', async (file) => {
    const broken = await failureWith({ [file]: '{"model_type": "qwen2",' })
    expect(broken).toMatchObject({ folder, file, reason: expect.stringContaining('not JSON') })
    for (const json of ['[1]', 'null', '3']) {
      expect(await failureWith({ [file]: json })).toMatchObject({ folder, file, reason: 'not a JSON object' })
    }
  })

  it('refuses weights that are cut off anywhere, naming the file', async () => {
    const whole = encodeSafetensors(model.arrays)
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), async (length) => {
        const failure = await failureWith({ 'model.safetensors': whole.slice(0, length) })
        expect(failure).toMatchObject({ _tag: 'ModelFailure', folder, file: 'model.safetensors' })
        expect(failure.reason).toMatch(/bytes|truncated/)
      }),
      { numRuns: 20 },
    )
  })

  it.each([
    [(arrays: Map<string, HostArray>) => arrays.delete('model.norm.weight'), "'model.norm.weight' is missing"],
    [
      (arrays: Map<string, HostArray>) => arrays.set('model.extra', { shape: [1], data: Float32Array.of(1) }),
      "'model.extra' is not a parameter of this architecture",
    ],
    [
      (arrays: Map<string, HostArray>) => arrays.set('model.norm.weight', { shape: [2, 2], data: new Float32Array(4) }),
      "'model.norm.weight' is [2,2], the config requires [4]",
    ],
    [
      (arrays: Map<string, HostArray>) => arrays.set('model.norm.weight', { shape: [4], data: new Int32Array(4) }),
      "'model.norm.weight' is I32, not F32, F16 or BF16",
    ],
  ])('names the parameter that does not fit the config (%#)', async (change, reason) => {
    const failure = await failureWith({ 'model.safetensors': weightsWith(change) })
    expect(failure).toMatchObject({ _tag: 'ModelFailure', folder, file: 'model.safetensors', reason })
  })

  it.each([Number.NaN, Number.NEGATIVE_INFINITY])('refuses a parameter that holds %s', async (number) => {
    const data = Float32Array.of(1, 1, number, 1)
    const weights = weightsWith((arrays) => arrays.set('model.norm.weight', { shape: [4], data }))
    const { reason } = await failureWith({ 'model.safetensors': weights })
    expect(reason).toBe("'model.norm.weight' contains NaN or infinite numbers")
  })

  it('names five of many misfits and counts the rest', async () => {
    const { reason } = await failureWith({ 'model.safetensors': encodeSafetensors(new Map()) })
    expect(reason.match(/is missing/g)).toHaveLength(5)
    expect(reason).toContain(`and ${model.arrays.size - 5} more`)
  })

  it('warns of fields of config.json that it does not know and that have no effect', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    await save({
      ...pretrainedFiles(model),
      'config.json': new TextEncoder().encode(JSON.stringify({ ...formatConfig(config), license: 'mit' })),
    })
    expect(await loadPretrained(folder)()).toMatchObject({ _tag: 'Right' })
    expect(warned.mock.calls).toEqual([[`${folder}/config.json: fields without effect: license "mit"`]])
    warned.mockRestore()
  })

  it('refuses an architecture or a setting that it does not compute', async () => {
    for (const change of [{ model_type: 'mamba' }, { hidden_act: 'relu' }]) {
      const failure = await failureWith({ 'config.json': JSON.stringify({ ...formatConfig(config), ...change }) })
      expect(failure).toMatchObject({ folder, file: 'config.json', reason: expect.stringContaining('not supported') })
    }
  })

  it('refuses a tokenizer with more ids than the model has embeddings', async () => {
    const small = configOf({ ...formatConfig(config), vocab_size: 256 })
    await save(pretrainedFiles({ config: small, arrays: randomArrays(small), text }))
    const failure = await leftOf(loadPretrained(folder))
    expect(failure).toMatchObject({ folder, file: 'tokenizer.json' })
    expect(failure.reason).toContain('ids up to 256, but the model has only 256')
    await rightOf(loadWeights(folder)) // the weights by themselves are good
  })

  it('refuses an end of turn that the tokenizer does not know, and a missing one', async () => {
    const unknown = await failureWith({ 'tokenizer_config.json': '{"eos_token": "<stop>"}' })
    expect(unknown).toMatchObject({ folder, file: 'tokenizer_config.json', reason: expect.stringContaining('<stop>') })
    const none = await failureWith({ 'tokenizer_config.json': '{"pad_token": "x"}' })
    expect(none).toMatchObject({ file: 'tokenizer_config.json', reason: expect.stringContaining("'eos_token'") })
  })

  it('refuses a template that is not valid Jinja', async () => {
    const failure = await failureWith({ 'chat_template.jinja': '{% for m in %}' })
    expect(failure).toMatchObject({ folder, file: 'chat_template.jinja' })
  })

  it('refuses an index whose shards are missing or are no file names', async () => {
    const index = (shard: string): string => JSON.stringify({ weight_map: { 'model.norm.weight': shard } })
    const file = 'model.safetensors.index.json'
    expect(await failureWith({ [file]: index('gone.safetensors') })).toMatchObject({ file: 'gone.safetensors' })
    expect(await failureWith({ [file]: index('../up.safetensors') })).toMatchObject({ folder, file })
    expect(await failureWith({ [file]: '{"weight_map": 3}' })).toMatchObject({ folder, file })
  })

  it('takes no notice of files that are not part of a model', async () => {
    await save({ ...pretrainedFiles(model), 'README.md': '# nothing', 'preprocessor_config.json': '{' })
    expect(bitsOf((await rightOf(loadPretrained(folder))).arrays)).toEqual(bitsOf(model.arrays))
  })
})
