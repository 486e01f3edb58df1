import { orThrow } from '@tandem-rl/base'
import type { GenerationEvent } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collectEvents } from '../../../../src/modules/generation/generateAll.js'
import { vLLMClient } from '../../../../src/modules/remote/vllm/client.js'
import type { Delivery } from '../../../../src/modules/remote/vllm/wireRequest.js'
import { answeredBy, eventsOf, failureIn, requestOf, type WireReply } from '../../../kit/wire.js'

const json = (value: unknown, status = 200): WireReply => ({ status, text: JSON.stringify(value) })

/** Responses of a server of 0.32 when a client connects. */
const greeting = (path: string): WireReply => {
  if (path === '/v1/models') return json({ data: [{ id: 'm', max_model_len: 32 }] })
  if (path === '/version') return json({ version: '0.32.0' })
  if (path === '/is_paused') return json({ is_paused: false })
  if (path === '/weight_info') return json({ weight_version: 'default' })
  return json({ vllm_config: { model_config: { logprobs_mode: 'raw_logprobs' } } })
}

type Reply = WireReply | { readonly kind: 'reset' | 'timeout' | 'malformed' | 'unreachable' }

/** A client of a server that gives one answer to every request to sample. */
const answered = (reply: Reply, delivery: Delivery = 'whole') => {
  const transport = answeredBy(async ({ path, json: body }) => {
    if (path !== '/inference/v1/generate') return greeting(path)
    const ids = (body as { token_ids: readonly number[] }).token_ids // the client sends them
    return ids.length === 0 ? json({ error: { message: 'too short' } }, 400) : reply
  })
  return vLLMClient({ transport, model: 'm', delivery, vocabularySize: 20 })
}

const entry = (id: number, logprob: number | null = -1) => ({ token_id: id, logprob, rank: 1, top_logprobs: [] })

const choice = (ids: readonly number[], rest: object = {}) => ({
  ...{ index: 0, token_ids: ids, logprobs: { content: ids.map((id) => entry(id)) }, finish_reason: 'stop' },
  weight_versions: [{ version: 'default', start: 0, end: ids.length }],
  ...rest,
})

const answer = (choices: readonly object[], rest: object = {}) => json({ model: 'm', choices, ...rest })

const ask = (reply: Reply, sampling: Parameters<typeof requestOf>[0] = {}, delivery: Delivery = 'whole') =>
  eventsOf(answered(reply, delivery).generate(requestOf(sampling)))

const isProtocol = async (reply: Reply, words: string) => {
  expect(failureIn(await ask(reply))).toMatchObject({ kind: 'protocol', reason: expect.stringContaining(words) })
}

