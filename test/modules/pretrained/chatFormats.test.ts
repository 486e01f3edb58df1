/** Base models, which have no chat template: refused with the way out, or given a format. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { History, message, renderText } from '@tandem-rl/text'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { applyChatTemplate } from '../../../src/data/applyChatTemplate.js'
import { raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { CHAT_ML, PLAIN_CHAT } from '../../../src/modules/pretrained/chatFormats.js'
import { newModel } from '../../../src/modules/pretrained/newModel.js'
import { type LoadOptions, loadPretrained, loadText } from '../../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles, saveModel } from '../../../src/modules/pretrained/saveModel.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'

useEngine()

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-base-'))
})
afterEach(() => rm(folder, { recursive: true }))

/** Writes a base model: its turns end with `eos`, and it has no chat template. */
const baseModel = async (specialTokens: readonly string[], eos: string): Promise<void> => {
  const sizes = { hiddenSize: 4, layers: 1, heads: 1 }
  const format = { ...CHAT_ML, specialTokens, endOfTurn: eos, padToken: eos }
  const tokenizer = { texts: ['one two'], vocabularySize: 270, format }
  const made = orThrow(newModel({ family: 'llama', sizes, tokenizer, key: keyFromSeed(1) }))
  const { 'chat_template.jinja': _, ...files } = pretrainedFiles(made)
  await rightOf(liveFiles.writeFolder(folder, files))
}

const loaded = (options: LoadOptions) => rightOf(loadPretrained(folder, liveFiles, options))

const chat = History([message('user', 'Hi'), message('assistant', 'Hey')])

describe('a model without a chat template', () => {
  it('is refused, and the failure names the way out', async () => {
    await baseModel(['</s>'], '</s>')
    expect(await leftOf(loadPretrained(folder))).toMatchObject({
      file: 'chat_template.jinja',
      reason: expect.stringMatching(
        /no chat template: add chat_template\.jinja .* fallbackFormat, such as .*PLAIN_CHAT/,
      ),
    })
  })

  it('takes PLAIN_CHAT, whose turns end with the end token of the model', async () => {
    await baseModel(['</s>'], '</s>')
    const { text, config } = await loaded({ fallbackFormat: PLAIN_CHAT })
    expect(text.endOfTurn).toBe('</s>')
    expect(orThrow(renderText(text.template, chat, { generationPrompt: 'add' }))).toBe(
      '### user\nHi</s>\n### assistant\nHey</s>\n### assistant\n',
    )
    expect(config.endTokens).toEqual([text.tokenizer.idOf('</s>')])
    const td = orThrow(applyChatTemplate([chat], text))
    const [ids, mask] = [get(td, 'tokens', 'full'), get(td, 'masks', 'assistant')].map((rows) => raggedRows(rows)[0]!)
    const written = ids!.filter((_, t) => mask![t] === 1)
    expect(text.tokenizer.decode(written, 'keep')).toBe('Hey</s>')
  })

  it('takes an end of turn beside PLAIN_CHAT if its files name none, as those of GPT-2', async () => {
    await baseModel(['<|endoftext|>'], '<|endoftext|>')
    await rightOf(liveFiles.write(join(folder, 'tokenizer_config.json'), '{"model_max_length": 1024}'))
    const missing = await leftOf(loadPretrained(folder, liveFiles, { fallbackFormat: PLAIN_CHAT }))
    expect(missing.reason).toContain("'eos_token' is missing")
    expect(missing.reason).toContain('endOfTurn')
    const { text, config } = await loaded({ fallbackFormat: { ...PLAIN_CHAT, endOfTurn: '<|endoftext|>' } })
    expect(config.endTokens).toEqual([text.tokenizer.idOf('<|endoftext|>')])
    expect(orThrow(renderText(text.template, chat, { generationPrompt: 'omit' }))).toContain('Hey<|endoftext|>')
  })

  it('takes CHAT_ML if it has its tokens: the end of turn becomes an end token, and is saved', async () => {
    await baseModel(CHAT_ML.specialTokens, '<|endoftext|>')
    const base = await loaded({ fallbackFormat: CHAT_ML })
    const ends = ['<|endoftext|>', '<|im_end|>'].map((token) => base.text.tokenizer.idOf(token))
    expect([base.text.endOfTurn, base.config.endTokens]).toEqual(['<|im_end|>', ends])
    expect((await rightOf(loadText(folder, liveFiles, { fallbackFormat: CHAT_ML }))).config.endTokens).toEqual(ends)
    const saved = join(folder, 'saved')
    await rightOf(saveModel(saved, base))
    const again = await rightOf(loadPretrained(saved))
    expect([again.text.endOfTurn, again.config.endTokens]).toEqual(['<|im_end|>', ends])
    expect(again.text.template.source).toBe(CHAT_ML.template)
  })

  it('is refused with CHAT_ML if its tokenizer lacks a token', async () => {
    await baseModel(['<|endoftext|>', '<|im_end|>'], '<|endoftext|>')
    expect(await leftOf(loadPretrained(folder, liveFiles, { fallbackFormat: CHAT_ML }))).toMatchObject({
      file: 'tokenizer.json',
      reason:
        'the tokenizer has no special token <|im_start|>, which fallbackFormat writes: PLAIN_CHAT needs no special tokens',
    })
  })
})

describe('a model with a chat template', () => {
  it('keeps it, and its end of turn, whatever the fallback', async () => {
    const plain = await rightOf(loadPretrained('embedded'))
    const { text, config } = await rightOf(loadPretrained('embedded', liveFiles, { fallbackFormat: PLAIN_CHAT }))
    expect(text.template.source).toBe(plain.text.template.source)
    expect([text.endOfTurn, config.endTokens]).toEqual([plain.text.endOfTurn, plain.config.endTokens])
  })
})
