/** End tokens: those of both configs, of the tokenizer, and of the chat template. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CHAT_ML } from '../../../src/modules/pretrained/chatFormats.js'
import { samplingDefaults } from '../../../src/modules/pretrained/modelConfig.js'
import { newModel } from '../../../src/modules/pretrained/newModel.js'
import { loadConfig, loadPretrained, loadText, loadWeights } from '../../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles, saveModel } from '../../../src/modules/pretrained/saveModel.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'

useEngine()

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-ends-'))
})
afterEach(() => rm(folder, { recursive: true }))

const format = { ...CHAT_ML, specialTokens: ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|extra|>'] }
const made = orThrow(
  newModel({
    family: 'llama',
    sizes: { hiddenSize: 4, layers: 1, heads: 1 },
    tokenizer: { texts: ['one two'], vocabularySize: 270, format },
    key: keyFromSeed(1),
  }),
)
const [TEXT, , END, EXTRA] = format.specialTokens.map((token) => made.text.tokenizer.idOf(token)!)

interface Parts {
  readonly config?: number | readonly number[] | null
  readonly generation?: object | string
  readonly eos?: string
}

/** Writes a model whose template is ChatML, with these end tokens in its files. */
const save = async ({ config = null, generation, eos = '<|im_end|>' }: Parts): Promise<void> => {
  const files = pretrainedFiles(made)
  const jsonOf = (name: string): object => JSON.parse(String(files[name]))
  await rightOf(
    liveFiles.writeFolder(folder, {
      ...files,
      'config.json': JSON.stringify({ ...jsonOf('config.json'), eos_token_id: config }),
      'tokenizer_config.json': JSON.stringify({ ...jsonOf('tokenizer_config.json'), eos_token: eos }),
      ...(generation !== undefined && {
        'generation_config.json': typeof generation === 'string' ? generation : JSON.stringify(generation),
      }),
    }),
  )
}

const endsOf = async () => {
  const { config, text } = await rightOf(loadText(folder))
  return { ends: config.endTokens, endOfTurn: text.endOfTurn, otherEnds: text.otherEnds }
}

describe('the end tokens of a model folder', () => {
  it('include the eos_token of the tokenizer if config.json has another one', async () => {
    await save({ config: TEXT!, eos: '<|im_end|>' })
    expect(await endsOf()).toEqual({ ends: [TEXT, END], endOfTurn: '<|im_end|>', otherEnds: ['<|endoftext|>'] })
  })

  it('include those of generation_config.json, and turns end as the template ends them', async () => {
    await save({ config: TEXT!, eos: '<|endoftext|>', generation: { eos_token_id: [TEXT, END] } })
    expect(await endsOf()).toEqual({ ends: [TEXT, END], endOfTurn: '<|im_end|>', otherEnds: ['<|endoftext|>'] })
  })

  it('include the token with which only the template ends turns', async () => {
    await save({ config: TEXT!, eos: '<|endoftext|>' })
    expect(await endsOf()).toMatchObject({ ends: [TEXT, END], endOfTurn: '<|im_end|>' })
  })

  it('are the union of all files in any arrangement, and stay the same when the model is saved', async () => {
    const tokens = fc.constantFrom(TEXT!, END!, EXTRA!)
    const some = fc.option(fc.oneof(tokens, fc.uniqueArray(tokens)), { nil: null })
    const eos = fc.constantFrom('<|endoftext|>', '<|im_end|>', '<|extra|>')
    const law = fc.asyncProperty(some, some, eos, async (config, own, token) => {
      await save({ config, eos: token, generation: { eos_token_id: own } })
      const named = [config, own].flatMap((ids) => ids ?? [])
      const all = new Set([...named, END!, made.text.tokenizer.idOf(token)!])
      const loaded = await rightOf(loadPretrained(folder))
      expect(new Set(loaded.config.endTokens)).toEqual(all)
      expect(new Set((await rightOf(loadConfig(folder))).endTokens)).toEqual(new Set(named))
      await rightOf(saveModel(folder, loaded)) // without generation_config.json
      expect((await rightOf(loadWeights(folder))).config.endTokens).toEqual(loaded.config.endTokens)
      const again = await rightOf(loadPretrained(folder))
      expect([again.config.endTokens, again.text.endOfTurn]).toEqual([loaded.config.endTokens, '<|im_end|>'])
      expect(new Set(again.text.otherEnds)).toEqual(new Set(loaded.text.otherEnds))
    })
    await fc.assert(law, { numRuns: 30 })
  })

  it('leave out ids of generation_config.json that the model cannot sample', async () => {
    await save({ config: END!, generation: { eos_token_id: [END, 99999] } })
    expect((await endsOf()).ends).toEqual([END])
  })

  it('are refused if generation_config.json is cut off or ill-typed, and the failure names the file', async () => {
    await save({ config: END!, generation: '{"eos_token_id": [5' })
    expect(await leftOf(loadText(folder))).toMatchObject({ folder, file: 'generation_config.json' })
    await save({ config: END!, generation: { eos_token_id: 'x' } })
    expect(await leftOf(loadPretrained(folder))).toMatchObject({ file: 'generation_config.json' })
  })
})

describe('samplingDefaults', () => {
  it('names the defaults of generation_config.json', async () => {
    await save({ config: END!, generation: { eos_token_id: END, temperature: 0.7, top_k: 20, top_p: null } })
    expect(await rightOf(samplingDefaults(liveFiles, folder))).toEqual([
      ['temperature', 0.7],
      ['top_k', 20],
    ])
    await save({ config: END! })
    expect(await rightOf(samplingDefaults(liveFiles, folder))).toEqual([])
  })
})
