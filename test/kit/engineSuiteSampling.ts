/** Cases of `engineSuite`: how tokens are chosen, and how completions end. */
import { keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import type { GenerationRequest } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import { generateAll } from '../../src/modules/generation/generateAll.js'
import {
  answer,
  expectGreedy,
  expectLogProbs,
  FIRST,
  greedy,
  idsOf,
  logSoftmax,
  type Made,
  PROMPT,
  refusal,
  requestOf,
} from './engineSuiteParts.js'

/** Sampling of tokens, and the log-probabilities that are reported. */
export const samplingCases = (made: Made): void => {
  it('greedy tokens are the most probable ones, with the log-probabilities of the model', async () => {
    const { engine, model } = made()
    const generated = await answer(engine, requestOf(PROMPT, greedy))
    expect(idsOf(generated)).toHaveLength(8)
    expectGreedy(model, generated, FIRST)
    expectLogProbs({ model, prompt: PROMPT, temperature: 1 }, generated, FIRST)
    expect(generated.completions[0]!.tokens.every(({ version }) => version === 1)).toBe(true)
  })

  it('sampled tokens have the log-probabilities of the model, raw and at their temperature', async () => {
    const { engine, model } = made()
    const generated = await answer(engine, requestOf(PROMPT, { temperature: 1.5, n: 3 }))
    expect(generated.completions).toHaveLength(3)
    expectLogProbs({ model, prompt: PROMPT, temperature: 1.5 }, generated, FIRST)
    for (const { tokens } of generated.completions) {
      for (const { processedLogProb, temperedLogProb } of tokens)
        expect(processedLogProb).toBeCloseTo(temperedLogProb, 4)
    }
  })

  it('with top-k, what is cut has no share in the processed log-probabilities', async () => {
    const { engine } = made()
    const { completions } = await answer(engine, requestOf(PROMPT, { topK: 1 }))
    expect(completions[0]!.tokens.map(({ processedLogProb }) => processedLogProb)).toEqual(Array(8).fill(0))
  })

  it('a request gets the same whatever else is decoded', async () => {
    const { engine } = made()
    const request = (): GenerationRequest => requestOf(PROMPT, { n: 2 })
    const alone = await answer(engine, request())
    const others = [[1], [2, 3], PROMPT, [...PROMPT, 7]].map((prompt, i) => requestOf(prompt, { maxTokens: 3 + 5 * i }))
    const together = await generateAll(engine, [...others, request()])
    expect(requireRight(together.at(-1)!).completions.map(({ tokens }) => tokens.map(({ id }) => id))).toEqual(
      alone.completions.map(({ tokens }) => tokens.map(({ id }) => id)),
    )
  })

  it('completion i is the same for every number of completions, and other keys give others', async () => {
    const { engine } = made()
    const three = await answer(engine, requestOf(PROMPT, { n: 3, maxTokens: 12 }))
    const one = await answer(engine, requestOf(PROMPT, { n: 1, maxTokens: 12 }))
    expect(idsOf(one)).toEqual(idsOf(three))
    expect(idsOf(three, 1)).not.toEqual(idsOf(three))
    const other = await answer(engine, requestOf(PROMPT, { key: keyFromSeed(6), maxTokens: 12 }))
    expect(idsOf(other)).not.toEqual(idsOf(one))
  })

  it('requests of one key that share out its completions give what one request gives', async () => {
    const { engine } = made()
    const all = await answer(engine, requestOf(PROMPT, { n: 4, key: keyFromSeed(6) }))
    const rest = await answer(engine, requestOf(PROMPT, { n: 3, key: keyFromSeed(6) }, { firstCompletion: 1 }))
    expect([0, 1, 2].map((i) => idsOf(rest, i))).toEqual([1, 2, 3].map((i) => idsOf(all, i)))
    const wrong = await refusal(engine, requestOf(PROMPT, {}, { firstCompletion: -1 }))
    expect(wrong).toMatchObject({ kind: 'invalid', reason: expect.stringContaining('firstCompletion') })
  })

  it('alternatives are the most probable tokens, with ranks', async () => {
    const { engine, model } = made()
    const { completions } = await answer(engine, requestOf(PROMPT, { ...greedy, topLogProbs: 3, maxTokens: 1 }))
    const logProbs = logSoftmax(model.logits(PROMPT, FIRST), 1)
    const best = [...logProbs].sort((a, b) => b - a).slice(0, 3)
    const [{ top, rank }] = completions[0]!.tokens as [(typeof completions)[0]['tokens'][0]] // maxTokens 1
    expect(top.map((each) => each.rank)).toEqual([1, 2, 3])
    expect(rank).toBe(1)
    for (const [i, { logProb }] of top.entries())
      expect(Math.abs(logProb - best[i]!)).toBeLessThanOrEqual(model.tolerance)
  })

  it('log-probabilities of the prompt are those of the model, the first null', async () => {
    const { engine, model } = made()
    const { promptLogProbs } = await answer(engine, requestOf(PROMPT, { promptLogProbs: 1, maxTokens: 1 }))
    expect(promptLogProbs).toHaveLength(PROMPT.length)
    expect(promptLogProbs![0]).toBeNull()
    for (const [i, place] of promptLogProbs!.slice(1).entries()) {
      const logProbs = logSoftmax(model.logits(PROMPT.slice(0, i + 1), FIRST), 1)
      expect(place!.id).toBe(PROMPT[i + 1])
      expect(Math.abs(place!.logProb - logProbs[place!.id]!)).toBeLessThanOrEqual(model.tolerance)
      expect(Math.abs(place!.top[0]!.logProb - Math.max(...logProbs))).toBeLessThanOrEqual(model.tolerance)
    }
  })
}

/** Adds so much to the score of a token that nothing else is sampled. */
const only = (id: number): ReadonlyMap<number, number> => new Map([[id, 1000]])

/** Ends of completions. */
export const endingCases = (made: Made): void => {
  it('a completion ends with its length', async () => {
    const { engine } = made()
    const { completions } = await answer(engine, requestOf(PROMPT, { maxTokens: 3 }))
    expect(completions[0]).toMatchObject({ finishReason: 'length', stopReason: null })
    expect(completions[0]!.tokens).toHaveLength(3)
  })

  it('without a number of tokens, a completion fills the context', async () => {
    const { engine } = made()
    const { maxModelLength } = engine.info
    const generated = await answer(engine, requestOf(PROMPT, { maxTokens: null }))
    expect(generated.completions[0]!.finishReason).toBe('length')
    expect(idsOf(generated)).toHaveLength(maxModelLength - PROMPT.length)
  })

  it('an end token ends it, is part of it, and has no stop reason', async () => {
    const { engine } = made()
    const end = engine.info.endTokens[0]!
    const generated = await answer(engine, requestOf(PROMPT, { endTokens: 'stop', logitBias: only(end) }))
    expect(idsOf(generated)).toEqual([end])
    expect(generated.completions[0]).toMatchObject({ finishReason: 'stop', stopReason: null })
  })

  it('an end token that is ignored does not', async () => {
    const { engine } = made()
    const end = engine.info.endTokens[0]!
    const generated = await answer(engine, requestOf(PROMPT, { logitBias: only(end), maxTokens: 2 }))
    expect(idsOf(generated)).toEqual([end, end])
  })

  it('a stop token ends it and is its stop reason, but not below the minimum of tokens', async () => {
    const { engine } = made()
    const stopping = await answer(engine, requestOf(PROMPT, { stopTokens: [7], logitBias: only(7) }))
    expect(idsOf(stopping)).toEqual([7])
    expect(stopping.completions[0]).toMatchObject({ finishReason: 'stop', stopReason: 7 })
    const later = await answer(engine, requestOf(PROMPT, { stopTokens: [7], logitBias: only(7), minTokens: 3 }))
    expect(idsOf(later)).toHaveLength(4)
    expect(idsOf(later).indexOf(7)).toBe(3)
  })

  it('text is that of the tokens; a stop string ends it and is cut off, or not', async () => {
    const { engine, model } = made()
    if (model.decode === null) {
      expect((await refusal(engine, requestOf(PROMPT, { stop: ['a'] }))).kind).toBe('invalid')
      return
    }
    const whole = await answer(engine, requestOf(PROMPT, { maxTokens: 12 }))
    const { text } = whole.completions[0]!
    expect(text).toBe(model.decode(idsOf(whole)))
    const stop = text.slice(4, 6)
    const cut = text.indexOf(stop)
    const excluded = await answer(engine, requestOf(PROMPT, { maxTokens: 12, stop: ['\u0000', stop] }))
    expect(excluded.completions[0]).toMatchObject({ text: text.slice(0, cut), finishReason: 'stop', stopReason: stop })
    const included = await answer(engine, requestOf(PROMPT, { maxTokens: 12, stop: [stop], stopText: 'include' }))
    expect(included.completions[0]).toMatchObject({ text: text.slice(0, cut + stop.length), stopReason: stop })
    expect(idsOf(included)).toEqual(idsOf(whole).slice(0, idsOf(included).length))
  })
}
