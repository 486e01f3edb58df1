import { keyFromSeed } from '@tandem-rl/base'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { type SampledText, type SampleOptions, sampleCompletions } from '../../src/run/parts/sample.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { answeringModel } from '../kit/runs.js'

useEngine({ threads: 1 })

let model: Pretrained
beforeAll(async () => {
  model = await answeringModel()
})

const QUESTION = 'Mia had 3 pears. She gave 1 away. How many pears does she have?'

interface Wish {
  readonly count?: number
  readonly seed?: number
  readonly sampling?: Partial<SampleOptions['sampling']>
}

const request = ({ count = 4, seed = 1, sampling = {} }: Wish): ReturnType<typeof sampleCompletions> =>
  sampleCompletions(model, QUESTION, {
    ...{ count, key: keyFromSeed(seed) },
    sampling: { temperature: 1, maxNewTokens: 8, ...sampling },
  })

const sample = (wish: Wish = {}): Promise<readonly SampledText[]> => rightOf(request(wish))

const texts = (completions: readonly SampledText[]): readonly string[] => completions.map(({ text }) => text)

describe('sampleCompletions', () => {
  it('gives as many completions as asked, each with its tokens and log-probability', async () => {
    const completions = await sample({ count: 5 })
    expect(completions).toHaveLength(5)
    for (const { tokens, logProb, stopReason, text } of completions) {
      expect(tokens).toBeGreaterThan(0)
      expect(tokens).toBeLessThanOrEqual(8)
      expect(logProb).toBeLessThan(0)
      expect(['stop', 'length']).toContain(stopReason)
      expect(text).not.toContain(model.text.endOfTurn)
    }
  })

  it('repeats for the same key, and differs for another', async () => {
    const first = await sample({ count: 8 })
    expect(await sample({ count: 8 })).toEqual(first)
    expect(texts(await sample({ count: 8, seed: 2 }))).not.toEqual(texts(first))
  })

  it('draws completions independently: they are not all the same', async () => {
    expect(new Set(texts(await sample({ count: 16 }))).size).toBeGreaterThan(1)
  })

  it('at temperature 0 gives the same completion every time, whatever the key', async () => {
    const greedy = await sample({ sampling: { temperature: 0 } })
    expect(new Set(texts(greedy)).size).toBe(1)
    expect(texts(await sample({ seed: 5, sampling: { temperature: 0 } }))).toEqual(texts(greedy))
  })

  it('among the single most probable token gives what temperature 0 gives', async () => {
    const [greedy, narrow] = [await sample({ sampling: { temperature: 0 } }), await sample({ sampling: { topK: 1 } })]
    expect(texts(narrow)).toEqual(texts(greedy))
  })

  it('reports a completion that was truncated at the token limit', async () => {
    for (const { tokens, stopReason } of await sample({ sampling: { maxNewTokens: 2 } }))
      expect({ tokens, stopReason }).toEqual({ tokens: 2, stopReason: 'length' })
  })

  it('is a description of work: it can be run twice, or never, and holds nothing in between', async () => {
    const task = request({})
    expect(await rightOf(task)).toEqual(await rightOf(task))
    request({ seed: 3 }) // never run: the check for leaks sees what it made
  })

  it('gives what the model refuses as a failure', async () => {
    const failure = await leftOf(request({ sampling: { maxNewTokens: 4000 } }))
    expect(failure.reason).toMatch(/2048/)
  })
})
