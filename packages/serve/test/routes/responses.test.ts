/** `/v1/responses` of `serveApp`: OpenAI's form of requests, answers, streams and errors. */
import { orThrow } from '@tandem-rl/base'
import { chatTemplate } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { type Json, post, saying, scripted, served, servedText, tokenizer } from '../../../../test/kit/served.js'

const PATH = '/v1/responses'
const TOOL = { type: 'function', name: 'weather', parameters: { type: 'object' } }
const withTools = { features: { toolCalls: 'hermes' } } as const
const CALL = 'Look:<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'

describe('a response', () => {
  it('has the form of OpenAI, whole and at the end of a stream', async () => {
    const ask = (stream: boolean) =>
      post(served(saying(CALL), withTools), PATH, { model: 'cat', input: 'hi', tools: [TOOL], stream })
    const whole = (await ask(false)).json
    expect(whole).toMatchObject({
      ...{ object: 'response', status: 'completed', error: null, incomplete_details: null },
      output: [
        { type: 'message', content: [{ type: 'output_text', text: 'Look:' }] },
        { type: 'function_call', name: 'weather', arguments: '{"city": "Oslo"}', status: 'completed' },
      ],
    })
    const frames = (await ask(true)).text.split('\n\n').filter((frame) => frame !== '')
    const events = frames.map((frame) => JSON.parse(frame.split('\ndata: ')[1]!) as Json) // frames are objects
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i))
    expect(events[0]!.type).toBe('response.created')
    expect(events.at(-1)).toEqual({ type: 'response.completed', sequence_number: events.length - 1, response: whole })
  })

  it('has thoughts as an item of its own, whole and streamed, which a conversation keeps', async () => {
    const engine = scripted({ says: () => '<think>hm</think>Four.', maxModelLength: 2048 })
    const shown = servedText.template.source.replace('{%- if message.content', '{{ message.reasoning_content }}$&')
    const text = { ...servedText, template: orThrow(chatTemplate(`${shown}{{ '' if '</think>' }}`)) }
    const app = served(engine, { ...withTools, text })
    const whole = (await post(app, PATH, { input: 'hi' })).json
    expect(whole.output).toMatchObject([
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hm' }] },
      { type: 'message', content: [{ type: 'output_text', text: 'Four.' }] },
    ])
    const { text: streamed } = await post(app, PATH, { input: 'hi', stream: true })
    const deltas = [...streamed.matchAll(/event: response\.reasoning_text\.delta\ndata: .*?"delta":"(\w*)"/g)]
    expect(deltas.map(([, delta]) => delta).join('')).toBe('hm')
    expect(streamed).toMatch(/event: response\.reasoning_text\.done\ndata: .*"text":"hm"/)
    await post(app, PATH, { input: 'and?', previous_response_id: whole.id })
    expect(tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')).toContain('assistant\nhmFour.')
  })

  it('continues from a stored response and its items; unknown ones are refused', async () => {
    const engine = scripted({ says: () => CALL, maxModelLength: 2048 })
    const app = served(engine, withTools)
    const first = (await post(app, PATH, { input: 'hi', tools: [TOOL] })).json
    const output = first.output as readonly Json[] // as a response has it
    const result = { type: 'function_call_output', call_id: output[1]!.call_id, output: 'rain' }
    await post(app, PATH, { input: [result], previous_response_id: first.id, tools: [TOOL] })
    const stored = tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')
    const items = [{ role: 'user', content: 'hi' }, ...output.map(({ id }) => ({ type: 'item_reference', id })), result]
    await post(app, PATH, { input: items, tools: [TOOL] })
    expect(tokenizer.decode(engine.seen.at(-1)!.prompt, 'keep')).toBe(stored)
    expect(stored).toContain('tool\nrain')
    expect((await post(app, PATH, { input: 'x', previous_response_id: 'resp_no' })).status).toBe(404)
    expect((await post(app, PATH, { input: [{ type: 'item_reference', id: 'no' }] })).status).toBe(404)
  })

  it('that cannot be is refused with the place', async () => {
    const app = served(saying('x'), withTools)
    const refused = [
      [{ input: [{ role: 'user', content: [{ type: 'input_image' }] }] }, 'input.0.content.0'],
      [{ input: 'x', tools: [{ type: 'web_search' }] }, 'tools.0'],
      [{ input: 'x', text: { format: { type: 'json_schema' } } }, 'text.format'],
      [{ input: [{ type: 'computer_call' }] }, 'input.0'],
    ] as const
    for (const [body, param] of refused) {
      const { status, json } = await post(app, PATH, body)
      expect([status, json.error]).toMatchObject([400, { param }])
    }
    const cut = (await post(served(saying('x'.repeat(50))), PATH, { input: 'x', max_output_tokens: 4 })).json
    expect(cut).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
  })
})
