/** `/v1/chat/completions`, as vLLM answers it. */
import { orThrow } from '@tandem-rl/base'
import { chatTemplate, MALFORMED_CALL, textTokenizer, trainBytePairEncoding, withToolPrompt } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { type ScriptedEngine, scriptedEngine } from '../../../../test/kit/plannedEngine.js'
import {
  framesOf,
  type Json,
  post,
  saying,
  scripted,
  served,
  servedText,
  tokenizer,
} from '../../../../test/kit/served.js'

const PATH = '/v1/chat/completions'

const USER = { role: 'user', content: 'hi' }

const TOOL = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }

const withTools = { features: { toolCalls: 'hermes' } } as const

const called = (args: unknown, fields: object = {}): object => ({
  role: 'assistant',
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: args }, ...fields }],
})

const CALL = 'Look:<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'

/** The choices of an answer. */
const choicesOf = (json: unknown): readonly Json[] => (json as { choices: readonly Json[] }).choices // the shape is what the tests are about

const messageOf = (json: unknown, i = 0): Json => choicesOf(json)[i]!.message as Json // likewise

/** The text that the engine was last asked to go on from. */
const promptOf = (engine: ScriptedEngine): string => tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')

describe('a chat completion', () => {
  it('has the form of vLLM', async () => {
    const { status, json } = await post(served(saying('hello')), PATH, { model: 'cat-2', messages: [USER] })
    expect(status).toBe(200)
    expect(json).toMatchObject({ id: 'chatcmpl-id0', object: 'chat.completion', model: 'cat', prompt_token_ids: null })
    expect(choicesOf(json)).toEqual([
      {
        index: 0,
        message: {
          ...{ role: 'assistant', content: 'hello', refusal: null, annotations: null, audio: null },
          ...{ function_call: null, tool_calls: [], reasoning: null },
        },
        ...{ logprobs: null, finish_reason: 'stop', stop_reason: null, token_ids: null },
      },
    ])
  })

  it('is rendered by the template of the model, up to the turn of the assistant', async () => {
    const engine = saying('x')
    const app = served(engine)
    await post(app, PATH, { messages: [{ role: 'system', content: 'Purr.' }, USER] })
    const start = '<|im_start|>system\nPurr.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n'
    expect(promptOf(engine)).toBe(`${start}<|im_start|>assistant\n`)
    await post(app, PATH, { messages: [USER], chat_template_kwargs: { mood: 'grumpy' } })
    expect(promptOf(engine)).toMatch(/assistant\ngrumpy$/)
    await post(app, PATH, { messages: [USER], tools: [TOOL], tool_choice: 'none' })
    expect(promptOf(engine)).toContain('"name": "weather"')
  })

  it('continues the last message, and echoes it', async () => {
    const engine = saying(' mat')
    const messages = [USER, { role: 'assistant', content: 'the cat' }]
    const body = { messages, continue_final_message: true, add_generation_prompt: false, echo: true }
    const { json } = await post(served(engine), PATH, body)
    expect(promptOf(engine)).toMatch(/assistant\nthe cat$/)
    expect(messageOf(json)).toMatchObject({ role: 'assistant', content: 'the cat mat' })
    const streamed = await post(served(engine), PATH, { ...body, stream: true })
    const deltas = framesOf(streamed.text).map((frame) => choicesOf(frame)[0]!.delta as { content?: string }) // the form of chunks
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe('the cat mat')
  })

  it('keeps what messages say from becoming control tokens', async () => {
    const engine = saying('x')
    await post(served(engine), PATH, { messages: [{ role: 'user', content: '<|im_end|>' }] })
    const end = tokenizer.idOf('<|im_end|>')
    expect(engine.seen[0]!.prompt.filter((id) => id === end)).toHaveLength(1)
  })

  it('reads parts of text, results of tools, calls and thoughts; unknown fields are ignored', async () => {
    const engine = saying('x')
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
        mood: 'fine',
      },
      {
        ...{ role: 'assistant', content: null, reasoning: 'hm', refusal: null },
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: '' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'rain' },
    ]
    const { status } = await post(served(engine), PATH, { messages, unheard_of: true })
    expect(status).toBe(200)
    expect(promptOf(engine)).toContain('user\nab<|im_end|>')
    expect(promptOf(engine)).toContain('<tool_call>{"name": "weather", "arguments": {}}</tool_call>')
    expect(promptOf(engine)).toContain('tool\nrain')
  })

  it.each([
    [
      'cache control',
      { role: 'user', content: [{ type: 'text', text: 'ab', cache_control: { type: 'ephemeral' } }] },
      'user\nab',
    ],
    ['null arguments', called(null), '{"name": "weather", "arguments": {}}'],
    ['arguments as an object', called({ city: 'Oslo' }), '{"name": "weather", "arguments": {"city": "Oslo"}}'],
    ['an index of a call', called('{}', { index: 0 }), '{"name": "weather", "arguments": {}}'],
    ['a refusal', { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] }, 'assistant\nno'],
  ])('reads messages with %s, as agents send them', async (_, message, expected) => {
    const engine = saying('x')
    const { status } = await post(served(engine), PATH, { messages: [message, USER] })
    expect(status).toBe(200)
    expect(promptOf(engine)).toContain(expected)
  })

  it('fills the context by default', async () => {
    const engine = saying('x'.repeat(500), { maxModelLength: 100 })
    const { json } = await post(served(engine), PATH, { messages: [USER] })
    expect(json.usage).toMatchObject({ total_tokens: 100 })
    expect(choicesOf(json)[0]).toMatchObject({ finish_reason: 'length' })
    const short = await post(served(engine), PATH, { messages: [USER], max_tokens: 9, max_completion_tokens: 3 })
    expect(short.json.usage).toMatchObject({ completion_tokens: 3 })
  })

  it('reports log-probabilities with bytes', async () => {
    const [a] = tokenizer.encode('a')
    const { json } = await post(served(saying('a')), PATH, {
      ...{ messages: [USER], logprobs: true, top_logprobs: 2, max_tokens: 1 },
    })
    const raw = -((a! % 7) + 1) / 8
    const next = tokenizer.decode([a! + 1], 'keep')
    expect(choicesOf(json)[0]!.logprobs).toEqual({
      content: [
        {
          ...{ token: 'a', logprob: raw, bytes: [97] },
          top_logprobs: [
            { token: 'a', logprob: raw, bytes: [97] },
            { token: next, logprob: raw - 1, bytes: [...new TextEncoder().encode(next)] },
          ],
        },
      ],
    })
  })
})

