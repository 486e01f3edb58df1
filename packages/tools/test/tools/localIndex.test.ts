/** Search in passages of this process, through the retrieval tool, and answer tools. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import Keyv from 'keyv'
import { describe, expect, it } from 'vitest'
import { answerTool, summarizeTool } from '../../src/tools/answerTools.js'
import { bm25Index, denseIndex, type PassageIndex } from '../../src/tools/localIndex.js'
import { retrievalTool } from '../../src/tools/retrieval.js'
import type { Tool } from '../../src/tools/tool.js'

const PASSAGES = [
  { title: 'Nile', text: 'The Nile is 6,650 km long.' },
  { title: 'Amazon', text: 'The Amazon carries more water than any other river.' },
  { title: 'Everest', text: 'Everest is the highest mountain.' },
]

const call = async (tool: Tool, args: Readonly<Record<string, unknown>>) =>
  orThrow(
    await tool.call(args as never, {
      state: tool.initial,
      key: keyFromSeed(0),
      signal: new AbortController().signal,
    })(), // arguments as JSON
  )

/** Letters as an embedding: equal words are near each other. */
const letters = async (texts: readonly string[]) =>
  texts.map((text) =>
    Array.from({ length: 26 }, (_, i) => text.toLowerCase().split(String.fromCharCode(97 + i)).length - 1),
  )

const words = orThrow(await bm25Index(PASSAGES)())
const dense = await denseIndex(PASSAGES, letters)()

describe('retrievalTool with an index of this process', () => {
  it.each<[string, PassageIndex]>([
    ['by words', words],
    ['by vectors', (dense as E.Right<PassageIndex>).right], // the embedding does not fail
  ])('finds the best passage first, %s', async (_, index) => {
    const found = await call(retrievalTool({ index }), { query: 'highest mountain Everest', count: 1 })
    expect(found.content).toBe('[1] Everest\nEverest is the highest mountain.')
  })

  it('answers equal queries from the cache', async () => {
    let asked = 0
    const index: PassageIndex = {
      search: () => async () => {
        asked++
        return E.right([{ text: 'found' }])
      },
    }
    const search = retrievalTool({ index, cache: { store: new Keyv() } })
    await call(search, { query: 'a' })
    await call(search, { query: ' a ' })
    expect(asked).toBe(1)
  })

  it('fails by name where the model does not embed, and refuses two engines or none', async () => {
    expect(await denseIndex(PASSAGES, async () => [[1]])()).toEqual(
      E.left('the embedding model returned 1 vectors of 1 numbers'),
    )
    expect(await bm25Index(PASSAGES, () => Promise.reject(new Error('gone')))()).toMatchObject({
      left: { package: 'minisearch' },
    })
    expect(() => retrievalTool({})).toThrow('retrievalTool: set either transport or index')
  })
})

describe('answerTool and summarizeTool', () => {
  it('end the episode with the answer, and remember the latest summary', async () => {
    for (const name of ['answer', 'answer_math', 'answer_qa'] as const)
      expect(await call(answerTool(name), { answer: '42' })).toEqual({ content: '42', status: 'finish', state: null })
    expect(await call(summarizeTool(), { summary: 'so far' })).toMatchObject({ state: 'so far' })
  })
})
