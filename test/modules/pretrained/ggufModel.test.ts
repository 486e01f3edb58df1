/** Models in GGUF by name, as a folder in Hugging Face's layout. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { orThrow, describe as sentence } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { History, message, render } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { samplingDefaults } from '../../../src/modules/pretrained/modelConfig.js'
import { modelFolders } from '../../../src/modules/pretrained/modelFolder.js'
import { loadConfig, loadPretrained, loadText } from '../../../src/modules/pretrained/pretrained.js'
import { saveModel } from '../../../src/modules/pretrained/saveModel.js'
import { leftOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'

const WHOLE = 'packages/gguf/test/golden/whole'
const path = useTemporaryFolder()

/** Makes a folder with copies of files. */
const folderWith = (name: string, files: Readonly<Record<string, string>>): string => {
  const folder = path(name)
  mkdirSync(folder)
  for (const [to, from] of Object.entries(files)) copyFileSync(join(WHOLE, from), join(folder, to))
  return folder
}

describe('a model in GGUF', () => {
  it('has the weights, the text side and the ends of its file', async () => {
    const { config, arrays, text } = orThrow(await loadPretrained(`${WHOLE}/q8_0.gguf`)())
    expect(config).toMatchObject({ architecture: 'llama', layers: 2, heads: 2, keyValueHeads: 1, tiedEmbeddings: true })
    expect(arrays.get('model.layers.1.mlp.down_proj.weight')!.shape).toEqual([32, 64])
    const end = text.tokenizer.idOf('<|im_end|>')!
    expect(config.endTokens).toEqual([end])
    expect(text.endOfTurn).toBe('<|im_end|>')
    const rendered = orThrow(
      render(text.template, History([message('user', 'How are you?')]), { generationPrompt: 'add' }),
    )
    expect(rendered.text).toBe('<|im_start|>user\nHow are you?<|im_end|>\n<|im_start|>assistant\n')
  })

  it('is equal in one file, in a folder, and in a folder that it was saved to', async () => {
    const model = orThrow(await loadPretrained(`${WHOLE}/q8_0.gguf`)())
    const folder = folderWith('one', { 'some.gguf': 'q8_0.gguf' })
    writeFileSync(join(folder, 'mmproj-some.gguf'), '') // the projector of images
    const inFolder = orThrow(await loadPretrained(folder)())
    expect(inFolder.arrays).toEqual(model.arrays)
    orThrow(await saveModel(path('saved'), model)())
    const saved = orThrow(await loadPretrained(path('saved'))())
    expect(saved.arrays).toEqual(model.arrays)
    expect(saved.text.files).toEqual(model.text.files)
    expect(saved.config.endTokens).toEqual(model.config.endTokens)
  })

  it('may be split into files, all of which are one model of their folder', async () => {
    const parts = [1, 2, 3].map((n) => `split-0000${n}-of-00003.gguf`)
    const folder = folderWith('split', Object.fromEntries(parts.map((part) => [part, part])))
    expect(orThrow(await modelFolders(folder)())).toEqual({ folder: join(folder, parts[0]!), adapters: [] })
    const split = orThrow(await loadPretrained(folder)())
    const q8 = orThrow(await loadPretrained(`${WHOLE}/q8_0.gguf`)())
    for (const [name, { data, shape }] of split.arrays) {
      const other = q8.arrays.get(name)!
      expect(other.shape).toEqual(shape)
      const worst = Math.max(...Array.from(data, (x, i) => Math.abs(x - other.data[i]!)))
      expect(worst).toBeLessThan(0.001) // half a step of the largest block
    }
  })

  it('has no sampling defaults, and loads without its weights', async () => {
    const name = `${WHOLE}/q8_0.gguf`
    expect(orThrow(await samplingDefaults(liveFiles, name)())).toEqual([])
    const { config } = orThrow(await loadText(name)())
    expect(orThrow(await loadConfig(name)()).vocabularySize).toBe(config.vocabularySize)
  })

  it('is named by its file if a folder has several', async () => {
    const folder = folderWith('two', { 'a.gguf': 'q8_0.gguf', 'b.gguf': 'q8_0.gguf' })
    const failure = await leftOf(loadPretrained(folder))
    expect(sentence(failure)).toContain(
      `it has several models: name one of them, such as ${folder}/a.gguf, ${folder}/b.gguf`,
    )
    writeFileSync(join(folder, 'config.json'), '{}')
    expect(sentence(await leftOf(loadPretrained(folder)))).toContain('config.json') // a folder in Hugging Face's layout
  })

  it('without a tokenizer has a config, and names what it lacks', async () => {
    const name = 'packages/gguf/test/golden/models/qwen2.gguf'
    expect(orThrow(await loadConfig(name)()).architecture).toBe('qwen2')
    expect(sentence(await leftOf(loadPretrained(name)))).toContain("'tokenizer.ggml.tokens' is missing")
  })

  it('that is missing or damaged is named', async () => {
    expect(sentence(await leftOf(loadPretrained('no/such.gguf')))).toContain('no/such.gguf')
    const folder = folderWith('bad', {})
    writeFileSync(join(folder, 'bad.gguf'), 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n')
    expect(sentence(await leftOf(loadPretrained(join(folder, 'bad.gguf'))))).toMatch(/bad\.gguf.*Git LFS/)
  })
})