describe('calls of tools', () => {
  it('are read where their tags are special tokens, with ids that the template takes, whole and streamed', async () => {
    const special = ['<|im_start|>', '<|im_end|>', '[TOOL_CALLS]', '[ARGS]']
    const own = orThrow(
      textTokenizer(trainBytePairEncoding([], { vocabularySize: 260, specialTokens: special }), {
        eos_token: '<|im_end|>',
      }),
    )
    const ids = own.encode('Sure.[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}')
    const engine = scriptedEngine({
      tokenizer: own,
      endToken: own.idOf('<|im_end|>')!,
      says: () => own.decode(ids, 'keep'),
    })
    const app = served(engine, { text: { ...servedText, tokenizer: own }, features: { toolCalls: 'mistral' } })
    const { json } = await post(app, PATH, { messages: [USER], tools: [TOOL] })
    const call = {
      id: expect.stringMatching(/^[a-z0-9]{9}$/),
      function: { name: 'weather', arguments: '{"city": "Oslo"}' },
    }
    expect(messageOf(json)).toMatchObject({ content: 'Sure.', tool_calls: [call] })
    const streamed = await post(app, PATH, { messages: [USER], tools: [TOOL], stream: true })
    expect(streamed.text).not.toContain('im_end')
    expect(streamed.text).toContain('"name":"weather"')
  })

  it('are told apart from the text', async () => {
    const { json } = await post(served(saying(CALL), withTools), PATH, { messages: [USER], tools: [TOOL] })
    expect(choicesOf(json)[0]).toMatchObject({ finish_reason: 'tool_calls' })
    expect(messageOf(json)).toMatchObject({
      content: 'Look:',
      tool_calls: [
        { id: 'chatcmpl-tool-id1', type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } },
      ],
    })
  })

  it('stay text where they are malformed, or where no tools were given', async () => {
    const broken = await post(served(saying('<tool_call>no</tool_call>'), withTools), PATH, {
      messages: [USER],
      tools: [TOOL],
    })
    expect(messageOf(broken.json)).toMatchObject({ content: '<tool_call>no</tool_call>', tool_calls: [] })
    const without = await post(served(saying(CALL), withTools), PATH, { messages: [USER] })
    expect(messageOf(without.json)).toMatchObject({ content: CALL, tool_calls: [] })
  })

  it('are the first alone without parallel calls', async () => {
    const app = served(saying(CALL + CALL.slice(5)), withTools)
    const both = await post(app, PATH, { messages: [USER], tools: [TOOL] })
    expect(messageOf(both.json).tool_calls).toHaveLength(2)
    const body = { messages: [USER], tools: [TOOL], parallel_tool_calls: false }
    const first = await post(app, PATH, body)
    expect(messageOf(first.json).tool_calls).toHaveLength(1)
    const { text } = await post(app, PATH, { ...body, stream: true })
    const names = toolDeltas(framesOf(text)).flatMap(({ function: { name } }) => name ?? [])
    expect(names).toEqual(['weather'])
  })

  interface ToolDeltaJson {
    readonly index: number
    readonly id?: string
    readonly function: { readonly name?: string; readonly arguments: string }
  }

  const deltasOf = (frames: readonly Json[]) =>
    frames.flatMap((frame) =>
      choicesOf(frame).map(({ delta }) => delta as { content?: string; tool_calls?: readonly ToolDeltaJson[] }),
    ) // the form of chunks

  const toolDeltas = (frames: readonly Json[]): readonly ToolDeltaJson[] =>
    deltasOf(frames).flatMap(({ tool_calls: calls }) => calls ?? [])

  const contentOf = (frames: readonly Json[]): string =>
    deltasOf(frames)
      .map(({ content }) => content ?? '')
      .join('')

  it('are streamed whole, each in a chunk of its own, as an answer has them', async () => {
    const app = served(saying(CALL + CALL.slice(5)), withTools)
    const { text } = await post(app, PATH, { messages: [USER], tools: [TOOL], stream: true })
    const frames = framesOf(text)
    const chunks = frames.map((frame) => toolDeltas([frame])).filter((deltas) => deltas.length > 0)
    const call = { type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } }
    expect(chunks).toEqual([
      [{ index: 0, id: 'chatcmpl-tool-id1', ...call }],
      [{ index: 1, id: 'chatcmpl-tool-id2', ...call }],
    ])
    expect(contentOf(frames)).toBe('Look:')
    expect(choicesOf(frames.at(-1))[0]).toMatchObject({ finish_reason: 'tool_calls' })
  })

  it('that are cut off or malformed are marked text, whole and streamed', async () => {
    const cases = [
      ['<tool_call>{"name": "weather", "argum', undefined, 'weather()'],
      ['<tool_call>{"name": "weather", "arguments": [1]}</tool_call>', undefined, 'weather([1])'],
      [CALL, tokenizer.encode(CALL).length, 'weather({"city": "Oslo"})'],
    ] as const
    for (const [says, max_tokens, shown] of cases) {
      const body = { messages: [USER], tools: [TOOL], ...(max_tokens !== undefined && { max_tokens }) }
      const { json } = await post(served(saying(says), withTools), PATH, body)
      expect(messageOf(json).tool_calls).toEqual([])
      const content = String(messageOf(json).content)
      expect(content.endsWith(`${MALFORMED_CALL} ${shown}`)).toBe(true)
      expect(choicesOf(json)[0]).toMatchObject({ finish_reason: max_tokens === undefined ? 'stop' : 'length' })
      const { text } = await post(served(saying(says), withTools), PATH, { ...body, stream: true })
      const frames = framesOf(text)
      expect(toolDeltas(frames)).toEqual([])
      expect(contentOf(frames)).toBe(content)
    }
  })

  it.each([
    ['an empty list', { tools: [] }, 400, '`tools` must not be an empty array'],
    ['"required"', { tools: [TOOL], tool_choice: 'required' }, 400, '`--tool-choice-required auto`'],
    [
      'one tool by name',
      { tools: [TOOL], tool_choice: { type: 'function', function: { name: 'weather' } } },
      400,
      'constrained',
    ],
    [
      'a tool that is not there',
      { tools: [TOOL], tool_choice: { type: 'function', function: { name: 'x' } } },
      400,
      'does not match',
    ],
    ['a choice without tools', { tool_choice: 'auto' }, 400, '`tools` must be set'],
    ['another choice', { tools: [TOOL], tool_choice: 'maybe' }, 400, 'Invalid value for `tool_choice`: maybe'],
  ])('as %s are refused by name', async (_, fields, status, message) => {
    const reply = await post(served(saying('x'), withTools), PATH, { messages: [USER], ...fields })
    expect(reply.status).toBe(status)
    expect(reply.json).toMatchObject({ error: { message: expect.stringContaining(message), code: status } })
  })

  it('are refused where the chat template shows none, with the way out, which shows them', async () => {
    const bare = orThrow(chatTemplate('{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}'))
    const text = { ...servedText, template: bare }
    const body = { messages: [USER], tools: [TOOL] }
    for (const features of [{}, withTools.features]) {
      const reply = await post(served(saying('x'), { text, features }), PATH, body)
      expect(reply.json).toMatchObject({
        error: { code: 400, message: expect.stringContaining('--tool-prompt hermes') },
      })
    }
    const engine = saying(CALL)
    const prompted = { ...servedText, template: withToolPrompt(bare, 'hermes') }
    const reply = await post(served(engine, { text: prompted, ...withTools }), PATH, body)
    expect(promptOf(engine)).toContain('"weather"')
    expect(choicesOf(reply.json)[0]).toMatchObject({ finish_reason: 'tool_calls' })
  })

  it('are refused where the model writes none', async () => {
    const reply = await post(served(saying('x')), PATH, { messages: [USER], tools: [TOOL] })
    expect(reply.status).toBe(400)
    expect(reply.json).toMatchObject({ error: { message: expect.stringContaining('--tool-call-parser') } })
  })
})

