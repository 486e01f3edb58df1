/** Tools as text, for templates that show none. */
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { History, message, toolResult } from '../../src/history/history.js'
import { type ChatTemplate, chatTemplate, render, renderText, withToolPrompt } from '../../src/template/chatTemplate.js'
import { TOOL_CALL_FORMATS, toolCallFormatOf } from '../../src/toolCalls/format.js'
import { readToolCalls } from '../../src/toolCalls/reader.js'

const LOOP = (body: string): string =>
  `{% for message in messages %}${body}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
const PLAIN = LOOP('<{{ message.role }}>{{ message.content }}</s>')
const STRICT = LOOP(
  `{% if message.role not in ['user', 'assistant'] or (message.role == 'user') != (loop.index0 % 2 == 0) %}` +
    `{{ raise_exception('roles must alternate') }}{% endif %}<{{ message.role }}>{{ message.content }}</s>`,
)
const SHOWING = `{{ tools | tojson if tools }}${PLAIN}`
const LATE = LOOP(
  '<{{ message.role }}>{{ message.content }}{% if loop.last and tools %}{{ tools | tojson }}{% endif %}</s>',
)

const template = (source: string): ChatTemplate => orThrow(chatTemplate(source))

const TOOL = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Looks up the weather.',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}

const call = { id: 'c1', name: 'weather', arguments: { city: 'Oslo' } }
const TALK = History([
  message('user', 'How is it?'),
  message('assistant', 'Let me look.', { toolCalls: [call] }),
  toolResult(call, 'rain'),
])

describe('a chat template', () => {
  it.each([
    ['ignores tools', PLAIN, 'ignored'],
    ['shows them', SHOWING, 'shown'],
    ['shows them at the last message', LATE, 'shown'],
    [
      'shows them beside a system message only',
      `{% if messages[0].role == 'system' %}{{ tools }}{% endif %}${PLAIN}`,
      'shown',
    ],
    ['refuses every conversation', "{{ raise_exception('no') }}", 'shown'],
  ])('that %s is found by a probe', (_, source, expected) => {
    expect(template(source).tools).toBe(expected)
  })
})

describe('withToolPrompt', () => {
  it('describes the tools in a system message, and writes calls and results as text', () => {
    const text = orThrow(
      renderText(withToolPrompt(template(PLAIN), 'hermes'), TALK, { generationPrompt: 'add', tools: [TOOL] }),
    )
    expect(text).toMatch(/^<system># Tools\n/)
    expect(text).toContain(JSON.stringify(TOOL))
    expect(text).toContain('<tool_call>\n{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}\n</tool_call>')
    expect(text).toContain(
      '<user>How is it?</s><assistant>Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call></s>' +
        '<user><tool_response>\nrain\n</tool_response></s><assistant>',
    )
  })

  it('adds to the own system message of a conversation', () => {
    const history = History([message('system', 'Be brief.'), message('user', 'Hi')])
    const text = orThrow(
      renderText(withToolPrompt(template(PLAIN), 'hermes'), history, { generationPrompt: 'add', tools: [TOOL] }),
    )
    expect(text).toMatch(/^<system>Be brief\.\n\n# Tools\n/)
    expect(text.split('<system>')).toHaveLength(2)
  })

  it('uses the first message where a template refuses system messages, and one message for several results', () => {
    const calls = [call, { ...call, id: 'c2' }]
    const history = History([
      message('user', 'How is it?'),
      message('assistant', [], { toolCalls: calls }),
      ...calls.map((each) => toolResult(each, each.id)),
    ])
    const options = { generationPrompt: 'add', tools: [TOOL] } as const
    const text = orThrow(renderText(withToolPrompt(template(STRICT), 'hermes'), history, options))
    expect(text).toMatch(/^<user># Tools\n[\s\S]*<\/tool_response>\.\n\nHow is it\?<\/s>/)
    expect(text).toContain('<user><tool_response>\nc1\n</tool_response>\n<tool_response>\nc2\n</tool_response></s>')
    expect(
      orThrow(render(withToolPrompt(template(STRICT), 'hermes'), history, options)).spans.map((s) => s.message),
    ).toEqual([0, 1, 2, 4])
  })

  it('leaves conversations without tools as they are', () => {
    const history = History([message('user', 'Hi'), message('assistant', 'Ho')])
    for (const generationPrompt of ['add', 'omit', 'continue'] as const)
      expect(renderText(withToolPrompt(template(PLAIN), 'hermes'), history, { generationPrompt })).toEqual(
        renderText(template(PLAIN), history, { generationPrompt }),
      )
  })

  it('has spans of the messages of the conversation, in every format, from which the calls are read back', () => {
    const text = fc.string({ maxLength: 6 }).map((each) => each.replaceAll(/[^a-z ]/g, ''))
    const law = fc.property(
      fc.constantFrom(...TOOL_CALL_FORMATS),
      fc.array(fc.record({ city: text, say: text }), { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      (format, turns, hasSystem) => {
        const prompted = withToolPrompt(template(PLAIN), format)
        expect(toolCallFormatOf(prompted)).toBe(format)
        const messages = [
          ...(hasSystem ? [message('system', 'Be brief.')] : []),
          message('user', 'How is it?'),
          ...turns.flatMap(({ city, say }, i) => {
            const each = { id: `call${i}abcd`.slice(0, 9), name: 'weather', arguments: { city } }
            return [
              message('assistant', format === 'json_call' ? '' : say, { toolCalls: [each] }),
              toolResult(each, 'rain'),
            ]
          }),
        ]
        const rendered = render(prompted, History(messages), { generationPrompt: 'add', tools: [TOOL] })
        const { text: whole, spans } = orThrow(rendered)
        expect(spans.map(({ message: at }) => at)).toEqual([...messages.keys(), messages.length])
        for (const { start, end, message: at, role } of spans.slice(0, -1)) {
          expect(role).toBe(messages[at]!.role)
          if (role !== 'assistant') continue
          const body = whole
            .slice(start, end)
            .replace(/^<assistant>/, '')
            .replace(/<\/s>$/, '')
          const [{ name, arguments: args }] = messages[at]!.toolCalls as readonly [typeof call]
          if (format === 'llama3_json' || format === 'pythonic' || format === 'llama4_pythonic') continue // the whole answer
          const read = readToolCalls(body, format, { tools: [TOOL] })
          expect(read.calls.map((each) => [each.name, JSON.parse(each.arguments)])).toEqual([[name, args]])
        }
      },
    )
    fc.assert(law)
  })

  it('refuses calls that the format cannot express', () => {
    const history = History([message('assistant', '', { toolCalls: [{ name: 'not a name', arguments: {} }] })])
    const result = renderText(withToolPrompt(template(PLAIN), 'pythonic'), history, { generationPrompt: 'omit' })
    expect(E.isLeft(result) && result.left.reason).toContain('cannot be written as a name')
  })
})
