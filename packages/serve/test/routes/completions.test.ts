/** `/v1/completions`, as vLLM answers it. */
import { describe, expect, it } from 'vitest'
import { framesOf, post, saying, scripted, served, tokenizer } from '../../../../test/kit/served.js'

const PATH = '/v1/completions'

const ids = (text: string): readonly number[] => [...tokenizer.encode(text)]

/** The choices of an answer. */
const choicesOf = (json: unknown): readonly Record<string, unknown>[] =>
  (json as { choices: readonly Record<string, unknown>[] }).choices // the shape is what the tests are about

describe('a completion', () => {
  it('has the form of vLLM', async () => {
    const { status, json } = await post(served(saying('abc')), PATH, { model: 'cat', prompt: 'the cat', max_tokens: 8 })
    expect(status).toBe(200)
    expect(json).toEqual({
      id: 'cmpl-id0',
      object: 'text_completion',
      created: 1_700_000_000,
      model: 'cat',
      choices: [
        {
          index: 0,
          text: 'abc',
          logprobs: null,
          finish_reason: 'stop',
          stop_reason: null,
          token_ids: null,
          prompt_token_ids: null,
          prompt_logprobs: null,
        },
      ],
      usage: {
        prompt_tokens: ids('the cat').length,
        completion_tokens: 4,
        total_tokens: ids('the cat').length + 4,
        prompt_tokens_details: { cached_tokens: 0 },
      },
      system_fingerprint: null,
    })
  })

  it('has 16 tokens at most by default', async () => {
    const { json } = await post(served(saying('x'.repeat(50))), PATH, { prompt: 'a' })
    expect(choicesOf(json)[0]).toMatchObject({ text: 'x'.repeat(16), finish_reason: 'length' })
  })

  it('of several prompts and completions is reported prompt by prompt', async () => {
    const engine = scripted({ says: (request, i) => `${request.prompt.length}:${i}` })
    const { json } = await post(served(engine), PATH, { prompt: ['a', 'bc'], n: 2, max_tokens: 9 })
    expect(choicesOf(json).map(({ index, text }) => [index, text])).toEqual([
      [0, '1:0'],
      [1, '1:1'],
      [2, '2:0'],
      [3, '2:1'],
    ])
  })

  it.each([
    ['a string', 'ab', [ids('ab')]],
    ['strings', ['ab', 'c'], [ids('ab'), ids('c')]],
    ['ids', [1, 2, 3], [[1, 2, 3]]],
    ['lists of ids', [[1], [2, 3]], [[1], [2, 3]]],
  ])('takes a prompt as %s', async (_, prompt, expected) => {
    const engine = saying('x')
    const { json } = await post(served(engine), PATH, { prompt, return_token_ids: true })
    expect(engine.seen.map((request) => [...request.prompt])).toEqual(expected)
    expect(choicesOf(json).map((choice) => choice.prompt_token_ids)).toEqual(expected)
    expect(choicesOf(json)[0]!.token_ids).toEqual([...ids('x'), tokenizer.idOf('<|im_end|>')])
  })

  it('ends at stop strings and stop tokens, and reports which', async () => {
    const app = served(saying('one, two'))
    const stopped = await post(app, PATH, { prompt: 'a', stop: [',', '!'], include_stop_str_in_output: true })
    expect(choicesOf(stopped.json)[0]).toMatchObject({ text: 'one,', finish_reason: 'stop', stop_reason: ',' })
    const [comma] = ids(',')
    const token = await post(app, PATH, { prompt: 'a', stop_token_ids: [comma] })
    expect(choicesOf(token.json)[0]).toMatchObject({ finish_reason: 'stop', stop_reason: comma })
  })

  it('is the same for the same seed, and another for another', async () => {
    const app = served(scripted())
    const textFor = async (seed?: number): Promise<unknown> =>
      choicesOf((await post(app, PATH, { prompt: 'a', ...(seed !== undefined && { seed }) })).json)[0]!.text
    expect(await textFor(7)).toBe(await textFor(7))
    expect(await textFor(7)).not.toBe(await textFor(8))
    expect(await textFor(-7)).toBe(await textFor(-7))
    expect(await textFor(2 ** 63)).toBe(await textFor(2 ** 63))
    expect(await textFor(2 ** 63)).not.toBe(await textFor(2 ** 62))
    expect(await textFor(2 ** 62)).not.toBe(await textFor(-(2 ** 62)))
    for (const seed of [2 ** 64, 0.5])
      expect(await post(app, PATH, { prompt: 'a', seed })).toMatchObject({
        status: 400,
        json: { error: { param: 'seed' } },
      })
    expect(await textFor()).not.toBe(await textFor())
    expect(await textFor(-1)).not.toBe(await textFor(-1))
  })

  it('of a name that clients give twice is two requests', async () => {
    const engine = saying('x')
    const app = served(engine)
    const both = await Promise.all([1, 2].map(() => post(app, PATH, { prompt: 'a', request_id: 'mine' })))
    expect(both.map(({ json }) => json.id)).toEqual(['cmpl-mine', 'cmpl-mine'])
    expect(new Set(engine.seen.map(({ id }) => id)).size).toBe(2)
    expect((await post(app, PATH, { prompt: 'a' }, { 'x-request-id': 'theirs' })).json.id).toBe('cmpl-theirs')
  })

  it('keeps special tokens in its text if asked', async () => {
    const { json } = await post(served(saying('ab')), PATH, { prompt: 'a', skip_special_tokens: false })
    expect(choicesOf(json)[0]!.text).toBe('ab<|im_end|>')
  })
})