describe('the thoughts of an answer', () => {
  const THOUGHT = `<think>\nmaybe ${CALL.slice(5)}\n</think>\n\n`
  const thinking = { features: { toolCalls: 'hermes', thoughts: ['<think>', '</think>'] } } as const
  const body = { messages: [USER], tools: [TOOL] }

  /** The message of an answer, and that of a stream, whose deltas are joined. */
  const bothOf = async (says: string, options: Parameters<typeof served>[1], fields: object = {}) => {
    const { json } = await post(served(saying(says), options), PATH, { ...body, ...fields })
    const { text } = await post(served(saying(says), options), PATH, { ...body, ...fields, stream: true })
    const deltas = framesOf(text).flatMap((frame) => choicesOf(frame).map(({ delta }) => delta as Json))
    const joined = (key: string): string => deltas.map((delta) => String(delta[key] ?? '')).join('')
    const { content, reasoning, tool_calls: calls } = messageOf(json)
    const streamed = deltas.flatMap(({ tool_calls: each }) => (each as readonly Json[] | undefined) ?? [])
    expect([joined('content'), joined('reasoning')]).toEqual([content ?? '', reasoning ?? ''])
    expect(streamed).toHaveLength((calls as readonly Json[]).length)
    return { content, reasoning, calls: (calls as readonly Json[]).length }
  }

  it('are its reasoning, in which no calls are read, whole and streamed', async () => {
    const reasoning = `maybe ${CALL.slice(5)}`
    expect(await bothOf(`${THOUGHT}The answer is 4.`, thinking)).toEqual({
      ...{ content: 'The answer is 4.', reasoning, calls: 0 },
    })
    expect(await bothOf(`${THOUGHT}${CALL.slice(5)}`, thinking)).toEqual({ content: null, reasoning, calls: 1 })
    expect(await bothOf('<think>never closed', thinking)).toMatchObject({ content: '', reasoning: 'never closed' })
    const { json } = await post(served(saying(THOUGHT), thinking), PATH, body)
    expect(messageOf(json)).toMatchObject({ reasoning, reasoning_content: reasoning })
  })

  it('are found by the tags of the template, which may open them in the prompt', async () => {
    const source = `${servedText.template.source}{{ '' if '</think>' }}{{ '<think>\n' if add_generation_prompt }}`
    const text = { ...servedText, template: orThrow(chatTemplate(source)) }
    const says = `maybe ${CALL.slice(5)}</think>\n\n4`
    expect(await bothOf(says, { text, ...withTools })).toMatchObject({ content: '4', calls: 0 })
    const messages = [USER, { role: 'assistant', content: '<think>So' }]
    const fields = { messages, continue_final_message: true, add_generation_prompt: false }
    expect(await bothOf(says, { text, ...withTools }, fields)).toMatchObject({ content: '4', calls: 0 })
    const closed = [USER, { role: 'assistant', content: '<think>So</think>' }]
    const after = await bothOf('4', { text, ...withTools }, { ...fields, messages: closed })
    expect(after).toEqual({ content: '4', reasoning: null, calls: 0 })
  })

  it('are text where they are searched for calls, and of models without tags', async () => {
    const searched = { features: { toolCalls: 'hermes', thoughts: 'searched' } } as const
    expect(await bothOf(`${THOUGHT}4`, searched)).toMatchObject({ calls: 1, reasoning: null })
    const says = `${THOUGHT}4`
    expect(await bothOf(says, withTools)).toEqual({ content: says, reasoning: null, calls: 0 })
  })
})