describe('an answer that cannot be is a failure, and no sample', () => {
  it.each([
    ['fewer log-probabilities than ids', choice([1, 2], { logprobs: { content: [entry(1)] } }), '2 token ids and 1'],
    ['more of them', choice([1], { logprobs: { content: [entry(1), entry(2)] } }), '1 token ids and 2'],
    ['none', choice([1, 2], { logprobs: null }), '2 token ids and 0'],
    ['that of another token', choice([1], { logprobs: { content: [entry(2)] } }), 'that of 2'],
    ['null', choice([1], { logprobs: { content: [entry(1, null)] } }), 'logprob'],
    ['-9999', choice([1], { logprobs: { content: [entry(1, -9999)] } }), '-9999'],
    ['a logit', choice([1], { logprobs: { content: [entry(1, 3.5)] } }), '3.5'],
    ['an id out of the vocabulary', choice([20]), 'vocabulary of 20'],
    ['a negative id', choice([-1]), 'token_ids'],
    ['more tokens than asked for', choice([1, 2, 3, 4, 5, 6, 7, 8, 9]), '9 tokens, and 8'],
    ['an unknown end', choice([1], { finish_reason: 'tired' }), "'tired'"],
    ['no end', choice([1], { finish_reason: null }), 'no end'],
    ['another completion', choice([1], { index: 1 }), 'a completion 1'],
    ['versions of other tokens', choice([1, 2], { weight_versions: [{ version: '1', start: 0, end: 1 }] }), '0 to 1'],
    ['versions with a hole', choice([1, 2], { weight_versions: [{ version: '1', start: 1, end: 2 }] }), '1 to 2'],
  ])('%s', async (_, wrong, words) => {
    await isProtocol(answer([wrong]), words)
  })

  it.each([
    ['NaN', { status: 200, text: '{"choices": [{"logprob": NaN}]}' }, 'not JSON'],
    ['half of a JSON', { status: 200, text: '{"choices": [{"index"' }, 'not JSON'],
    ['another model', answer([choice([1])], { model: 'other' }), "'other'"],
    [
      'another prompt',
      answer([choice([1])], { prompt_token_ids: [5, 6, 8] }),
      'its prompt is not the one that was sent',
    ],
    ['other counts', answer([choice([1])], { usage: { prompt_tokens: 3, completion_tokens: 2 } }), 'counts 2 tokens'],
    ['a completion twice', answer([choice([1]), choice([1])]), 'after its end'],
    ['no completion', answer([]), 'missing'],
    ['bytes that are no HTTP', { kind: 'malformed' } as const, 'malformed'],
  ])('%s', async (_, reply, words) => {
    await isProtocol(reply, words)
  })

  it('prompts: another length, a place without its own token, none at all', async () => {
    const places = [null, { '6': { logprob: -1, rank: 1 } }, { '7': { logprob: -1, rank: 1 } }]
    const asked = { sampling: { promptLogProbs: 0 } }
    const reply = (told: unknown) => ask(answer([choice([1])], { prompt_logprobs: told }), asked)
    expect((await reply(places))[0]).toMatchObject({ _tag: 'Started' })
    for (const wrong of [
      places.slice(1),
      [null, places[2], places[2]],
      null,
      [null, places[1], { '7': { logprob: -9999 } }],
    ]) {
      expect(failureIn(await reply(wrong)).kind).toBe('protocol')
    }
  })

  it('whatever JSON comes, the request ends with an event', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.jsonValue(),
        fc.constantFrom('whole' as const, 'stream' as const),
        async (value, delivery) => {
          const text = JSON.stringify(value)
          const events = await ask(
            { status: 200, text: delivery === 'whole' ? text : `data: ${text}\n\ndata: [DONE]\n\n` },
            {},
            delivery,
          )
          expect(failureIn(events).kind).toMatch(/protocol|internal/)
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('a failure says whose it is', () => {
  it.each([
    [json({ error: 'Unauthorized' }, 401), 'unauthorized'],
    [json({ error: { message: 'no', type: 'NotFoundError' } }, 404), 'invalid'],
    [json({ error: { message: 'n' } }, 400), 'invalid'],
    [json({ detail: 'slow down' }, 429), 'overloaded'],
    [json({}, 503), 'overloaded'],
    [json({ error: { message: 'EngineDeadError' } }, 500), 'internal'],
    [{ kind: 'reset' } as const, 'unreachable'],
    [{ kind: 'unreachable' } as const, 'unreachable'],
    [{ kind: 'timeout' } as const, 'timeout'],
  ])('%j: %s', async (reply, kind) => {
    expect(failureIn(await ask(reply)).kind).toBe(kind)
  })
})

describe('a stream', () => {
  const frames = (values: readonly unknown[]): WireReply => ({
    status: 200,
    text: values.map((value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`).join(''),
  })
  const piece = (ids: readonly number[], rest: object = {}) => ({
    choices: [choice(ids, { finish_reason: null, weight_versions: null, ...rest })],
  })
  const usage = (completion: number) => ({ choices: [], usage: { prompt_tokens: 3, completion_tokens: completion } })
  const streamed = (...values: readonly unknown[]) => ask(frames(values), { sampling: { maxTokens: 3 } }, 'stream')
  const endOf = (events: readonly GenerationEvent[]) => events.at(-1)

  it('without a reason at its end has one that follows from the counts, if all tokens came', async () => {
    const full = await streamed(piece([1, 2]), piece([3]), usage(3), '[DONE]')
    expect(endOf(full)).toMatchObject({ _tag: 'Finished', finishReason: 'length' })
    expect(endOf(await streamed(piece([1, 2]), usage(2), '[DONE]'))).toMatchObject({ finishReason: 'stop' })
  })

  it.each([
    ['tokens are missing', [piece([1, 2]), usage(3), '[DONE]']],
    ['nobody counted them', [piece([1, 2]), '[DONE]']],
    ['it breaks off', [piece([1, 2])]],
    ['its last frame is half a JSON', [piece([1]), '{"choices": [']],
    ['nothing came', [usage(0), '[DONE]']],
  ])('is no answer if %s', async (_, values) => {
    expect(failureIn(await streamed(...values)).kind).toBe('protocol')
  })

  it('that the server aborts has the reason', async () => {
    const events = await streamed(piece([1]), { error: { message: 'out of memory' } }, '[DONE]')
    expect(failureIn(events)).toMatchObject({ kind: 'internal', reason: expect.stringContaining('out of memory') })
  })

  it('of changed weights fails in place of telling a wrong version; a whole answer tells each', async () => {
    const spans = [
      { version: '0', start: 0, end: 1 },
      { version: '4', start: 1, end: 3 },
    ]
    const end = piece([3], { finish_reason: 'stop', weight_versions: spans })
    expect(failureIn(await streamed(piece([1, 2]), end, '[DONE]')).reason).toContain('version 0, and then 4')
    const whole = answered(answer([choice([1, 2, 3], { weight_versions: spans })]))
    const { completions } = orThrow(await collectEvents(whole.generate(requestOf()), 1))
    expect(completions[0]!.tokens.map(({ version }) => version)).toEqual([0, 4, 4])
  })
})