describe('log-probabilities', () => {
  it('are told with tokens, alternatives and offsets', async () => {
    const [a, b] = ids('ab')
    const { json } = await post(served(saying('ab')), PATH, { prompt: 'a', logprobs: 1, max_tokens: 2 })
    const raw = (id: number): number => -((id % 7) + 1) / 8
    expect(choicesOf(json)[0]!.logprobs).toEqual({
      text_offset: [0, 1],
      token_logprobs: [raw(a!), raw(b!)],
      tokens: ['a', 'b'],
      top_logprobs: [{ a: raw(a!) }, { b: raw(b!) }],
    })
  })

  it('name tokens by id if asked, and have the sampled one besides the alternatives', async () => {
    const [a] = ids('a')
    const { json } = await post(served(saying('a')), PATH, {
      ...{ prompt: 'a', logprobs: 2, max_tokens: 1, return_tokens_as_token_ids: true },
    })
    const { tokens, top_logprobs: top } = choicesOf(json)[0]!.logprobs as { tokens: unknown; top_logprobs: object[] } // asked for
    expect(tokens).toEqual([`token_id:${a}`])
    expect(Object.keys(top[0]!)).toEqual([`token_id:${a}`, `token_id:${a! + 1}`])
  })

  it('are those of the mode of the server, never below -9999', async () => {
    const app = served(saying('a'), { features: { logProbsMode: 'processed_logprobs' } })
    const engine = saying('a')
    const { json } = await post(app, PATH, { prompt: 'a', logprobs: 0, max_tokens: 1 })
    const logProbs = (choicesOf(json)[0]!.logprobs as { token_logprobs: number[] }).token_logprobs // asked for
    expect(logProbs).toEqual([(-((ids('a')[0]! % 7) + 1) / 8) * 2])
    const bottomless = {
      ...engine,
      generate: async function* (...given: Parameters<typeof engine.generate>) {
        for await (const event of engine.generate(...given)) {
          if (event._tag !== 'Tokens') yield event
          else
            yield {
              ...event,
              tokens: event.tokens.map((token) => ({ ...token, rawLogProb: Number.NEGATIVE_INFINITY })),
            }
        }
      },
    }
    const floored = await post(served(bottomless), PATH, { prompt: 'a', logprobs: 0, max_tokens: 1 })
    expect((choicesOf(floored.json)[0]!.logprobs as { token_logprobs: number[] }).token_logprobs).toEqual([-9999])
  })

  it('of an echoed prompt begin with null', async () => {
    const { json } = await post(served(saying('b')), PATH, { prompt: 'xa', echo: true, logprobs: 0, max_tokens: 1 })
    expect(choicesOf(json)[0]).toMatchObject({
      text: 'xab',
      logprobs: { tokens: ['x', 'a', 'b'], text_offset: [0, 1, 2] },
    })
    const { token_logprobs: known } = choicesOf(json)[0]!.logprobs as { token_logprobs: unknown[] } // asked for
    expect(known.map((x) => typeof x)).toEqual(['object', 'number', 'number'])
  })

  it('of the prompt alone are reported with max_tokens 0', async () => {
    const { json } = await post(served(saying('b')), PATH, { prompt: 'xa', echo: true, logprobs: 0, max_tokens: 0 })
    expect(choicesOf(json)[0]).toMatchObject({ text: 'xa', logprobs: { tokens: ['x', 'a'] }, finish_reason: 'length' })
    expect(json.usage).toMatchObject({ completion_tokens: 0 })
  })

  it('of prompts are reported by id', async () => {
    const [x, a] = ids('xa')
    const { json } = await post(served(saying('b')), PATH, { prompt: 'xa', prompt_logprobs: 1 })
    expect(choicesOf(json)[0]!.prompt_logprobs).toEqual([
      null,
      { [String(a)]: { logprob: -((a! % 7) + 1) / 8, rank: 1, decoded_token: 'a' } },
    ])
    expect(x).not.toBe(a)
  })
})

