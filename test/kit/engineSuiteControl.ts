/**
 * Cases of `engineSuite`: requests that end from outside, pauses, failures, weights, adapters,
 * shared prompts.
 */
import type { GeneratedToken, GenerationRequest } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import { type Generated, generateAll } from '../../src/modules/generation/generateAll.js'
import {
  answer,
  endless,
  endsOf,
  expectGreedy,
  expectLogProbs,
  FIRST,
  greedy,
  idle,
  idsOf,
  type Made,
  PROMPT,
  refusal,
  requestOf,
  rest,
  untilFirstToken,
} from './engineSuiteParts.js'
import { leftOf, rightOf } from './results.js'

/** Requests that end before they are done, and pauses. */
export const controlCases = (made: Made): void => {
  it('breaking out of the stream cancels the request', async () => {
    const { engine } = made()
    for await (const event of engine.generate(requestOf(PROMPT, { ...endless, n: 2 }))) {
      if (event._tag === 'Tokens') break
    }
    await idle(engine)
    expect((await engine.metrics()).finished.abort).toBe(2)
  })

  it('a signal cancels the request, also one that was given before it began', async () => {
    const { engine } = made()
    const control = new AbortController()
    const reader = await untilFirstToken(engine.generate(requestOf(PROMPT, endless), { signal: control.signal }))
    control.abort()
    expect(endsOf(await rest(reader))).toEqual(['abort'])
    const late = await generateAll(engine, [requestOf(PROMPT, endless)], { signal: control.signal })
    expect(late[0]).toMatchObject({ _tag: 'Right', right: { completions: [{ finishReason: 'abort' }] } })
    await idle(engine)
  })

  it('abort ends the named requests, or all, and returns their number', async () => {
    const { engine } = made()
    const requests = [requestOf(PROMPT, { ...endless, n: 2 }), requestOf([1, 2], endless), requestOf([3], endless)]
    const readers = await Promise.all(requests.map((request) => untilFirstToken(engine.generate(request))))
    expect(await engine.abort([requests[0]!.id, 'nobody'])).toBe(1)
    expect(endsOf(await rest(readers[0]!))).toEqual(['abort', 'abort'])
    expect(await engine.abort()).toBe(2)
    for (const reader of readers.slice(1)) expect(endsOf(await rest(reader))).toEqual(['abort'])
    expect(await engine.abort()).toBe(0)
  })

  it('pause in mode abort ends what runs; what comes later waits for resume', async () => {
    const { engine } = made()
    const reader = await untilFirstToken(engine.generate(requestOf(PROMPT, endless)))
    await engine.pause({ mode: 'abort', cache: 'clear' })
    expect(await engine.isPaused()).toBe(true)
    expect(endsOf(await rest(reader))).toEqual(['abort'])
    const later = answer(engine, requestOf(PROMPT))
    await new Promise((go) => setImmediate(go))
    expect((await engine.metrics()).waiting).toBe(1)
    await engine.resume()
    expect(await engine.isPaused()).toBe(false)
    expect(idsOf(await later)).toHaveLength(8)
  })

  it('pause in mode wait is over when what ran has ended; what comes later waits for resume', async () => {
    const { engine } = made()
    const ending: string[] = []
    const note = async (name: string, request: GenerationRequest): Promise<void> => {
      await answer(engine, request)
      ending.push(name)
    }
    const before = note('before', requestOf(PROMPT, { maxTokens: 20 }))
    const paused = engine.pause({ mode: 'wait', cache: 'keep' }).then(() => ending.push('paused'))
    const after = note('after', requestOf(PROMPT, { maxTokens: 2 }))
    await paused
    await before
    expect([...ending].sort()).toEqual(['before', 'paused'])
    await engine.resume()
    await after
    expect(ending.at(-1)).toBe('after')
  })

  it('pause in mode keep freezes running requests, which then continue unchanged', async () => {
    const { engine } = made()
    const sampling = { maxTokens: 20 }
    const expected = idsOf(await answer(engine, requestOf(PROMPT, sampling)))
    for (const cache of ['keep', 'clear'] as const) {
      const running = answer(engine, requestOf(PROMPT, sampling))
      await new Promise((go) => setImmediate(go))
      await engine.pause({ mode: 'keep', cache })
      const { generatedTokens } = await engine.metrics()
      await new Promise((go) => setTimeout(go, 5))
      expect((await engine.metrics()).generatedTokens).toBe(generatedTokens)
      await engine.resume()
      expect(idsOf(await running)).toEqual(expected)
    }
  })
}

