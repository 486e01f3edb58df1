/** Models from scratch: every family is saved, loaded and sampled. */
import { keyFromSeed } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import { History, message, renderText } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import { CHAT_ML } from '../../../src/modules/pretrained/chatFormats.js'
import { type NewModelOptions, newModel } from '../../../src/modules/pretrained/newModel.js'
import { loadPretrained } from '../../../src/modules/pretrained/pretrained.js'
import { saveModel } from '../../../src/modules/pretrained/saveModel.js'
import { ARCHITECTURES } from '../../../src/modules/transformer/config.js'
import { sampleCompletions } from '../../../src/run/parts/sample.js'
import { useEngine } from '../../kit/engine.js'
import { rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'

useEngine()
const path = useTemporaryFolder()

const TEXTS = ['user\nreverse one two\nassistant\nowt eno\n', 'user\nreverse three\nassistant\neerht\n']

const options = (changes: Partial<NewModelOptions> = {}): NewModelOptions => ({
  family: 'qwen2',
  sizes: { hiddenSize: 8, layers: 2, heads: 2, maxPositions: 64 },
  tokenizer: { texts: TEXTS, vocabularySize: 270 },
  key: keyFromSeed(1),
  ...changes,
})

it.each(ARCHITECTURES)('%s is written to a folder, read back equal and sampled', async (family) => {
  const made = requireRight(newModel(options({ family })))
  await rightOf(saveModel(path(family), made))
  const loaded = await rightOf(loadPretrained(path(family)))
  expect(loaded.arrays).toEqual(made.arrays)
  expect(loaded.text.files).toEqual(made.text.files)
  expect(loaded.config).toEqual({ ...made.config, source: loaded.config.source })
  expect(loaded.config.source).toMatchObject({ model_type: family, dtype: 'float32', vocab_size: 270 })
  const sampling = { temperature: 1, maxNewTokens: 4 }
  const [first] = await rightOf(sampleCompletions(loaded, 'reverse one', { count: 1, key: keyFromSeed(2), sampling }))
  expect(first?.logProb).toBeLessThan(0)
})

it.each(ARCHITECTURES)('%s has the sizes that are given', (family) => {
  const isGpt = family === 'gpt2' || family === 'gpt_neo'
  const sizes = { hiddenSize: 16, layers: 3, heads: 4, keyValueHeads: isGpt ? 4 : 2, intermediateSize: 20 }
  const { config } = requireRight(
    newModel(options({ family, sizes: { ...sizes, maxPositions: 32, embeddings: 'separate' } })),
  )
  expect(config).toMatchObject({ ...sizes, headSize: 4, maxPositions: 32, tiedEmbeddings: false, architecture: family })
})

it('equal keys give equal weights, other keys others', () => {
  const arraysOf = (seed: number) => requireRight(newModel(options({ key: keyFromSeed(seed) }))).arrays
  expect(arraysOf(1)).toEqual(arraysOf(1))
  expect(arraysOf(2)).not.toEqual(arraysOf(1))
})

it('the text side of another model is kept as it is', () => {
  const { text } = requireRight(newModel(options()))
  const made = requireRight(newModel(options({ family: 'llama', tokenizer: text })))
  expect(made.text).toStrictEqual(text)
  expect(made.config).toMatchObject({
    vocabularySize: 270,
    endTokens: [text.tokenizer.idOf('<|im_end|>')],
    padToken: text.tokenizer.idOf('<|endoftext|>'),
  })
})

it('a chat format of the user brings its template and special tokens', () => {
  const format = {
    template: "{% for m in messages %}{{ '[' + m.role + ']' + m.content + '[end]' }}{% endfor %}",
    specialTokens: ['[user]', '[assistant]', '[end]'],
    endOfTurn: '[end]',
    padToken: '[end]',
  }
  const { text } = requireRight(newModel(options({ tokenizer: { texts: TEXTS, vocabularySize: 259, format } })))
  const rendered = requireRight(
    renderText(text.template, History([message('user', 'x')]), { generationPrompt: 'omit' }),
  )
  expect(rendered).toBe('[user]x[end]')
  expect([...text.tokenizer.encode(rendered)]).toEqual([256, 87, 258])
})

it('training of the tokenizer reports each token', () => {
  const seen: number[] = []
  const onProgress = ({ tokens }: { readonly tokens: number }): void => void seen.push(tokens)
  newModel(options({ tokenizer: { texts: TEXTS, vocabularySize: 262, onProgress } }))
  expect(seen).toEqual([260, 261, 262])
})

it.each<readonly [string, Partial<NewModelOptions>, RegExp]>([
  ['heads that do not divide', { sizes: { hiddenSize: 9, layers: 1, heads: 2 } }, /head/],
  [
    'a template that is not valid',
    { tokenizer: { texts: [], vocabularySize: 259, format: { ...CHAT_ML, template: '{%' } } },
    /template|%/,
  ],
  [
    'an end of turn that is not a token',
    { tokenizer: { texts: [], vocabularySize: 259, format: { ...CHAT_ML, endOfTurn: '<end>' } } },
    /'<end>' is not in the tokenizer's vocabulary/,
  ],
])('refuses %s', (_, changes, reason) => {
  expect(requireLeft(newModel(options(changes))).reason).toMatch(reason)
})

it('throws for a vocabulary without room for bytes, and for key heads that a family does not have', () => {
  expect(() => newModel(options({ tokenizer: { texts: [], vocabularySize: 100 } }))).toThrow(/vocabularySize/)
  const sizes = { hiddenSize: 8, layers: 1, heads: 4, keyValueHeads: 2 }
  expect(() => newModel(options({ family: 'gpt2', sizes }))).toThrow(
    new RangeError('newModel: gpt2 has as many keyValueHeads as heads (4), got 2'),
  )
})

it('saveModel stores 16 bits on request, through the given files', async () => {
  const written: string[] = []
  const files = {
    writeFolder: (folder: string, contents: Parameters<typeof liveFiles.writeFolder>[1]) => {
      written.push(folder)
      return liveFiles.writeFolder(folder, contents)
    },
  }
  await rightOf(saveModel(path('half'), requireRight(newModel(options())), { float: 'BF16', files }))
  expect(written).toEqual([path('half')])
  expect((await rightOf(loadPretrained(path('half')))).config.source).toMatchObject({ dtype: 'bfloat16' })
})
