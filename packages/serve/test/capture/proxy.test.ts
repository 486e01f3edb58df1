/** The endpoints of sessions, who may ask for them, limits, and calls that go wrong. */
import { orThrow } from '@tandem-rl/base'
import { chatTemplate, sessionTrajectories } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { captured } from '../../../../test/kit/captured.js'
import { ask, post, saying, scripted, servedText, tokenizer, until } from '../../../../test/kit/served.js'

const USER = { role: 'user', content: 'hi' }
const CHAT = '/sessions/a/v1/chat/completions'

describe('a session', () => {
  it('is opened, called in, rewarded, finished, told and forgotten', async () => {
    const app = captured(saying('hello'))
    const opened = await post(app, '/sessions', { session_id: 'a', group_id: 'task', metadata: { seed: 3 } })
    expect([opened.status, opened.json]).toEqual([
      201,
      { session_id: 'a', base_url: 'http://test/sessions/a/v1', api_key: 'sk-session-a' },
    ])
    expect((await post(app, '/sessions', { session_id: 'a' })).status).toBe(409)
    expect((await post(app, CHAT, { messages: [USER], n: 2 })).status).toBe(200)
    expect((await post(app, '/sessions/a/v1/completions', { prompt: ['x', 'y'], max_tokens: 2 })).status).toBe(200)
    await post(app, '/sessions/a/reward', { reward: 0.5, parts: { tests: 0.5 } })
    const finished = await post(app, '/sessions/a/finish', {})
    expect(finished.json).toMatchObject({ calls: 3, group_id: 'task', end: { status: 'ok' }, reward: { total: 0.5 } })
    expect((await post(app, CHAT, { messages: [USER] })).status).toBe(409)
    const traces = (await ask(app, '/sessions/a/traces')).json as unknown as { readonly calls: readonly object[] } // as told
    expect(traces.calls[0]).toMatchObject({ index: 0, messages: [USER], completions: [{ status: 'ok' }, {}] })
    const rows = (await ask(app, '/sessions/a/trajectories')).json
    expect((rows.trajectories as readonly unknown[]).length).toBe(4)
    expect((await ask(app, '/sessions')).json).toMatchObject({ data: [{ session_id: 'a' }] })
    expect((await ask(app, '/sessions/a', { method: 'DELETE' })).status).toBe(204)
    expect((await ask(app, '/sessions/a')).status).toBe(404)
    expect((await ask(app, '/health')).json).toMatchObject({ status: 'ok', sessions: 0, bytes: 0 })
  })

  it('that nobody opened is made or refused; a call without one is refused', async () => {
    const strict = captured(saying('x'), { unknown: 'refuse' })
    expect((await post(strict, CHAT, { messages: [USER] })).status).toBe(404)
    expect((await post(strict, '/v1/chat/completions', { messages: [USER] })).status).toBe(400)
    const app = captured(saying('x'))
    expect((await post(app, '/v1/chat/completions', { messages: [USER] }, { 'x-session-id': 'b' })).status).toBe(200)
    expect((await post(app, '/sessions/a%20b/v1/completions', { prompt: 'x' })).status).toBe(400)
    expect(app.sessions().map(({ id }) => id)).toEqual(['b'])
  })

  it('answers to every name of a model, and counts those of others', async () => {
    const app = captured(saying('x'))
    const call = (model: string) => post(app, CHAT, { messages: [USER], model })
    expect((await call('gpt-4o')).json).toMatchObject({ model: 'gpt-4o' })
    expect((await call('cat')).status).toBe(200)
    expect((await ask(app, '/health')).json).toMatchObject({ other_models: 1 })
    const strict = captured(saying('x'), {
      serve: { model: { names: ['cat'], root: '/models/cat', others: 'refuse' } },
    })
    expect((await post(strict, CHAT, { messages: [USER], model: 'gpt-4o' })).status).toBe(404)
  })

  it('refuses required tool calls, or treats them as auto and counts them', async () => {
    const own = { name: 'f', parameters: { type: 'object', properties: {} } }
    const input = { model: 'cat', max_tokens: 4, messages: [USER] }
    const requests = [
      ['chat/completions', { ...input, tools: [{ type: 'function', function: own }], tool_choice: 'required' }],
      ['messages', { ...input, tools: [{ name: 'f', input_schema: own.parameters }], tool_choice: { type: 'any' } }],
      ['responses', { model: 'cat', input: 'hi', tools: [{ type: 'function', ...own }], tool_choice: 'required' }],
    ] as const
    const strict = captured(saying('x'))
    for (const [path, body] of requests) {
      const { status, text } = await post(strict, `/sessions/a/v1/${path}`, body)
      expect([path, status, text]).toEqual([path, 400, expect.stringContaining('--tool-choice-required auto')])
    }
    expect((await ask(strict, '/health')).json).not.toHaveProperty('relaxed_tool_choices')
    expect((await ask(strict, '/metrics')).text).not.toContain('tool_choice')
    const features = { toolCalls: 'hermes', toolChoiceRequired: 'auto' } as const
    const app = captured(saying('x'), { serve: { features } })
    for (const [path, body] of requests) expect((await post(app, `/sessions/a/v1/${path}`, body)).status).toBe(200)
    const [path, chat] = requests[0]
    await post(app, `/sessions/b/v1/${path}`, { ...chat, tool_choice: 'auto' })
    await post(app, `/sessions/b/v1/${path}`, { ...chat, tools: null }) // refused: no tools
    expect((await ask(app, '/sessions/a')).json).toMatchObject({ relaxed_tool_choices: 3 })
    expect((await ask(app, '/sessions/b')).json).not.toHaveProperty('relaxed_tool_choices')
    expect((await ask(app, '/health')).json).toMatchObject({ relaxed_tool_choices: 3 })
    expect((await ask(app, '/metrics')).text).toMatch(/^tandem:tool_choice_required_as_auto_total\{.*\} 3$/m)
  })

  it('opens to its own key, and everything to an API key, where there are keys', async () => {
    const app = captured(saying('x'), { serve: { access: { apiKeys: ['sk-admin'] } } })
    const admin = { authorization: 'Bearer sk-admin' }
    expect((await post(app, '/sessions', {})).status).toBe(401)
    const { json } = await post(app, '/sessions', { session_id: 'a' }, admin)
    const own = { authorization: `Bearer ${String(json.api_key)}` }
    expect(json.api_key).toMatch(/^sk-session-a\..+/)
    const asks = async (headers: Readonly<Record<string, string>>, path = CHAT) =>
      (await post(app, path, { messages: [USER] }, headers)).status
    expect(await asks(own)).toBe(200)
    expect(await asks(own, '/v1/chat/completions')).toBe(200)
    expect(await asks(admin)).toBe(200)
    expect(await asks({ authorization: 'Bearer sk-session-a' })).toBe(401)
    expect(await asks(own, '/sessions/b/v1/chat/completions')).toBe(401)
    expect((await post(app, '/sessions/a/reward', { reward: 1 }, own)).status).toBe(401)
  })

  it('is dropped when it is idle for too long; the limits of sessions and bytes hold', async () => {
    let now = 0
    const app = captured(saying('x'), { clock: { now: () => now }, limits: { idleMs: 10, sessions: 2 } })
    for (const id of ['a', 'b']) await post(app, '/sessions', { session_id: id })
    expect((await post(app, '/sessions', { session_id: 'c' })).status).toBe(503)
    now = 9
    await post(app, CHAT, { messages: [USER] })
    now = 15
    expect((await post(app, '/sessions', { session_id: 'c' })).status).toBe(201)
    expect(app.sessions().map(({ id }) => id)).toEqual(['a', 'c'])
    const small = captured(saying('x'), { limits: { bytes: 1 } })
    expect((await post(small, CHAT, { messages: [USER] })).status).toBe(200)
    expect((await post(small, CHAT, { messages: [USER] })).status).toBe(503)
  })
})