/** Refused requests. */
export const failureCases = (made: Made): void => {
  it('what can never be answered is refused with its numbers', async () => {
    const { engine } = made()
    const { maxModelLength, vocabularySize } = engine.info
    const wrong: readonly (readonly [GenerationRequest, RegExp])[] = [
      [requestOf([]), /prompt/],
      [requestOf([1, vocabularySize]), new RegExp(`${vocabularySize} at 1`)],
      [requestOf([-1]), /-1 at 0/],
      [requestOf(Array(maxModelLength).fill(1)), new RegExp(`${maxModelLength}`)],
      [requestOf(PROMPT, { topP: 0 }), /topP/],
      [requestOf(PROMPT, { stopTokens: [vocabularySize] }), /stopTokens/],
      [requestOf(PROMPT, { n: engine.info.maxConcurrent + 1 }), /n must/],
    ]
    for (const [request, reason] of wrong) {
      const failure = await refusal(engine, request)
      expect(failure.kind).toBe('invalid')
      expect(failure.reason).toMatch(reason)
    }
    expect(await engine.metrics()).toMatchObject({ running: 0, waiting: 0 })
  })

  it('a name that is in use is refused, until its request has ended', async () => {
    const { engine } = made()
    const request = requestOf(PROMPT, endless)
    const reader = await untilFirstToken(engine.generate(request))
    expect(await refusal(engine, request)).toMatchObject({ kind: 'invalid' })
    await reader.return?.()
    await idle(engine)
    expect(idsOf(await answer(engine, { ...request, ...requestOf(PROMPT), id: request.id }))).toHaveLength(8)
  })

  it('after close everything is refused, and what ran has ended with abort', async () => {
    const { engine, model } = made()
    const reader = await untilFirstToken(engine.generate(requestOf(PROMPT, endless)))
    await engine.close()
    expect(endsOf(await rest(reader))).toEqual(['abort'])
    expect(await refusal(engine, requestOf(PROMPT))).toMatchObject({ kind: 'closed' })
    expect((await leftOf(engine.loadWeights(model.second, { version: 2, running: 'keep' })))._tag).toBe('WeightFailure')
    expect((await leftOf(engine.loadAdapter('late', model.adapter)))._tag).toBe('WeightFailure')
    await engine.close()
  })
}

/** Weights and adapters that change. */
export const weightCases = (made: Made): void => {
  it('loaded weights sample from then on, and tokens say which', async () => {
    const { engine, model } = made()
    expect(await engine.version()).toBe(1)
    expect(await rightOf(engine.loadWeights(model.second, { version: 7, running: 'keep' }))).toBe(7)
    expect(await engine.version()).toBe(7)
    const generated = await answer(engine, requestOf(PROMPT, greedy))
    expectGreedy(model, generated, { base: 'second', adapter: 'none' })
    expect(generated.completions[0]!.tokens.every(({ version }) => version === 7)).toBe(true)
  })

  it('weights that are refused change nothing', async () => {
    const { engine, model } = made()
    const failure = await leftOf(engine.loadWeights(model.broken, { version: 2, running: 'recompute' }))
    expect(failure._tag).toBe('WeightFailure')
    expect(await engine.version()).toBe(1)
    expectGreedy(model, await answer(engine, requestOf(PROMPT, greedy)), FIRST)
  })

  it('running requests continue with loaded weights, with recomputed keys and values', async () => {
    const { engine, model } = made()
    const running = answer(engine, requestOf(PROMPT, { maxTokens: 60 }))
    await new Promise((go) => setImmediate(go))
    await rightOf(engine.loadWeights(model.second, { version: 2, running: 'recompute' }))
    const { tokens } = (await running).completions[0]!
    const versions = tokens.map(({ version }) => version)
    expect(versions).toEqual([...versions].sort())
    const before = [...PROMPT]
    for (const token of tokens) {
      const weights = { base: token.version === 1 ? 'first' : 'second', adapter: 'none' } as const
      expectLogProbs({ model, prompt: before, temperature: 1 }, oneToken(token), weights)
      before.push(token.id)
    }
  })

  it('an adapter is used by those who name it, and by nobody else', async () => {
    const { engine, model } = made()
    expect(await refusal(engine, requestOf(PROMPT, {}, { adapter: 'a' }))).toMatchObject({ kind: 'unknown-adapter' })
    await rightOf(engine.loadAdapter('a', model.adapter))
    expect(await engine.adapters()).toEqual(['a'])
    expect((await leftOf(engine.loadAdapter('a', model.adapter))).reason).toContain('a')
    const [adapted, base] = await Promise.all([
      answer(engine, requestOf(PROMPT, greedy, { adapter: 'a' })),
      answer(engine, requestOf(PROMPT, greedy)),
    ])
    expectLogProbs({ model, prompt: PROMPT, temperature: 1 }, adapted, { base: 'first', adapter: 'loaded' })
    expectLogProbs({ model, prompt: PROMPT, temperature: 1 }, base, FIRST)
  })

  it('an adapter is unloaded when those who use it have ended; new ones are refused at once', async () => {
    const { engine, model } = made()
    await rightOf(engine.loadAdapter('a', model.adapter))
    const running = answer(engine, requestOf(PROMPT, { maxTokens: 30 }, { adapter: 'a' }))
    await new Promise((go) => setImmediate(go))
    const unloading = rightOf(engine.unloadAdapter('a'))
    expect(await refusal(engine, requestOf(PROMPT, {}, { adapter: 'a' }))).toMatchObject({ kind: 'unknown-adapter' })
    await unloading
    expect(idsOf(await running)).toHaveLength(30)
    expect(await engine.adapters()).toEqual([])
    expect((await leftOf(engine.unloadAdapter('a'))).reason).toContain('a')
  })

  it('weights can be loaded under an adapter', async () => {
    const { engine, model } = made()
    await rightOf(engine.loadAdapter('a', model.adapter))
    await rightOf(engine.loadWeights(model.second, { version: 2, running: 'keep' }))
    const generated = await answer(engine, requestOf(PROMPT, greedy, { adapter: 'a' }))
    expectLogProbs({ model, prompt: PROMPT, temperature: 1 }, generated, { base: 'second', adapter: 'loaded' })
  })
}

