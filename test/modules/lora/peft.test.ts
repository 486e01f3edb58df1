/**
 * Adapters in PEFT's folder layout: they come back as they were written, and what is wrong with a
 * folder is said by name.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, describe as sentence } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodeSafetensors, type WritableArray } from '../../../src/data/codecs/safetensors.js'
import { parseAdapterConfig } from '../../../src/modules/lora/adapterConfig.js'
import { adaptedProjections, loraConfig } from '../../../src/modules/lora/config.js'
import { adapterFiles, loadAdapter } from '../../../src/modules/lora/peft.js'
import { anyAdapted, randomAdapter } from '../../kit/lora.js'
import { tinyConfig } from '../../kit/models.js'
import { leftOf, rightOf } from '../../kit/results.js'

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-adapter-'))
})
afterEach(() => rm(folder, { recursive: true }))

const config = tinyConfig()
const adapter = randomAdapter(config, loraConfig({ rank: 2, targetModules: ['q_proj', 'v_proj'] }), keyFromSeed(1))
const write = async (files: Readonly<Record<string, Uint8Array | string>>): Promise<void> => {
  await rightOf(liveFiles.writeFolder(folder, files))
}

describe('an adapter folder', () => {
  it('comes back with the same modules, scales and numbers', async () => {
    await fc.assert(
      fc.asyncProperty(anyAdapted, fc.nat(), async ([decoder, lora], seed) => {
        const original = randomAdapter(decoder, lora, keyFromSeed(seed))
        await write(adapterFiles(original, { baseModel: 'a/base' }))
        const { adapter: read, baseModel } = await rightOf(loadAdapter(folder, decoder))
        expect(baseModel).toBe('a/base')
        expect(read.arrays).toEqual(original.arrays)
        const [before, after] = [lora, read.config].map((each) => requireRight(adaptedProjections(decoder, each)))
        expect(after).toEqual(before)
        expect(read.config.dropout).toBe(lora.dropout)
      }),
      { numRuns: 30 },
    )
  })

  it('holds bfloat16 where that is asked for, rounded to the nearest', async () => {
    await write(adapterFiles(adapter, { float: 'BF16' }))
    const { adapter: read } = await rightOf(loadAdapter(folder, config))
    for (const [name, { data }] of read.arrays) {
      const exact = adapter.arrays.get(name)!.data
      expect(data.every((x, i) => Math.abs(x - exact[i]!) <= Math.abs(exact[i]!) * 2 ** -8)).toBe(true)
      expect(data).not.toEqual(exact)
    }
  })
})

const parsed = (): Record<string, unknown> =>
  JSON.parse(String(adapterFiles(adapter)['adapter_config.json'])) as Record<string, unknown> // an object, as written

describe('adapter_config.json', () => {
  const refusal = (changes: Readonly<Record<string, unknown>>): string =>
    requireLeft(parseAdapterConfig({ ...parsed(), ...changes })).reason

  it.each([
    ['another method', { peft_type: 'IA3' }, 'peft_type'],
    ['another task', { task_type: 'SEQ_CLS' }, 'task_type'],
    ['DoRA', { use_dora: true }, 'use_dora true is not supported'],
    ['a bias', { bias: 'all' }, 'bias'],
    ['modules that are saved whole', { modules_to_save: ['lm_head'] }, 'modules_to_save ["lm_head"] is not supported'],
    ['trained tokens', { trainable_token_indices: [1] }, 'trainable_token_indices'],
    ['an initialization that changes the base', { init_lora_weights: 'pissa' }, 'init_lora_weights'],
    ['a field from the future that is on', { use_wonder: true, depth: 3 }, 'use_wonder true is not supported; depth 3'],
    ['a rank of nothing', { r: 0 }, 'r'],
    [
      'a regular expression among the patterns',
      { rank_pattern: { '.*q_proj': 3 } },
      'pattern ".*q_proj" is not the name',
    ],
    ['another name of the list of layers', { layers_pattern: ['blocks'] }, 'layers_pattern "blocks" is not supported'],
    ['no targets', { target_modules: null }, 'target_modules'],
  ])('with %s is refused by name', (_, changes, expected) => {
    expect(refusal(changes)).toContain(expected)
  })

  it('may have fields from the future that are off', () => {
    requireRight(parseAdapterConfig({ ...parsed(), use_wonder: false, depth: null, list: [], record: {} }))
  })

  it('is refused or read, and nothing else, whatever JSON it is', () => {
    const value = fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(...Object.values(parsed())) },
      { weight: 1, arbitrary: fc.jsonValue() },
    )
    const fields = fc.record(Object.fromEntries(Object.keys(parsed()).map((name) => [name, value])), {
      requiredKeys: [],
    })
    fc.assert(
      fc.property(fc.oneof(fields, fc.jsonValue()), (json) => {
        expect(parseAdapterConfig(json)._tag).toMatch(/^(Left|Right)$/)
      }),
    )
  })

  it('with a regular expression for targets has the modules that its tensors have', async () => {
    const files = adapterFiles(adapter)
    const text = JSON.stringify({ ...parsed(), target_modules: '.*(q|v)_proj', exclude_modules: 'nothing' })
    await write({ ...files, 'adapter_config.json': text })
    const { adapter: read } = await rightOf(loadAdapter(folder, config))
    expect(read.arrays).toEqual(adapter.arrays)
    expect(read.config.targetModules).toHaveLength(4)
  })
})

describe('a damaged adapter folder', () => {
  const A = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'
  const saidWith = async (changes: Readonly<Record<string, Uint8Array | string | null>>): Promise<string> => {
    const files = Object.entries({ ...adapterFiles(adapter), ...changes })
    await write(Object.fromEntries(files.flatMap(([name, file]) => (file === null ? [] : [[name, file] as const]))))
    return sentence(await leftOf(loadAdapter(folder, config)))
  }
  const weightsWith = (change: (arrays: Map<string, WritableArray>) => void): Uint8Array => {
    const arrays = new Map<string, WritableArray>(
      [...adapter.arrays].map(([n, array]) => [`base_model.model.${n}`, array]),
    )
    change(arrays)
    return encodeSafetensors(arrays)
  }

  it.each(['adapter_config.json', 'adapter_model.safetensors'])(
    'names %s if it is missing or cut off',
    async (file) => {
      expect(await saidWith({ [file]: null })).toContain(file)
      const whole = adapterFiles(adapter)[file]!
      expect(await saidWith({ [file]: whole.slice(0, whole.length / 2) })).toContain(file)
    },
  )

  it.each<[string, (arrays: Map<string, WritableArray>) => void, string]>([
    [
      'a missing half of a pair',
      (arrays) => arrays.delete(A),
      "'model.layers.0.self_attn.q_proj.lora_A.weight' is missing",
    ],
    [
      'a rank that the config does not say',
      (arrays) => arrays.set(A, { shape: [3, 16], data: new Float32Array(48) }),
      'is [3,16], the config requires [2,16]',
    ],
    [
      'a module that the model does not have',
      (arrays) => arrays.set('base_model.model.score.lora_A.weight', arrays.get(A)!),
      "'score.lora_A.weight' is not a parameter",
    ],
    [
      'numbers that are none',
      (arrays) => arrays.set(A, { shape: [2, 16], data: new Float32Array(32).fill(Number.NaN) }),
      'NaN or infinite',
    ],
    ['whole numbers', (arrays) => arrays.set(A, { shape: [2, 16], data: new Int32Array(32) }), 'is I32, not F32'],
  ])('with %s says so', async (_, change, expected) => {
    expect(await saidWith({ 'adapter_model.safetensors': weightsWith(change) })).toContain(expected)
  })

  it.each([
    ['no adapter on it', adapter, "'lm_head.base_layer.weight' is not a parameter"],
    [
      'another vocabulary',
      randomAdapter(config, loraConfig({ rank: 2, targetModules: ['lm_head'] }), keyFromSeed(1)),
      "'lm_head.base_layer.weight' is [8,16], the config requires [32,16]",
    ],
  ])(
    'with an output projection of the base and %s is refused by name',
    async (_, { config: lora, arrays }, expected) => {
      const copy = { shape: [8, 16], data: new Float32Array(128) }
      const more = { config: lora, arrays: new Map([...arrays, ['lm_head.base_layer.weight', copy] as const]) }
      await write(adapterFiles(more))
      expect(sentence(await leftOf(loadAdapter(folder, config)))).toContain(expected)
    },
  )

  it('for another model names what does not fit', async () => {
    const text = JSON.stringify({ ...parsed(), target_modules: ['c_attn'] })
    expect(await saidWith({ 'adapter_config.json': text })).toContain("'c_attn' is not a projection of this model")
  })
})