describe('a stream of completions', () => {
  it('adds up to the whole, and ends with [DONE]', async () => {
    const body = { prompt: ['a', 'the cat sat'], n: 2, seed: 3, logprobs: 1, return_token_ids: true, max_tokens: 6 }
    const app = served(scripted())
    const whole = choicesOf((await post(app, PATH, body)).json)
    const { headers, text } = await post(app, PATH, { ...body, stream: true, stream_options: {} })
    expect(headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const frames = framesOf(text)
    expect(new Set(frames.map(({ id }) => id)).size).toBe(1)
    const parts = frames.slice(0, -1).flatMap(choicesOf)
    for (const choice of whole) {
      const mine = parts.filter(({ index }) => index === choice.index)
      expect(mine.map((part) => part.text).join('')).toBe(choice.text)
      expect(mine.flatMap((part) => part.token_ids)).toEqual(choice.token_ids)
      const pick = (name: string) => (part: Record<string, unknown>) =>
        (part.logprobs as Record<string, unknown[]>)[name] // asked for
      for (const name of ['tokens', 'token_logprobs', 'text_offset', 'top_logprobs'])
        expect(mine.flatMap(pick(name))).toEqual(pick(name)(choice))
      expect(mine[0]!.prompt_token_ids).toEqual(choice.prompt_token_ids)
      expect(mine.slice(1).every((part) => part.prompt_token_ids === null)).toBe(true)
      expect(mine.at(-1)!.finish_reason).toBe(choice.finish_reason)
    }
    const prompts = ids('a').length + ids('the cat sat').length
    expect(frames.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: prompts } })
  })

  it('reports usage in every chunk on request, and otherwise not at all', async () => {
    const app = served(saying('abc'))
    const { text } = await post(app, PATH, {
      ...{ prompt: 'a', stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    })
    expect(framesOf(text).map(({ usage }) => (usage as { completion_tokens: number }).completion_tokens)).toEqual([
      1, 2, 3, 4, 4, 4,
    ])
    const silent = await post(app, PATH, { prompt: 'a', stream: true })
    expect(framesOf(silent.text).some((frame) => 'usage' in frame)).toBe(false)
  })

  it('echoes the prompt in the first chunk', async () => {
    const { text } = await post(served(saying('b')), PATH, { prompt: 'xa', echo: true, stream: true })
    const [first] = framesOf(text)
    expect(choicesOf(first)[0]!.text).toBe('xab')
  })

  it('that fails is reported in a frame; one that is refused at once has a status', async () => {
    const failure = { _tag: 'GenerationFailure', kind: 'internal', reason: 'out of memory' } as const
    const late = served(saying('abc', { fails: (_, t) => (t === 2 ? failure : undefined) }))
    const { status, text } = await post(late, PATH, { prompt: 'a', stream: true, stream_options: {} })
    expect(status).toBe(200)
    const error = { message: 'out of memory', type: 'InternalServerError', param: null, code: 500 }
    expect(framesOf(text).at(-1)).toEqual({ error })
    const whole = await post(late, PATH, { prompt: 'a' })
    expect([whole.status, whole.json]).toEqual([500, { error }])

    const engine = saying('abc')
    await engine.close()
    expect((await post(served(engine), PATH, { prompt: 'a', stream: true })).status).toBe(503)
  })

  it('of which one completion fails fails as a whole', async () => {
    const app = served(saying('abc', { fails: (_, t) => (t === 1 ? 'error' : undefined) }))
    const { text } = await post(app, PATH, { prompt: 'a', n: 2, stream: true })
    expect(framesOf(text).at(-1)).toMatchObject({ error: { message: 'Internal server error', code: 500 } })
    expect(app.inFlight()).toBe(0)
  })
})
