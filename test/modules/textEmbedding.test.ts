/** Vectors of texts from a decoder, and dense retrieval with them. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveTensors, type Owned, own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { denseIndex, retrievalTool } from '@tandem-rl/tools'
import Keyv from 'keyv'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newModel } from '../../src/modules/pretrained/newModel.js'
import { makeParams, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { textEmbedding } from '../../src/modules/textEmbedding.js'
import type { Params } from '../../src/modules/transformer/params.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'

useEngine()

const PASSAGES = [
  { text: 'The river Nile is long.' },
  { text: 'Everest is the highest mountain.' },
  { text: 'A cat sleeps on the warm roof.' },
]
const open = new AbortController().signal

let model: Pretrained
let params: Owned<Params>
const given = () => ({ config: model.config, text: model.text, params: params.value })

beforeAll(() => {
  const texts = PASSAGES.map(({ text }) => text)
  model = orThrow(
    newModel({
      ...{ family: 'qwen3', sizes: { hiddenSize: 32, layers: 2, heads: 2 }, key: keyFromSeed(3) },
      tokenizer: { texts, vocabularySize: 320 },
    }),
  )
  params = own(makeParams(model.arrays))
})

afterAll(() => params.release())

const distance = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...a.map((x, i) => Math.abs(x - b[i]!)))

describe('textEmbedding', () => {
  it.each(['mean', 'last'] as const)('gives a text the same vector in any batch, by %s', async (pooling) => {
    const embed = textEmbedding({ ...given(), pooling })
    const texts = ['a', 'The river Nile is long.', '', 'Everest']
    const before = liveTensors()
    const all = await embed(texts, open)
    expect(liveTensors()).toEqual(before)
    expect(all.map(({ length }) => length)).toEqual([32, 32, 32, 32])
    for (const [i, text] of texts.entries()) {
      const [alone] = await embed([text], open)
      expect(distance(all[i]!, alone!)).toBeLessThan(1e-4)
    }
    expect(distance(all[0]!, all[1]!)).toBeGreaterThan(0.01)
  })

  it('ends texts with the eos_token, however the template ends turns', async () => {
    const [usual, other] = [model.text, { ...model.text, endOfTurn: 'x' }].map((text) =>
      textEmbedding({ ...given(), text, pooling: 'last' }),
    )
    expect(await other!(['a'], open)).toEqual(await usual!(['a'], open))
  })

  it('reads the beginning of long texts', async () => {
    const embed = textEmbedding({ ...given(), maxTokens: 4 })
    const [long, short] = await embed(['a b c d e f g h', 'a b c d e'], open)
    expect(distance(long!, short!)).toBeLessThan(1e-4)
  })

  it('rejects where its signal aborts, and refuses a limit without room for a token', async () => {
    await expect(textEmbedding(given())(['a'], AbortSignal.abort())).rejects.toThrow(/abort/i)
    expect(() => textEmbedding({ ...given(), maxTokens: 1 })).toThrow('maxTokens must be at least 2, got 1')
  })

  it('finds passages by vectors, and answers equal queries from a cache of Keyv', async () => {
    let embedded = 0
    const embed = textEmbedding(given())
    const index = await rightOf(
      denseIndex(PASSAGES, (texts, signal) => {
        embedded += texts.length
        return embed(texts, signal)
      }),
    )
    const search = retrievalTool({ index, cache: { store: new Keyv() } })
    const ask = async (query: string) => {
      const context = { state: null, key: keyFromSeed(0), signal: open }
      return (await rightOf(search.call({ query, count: 1 }, context))).content
    }
    expect(await ask('Everest is the highest mountain')).toBe('[1]\nEverest is the highest mountain.')
    expect(await ask('a cat on a warm roof')).toBe('[1]\nA cat sleeps on the warm roof.')
    expect(await ask('Everest is the highest mountain')).toContain('Everest')
    expect(embedded).toBe(PASSAGES.length + 2)
  })
})