/** An answer of one token. */
const oneToken = (token: GeneratedToken): Generated => ({
  completions: [{ tokens: [token], text: '', finishReason: 'length', stopReason: null }],
  cachedTokens: 0,
  promptLogProbs: null,
})

/** Work that is shared between requests. */
export const cacheCases = (made: Made): void => {
  const long = Array.from({ length: 40 }, (_, i) => (i * 7) % 16)

  /** Tokens that a second request with the same prompt finds. */
  const foundOf = ({ model }: ReturnType<Made>, length: number): number =>
    model.cacheBlock === 0 ? 0 : Math.floor((length - 1) / model.cacheBlock) * model.cacheBlock

  it('a prompt that was computed before is found, all but its end, and answered the same', async () => {
    const { engine } = made()
    const first = await answer(engine, requestOf(long))
    expect(first.cachedTokens).toBe(0)
    const second = await answer(engine, requestOf(long))
    expect(second.cachedTokens).toBe(foundOf(made(), long.length))
    expect(idsOf(second)).toEqual(idsOf(first))
    const { prefixHits, prefixQueries } = await engine.metrics()
    expect(prefixHits).toBe(second.cachedTokens)
    expect(prefixQueries).toBe(made().model.cacheBlock === 0 ? 0 : 2 * long.length)
  })

  it('a turn that continues a completion finds what was computed for it', async () => {
    const { engine } = made()
    const first = await answer(engine, requestOf(long, { maxTokens: 30 }))
    const second = await answer(engine, requestOf([...long, ...idsOf(first), 1]))
    expect(second.cachedTokens).toBe(foundOf(made(), long.length + 30))
  })

  it('nothing is shared with another salt, other weights, or after a reset', async () => {
    const { engine, model } = made()
    const salted = (): GenerationRequest => requestOf(long, {}, { cacheSalt: 'mine' })
    await answer(engine, requestOf(long))
    expect((await answer(engine, salted())).cachedTokens).toBe(0)
    expect((await answer(engine, salted())).cachedTokens).toBe(foundOf(made(), long.length))
    await engine.resetPrefixCache()
    expect((await answer(engine, salted())).cachedTokens).toBe(0)
    await rightOf(engine.loadWeights(model.second, { version: 2, running: 'keep' }))
    expect((await answer(engine, salted())).cachedTokens).toBe(0)
    await rightOf(engine.loadAdapter('a', model.adapter))
    expect((await answer(engine, requestOf(long, {}, { cacheSalt: 'mine', adapter: 'a' }))).cachedTokens).toBe(0)
  })

  it('log-probabilities of a prompt are all computed, whatever was there', async () => {
    const { engine } = made()
    await answer(engine, requestOf(long))
    const scored = await answer(engine, requestOf(long, { promptLogProbs: 0, maxTokens: 1 }))
    expect(scored.cachedTokens).toBe(0)
    expect(scored.promptLogProbs).toHaveLength(long.length)
  })
}