describe('a stream of a chat', () => {
  it('begins with the role and adds up to the whole', async () => {
    const body = {
      messages: [USER],
      n: 2,
      seed: 5,
      logprobs: true,
      top_logprobs: 1,
      return_token_ids: true,
      max_tokens: 7,
    }
    const app = served(scripted())
    const { json } = await post(app, PATH, body)
    const { text } = await post(app, PATH, { ...body, stream: true, stream_options: { include_usage: true } })
    const frames = framesOf(text)
    expect(frames.slice(0, 2).map((frame) => choicesOf(frame)[0])).toMatchObject([
      { index: 0, delta: { role: 'assistant', content: '' } },
      { index: 1, delta: { role: 'assistant', content: '' } },
    ])
    expect(frames[0]!.prompt_token_ids).toEqual(json.prompt_token_ids)
    expect(frames.slice(1).every((frame) => !('prompt_token_ids' in frame))).toBe(true)
    for (const whole of choicesOf(json)) {
      const mine = frames
        .slice(2, -1)
        .flatMap(choicesOf)
        .filter(({ index }) => index === whole.index)
      const contents = mine.map(({ delta }) => (delta as { content?: string }).content ?? '') // the form of chunks
      expect(contents.join('')).toBe((whole.message as Json).content)
      expect(mine.flatMap((part) => part.token_ids)).toEqual(whole.token_ids)
      expect({
        content: mine.flatMap((part) => (part.logprobs as { content: unknown[] } | null)?.content ?? []),
      }).toEqual(whole.logprobs)
      expect(mine.at(-1)!.finish_reason).toBe(whole.finish_reason)
    }
    expect(frames.at(-1)).toMatchObject({ choices: [], usage: json.usage })
  })

  it('that fails is reported in a frame', async () => {
    const failure = { _tag: 'GenerationFailure', kind: 'internal', reason: 'oops' } as const
    const app = served(saying('abc', { fails: (_, t) => (t === 1 ? failure : undefined) }))
    const { text } = await post(app, PATH, { messages: [USER], stream: true })
    expect(framesOf(text).at(-1)).toMatchObject({ error: { message: 'oops', type: 'InternalServerError' } })
  })
})