describe('a call that goes wrong', () => {
  const failure = { _tag: 'GenerationFailure', kind: 'unreachable', reason: 'no connection' } as const

  it('in the middle of a stream is recorded as failed, with what had come', async () => {
    const app = captured(saying('abcdef', { fails: (_, t) => (t === 3 ? failure : undefined) }))
    const { text } = await post(app, CHAT, { messages: [USER], stream: true })
    expect(text).toContain('no connection')
    const [session] = app.sessions()
    expect(session!.calls[0]!.completions).toMatchObject([
      { status: 'failed', reason: 'no connection', finishReason: null },
    ])
    expect(session!.calls[0]!.completions[0]!.ids).toHaveLength(3)
    expect(sessionTrajectories(session!).trajectories).toEqual([])
    expect(app.inFlight()).toBe(0)
  })

  it('is recorded as aborted where the client goes away', async () => {
    const engine = saying('x'.repeat(50), { beforeToken: (_, t) => (t < 2 ? undefined : new Promise(() => {})) })
    const app = captured(engine)
    const response = await app.fetch(
      new Request(`http://test${CHAT}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [USER], stream: true }),
      }),
    )
    const reader = response.body!.getReader()
    await reader.read()
    await until(() => engine.running() === 1)
    await reader.cancel()
    await until(() => app.inFlight() === 0)
    expect(app.sessions()[0]!.calls[0]!.completions).toMatchObject([{ status: 'aborted' }])
  })

  it('without log-probabilities cannot be used', async () => {
    const plain = scripted()
    const engine: typeof plain = {
      ...plain,
      async *generate(request, options) {
        for await (const event of plain.generate(request, options)) {
          yield event._tag === 'Tokens'
            ? { ...event, tokens: event.tokens.map((token) => ({ ...token, temperedLogProb: Number.NaN })) }
            : event
        }
      },
    }
    const app = captured(engine)
    await post(app, CHAT, { messages: [USER] })
    expect(app.sessions()[0]!.calls[0]!.completions).toMatchObject([{ status: 'unusable' }])
  })

  it('is recorded neither where it is refused, nor where its session was forgotten', async () => {
    const app = captured(saying('x'))
    expect((await post(app, CHAT, { messages: [USER], temperature: 9 })).status).toBe(400)
    expect(app.sessions()[0]!.calls).toEqual([])
  })
})

describe('a conversation that continues from tokens', () => {
  it('goes on from the tokens of an answer whose thoughts the client does not send back', async () => {
    const source = `${servedText.template.source}{{ '' if '</think>' }}`.replace(
      '{%- if message.content',
      "{{ '<think>' + message.reasoning_content + '</think>' if message.reasoning_content }}$&",
    )
    const text = { ...servedText, template: orThrow(chatTemplate(source)) }
    const app = captured(scripted({ says: () => '<think>the mat</think>the cat', maxModelLength: 2048 }), {
      serve: { text },
    })
    const { json } = await post(app, CHAT, { messages: [USER] })
    const [choice] = json.choices as readonly { readonly message: object }[] // as a chat answers
    expect(choice!.message).toMatchObject({ content: 'the cat', reasoning: 'the mat' })
    await post(app, CHAT, { messages: [USER, { role: 'assistant', content: 'the cat' }, USER] })
    const { calls } = app.sessions()[0]!
    expect(calls.map(({ completions }) => completions[0]!.answer)).toMatchObject([
      { text: 'the cat', reasoning: 'the mat' },
      { text: 'the cat', reasoning: 'the mat' },
    ])
    expect(calls[1]!.promptFrom).toBe('tokens')
    expect(tokenizer.decode([...calls[1]!.prompt], 'keep')).toContain('<think>the mat</think>the cat')
  })

  it('has the ids of its rendering, where rendering gives the tokens of answers back', async () => {
    const words = fc.array(fc.constantFrom('the', 'cat', 'sat', 'on', 'mat'), { minLength: 1, maxLength: 4 })
    const turns = fc.array(fc.record({ asked: words, said: words }), { minLength: 2, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(turns, async (talk) => {
        const promptsOf = async (continuation: 'tokens' | 'render') => {
          let turn = 0
          const app = captured(scripted({ says: () => talk[turn]!.said.join(' ') }), { continuation })
          const messages: object[] = []
          for (; turn < talk.length; turn++) {
            messages.push({ role: 'user', content: talk[turn]!.asked.join(' ') })
            const { json } = await post(app, CHAT, { messages })
            const [choice] = json.choices as readonly { readonly message: object }[] // as a chat answers
            messages.push(choice!.message)
          }
          const { calls } = app.sessions()[0]!
          expect(calls.slice(1).every(({ promptFrom }) => promptFrom === continuation)).toBe(true)
          return calls.map(({ prompt }) => [...prompt])
        }
        expect(await promptsOf('tokens')).toEqual(await promptsOf('render'))
      }),
      { numRuns: 15 },
    )
  })
})

describe('sampling', () => {
  it('that the proxy sets takes the place of what agents ask for', async () => {
    const engine = saying('x')
    const app = captured(engine, { sampling: { temperature: 1 } })
    await post(app, CHAT, { messages: [USER], temperature: 0.2 })
    expect(engine.seen[0]!.sampling.temperature).toBe(1)
    expect(app.sessions()[0]!.calls[0]!.sampling.temperature).toBe(1)
  })
})
