import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { ownTemplate } from '../../../../test/kit/ownTemplates.js'
import { type ContentPart, History, message } from '../../src/history/history.js'
import { chatTemplate, type RenderOptions, renderText } from '../../src/template/chatTemplate.js'
import { templateSource } from '../../src/template/named.js'

const options: RenderOptions = { generationPrompt: 'omit' }
const image: ContentPart = { type: 'image', source: { url: 'https://a.b/c.png' } }
const picture = History([message('user', [{ type: 'text', text: 'See ' }, image, { type: 'text', text: '!' }])])
const text = (source: string, history: History, more: Partial<RenderOptions> = {}): string =>
  orThrow(renderText(orThrow(chatTemplate(source)), history, { ...options, ...more }))

describe('the form of contents', () => {
  it.each([
    ['chatml', 'text'],
    ['turns', 'text or parts'],
    ['parts', 'parts'],
    ['printing', 'text'],
  ])('of %s is %s', (name, form) => {
    expect(ownTemplate(name).contentForm).toBe(form)
  })

  it('parts reach a template that goes through them, in order', () => {
    expect(orThrow(renderText(ownTemplate('parts'), picture, options))).toBe('User: See <image 1>!<end>\n')
    expect(orThrow(renderText(ownTemplate('turns'), picture, options))).toContain('See<start_of_image>!')
  })

  it('an image is refused by a template of text, and text parts are joined for it', () => {
    const failure = renderText(ownTemplate('chatml'), picture, options)
    expect(failure).toMatchObject({
      left: { reason: 'message 0 has an image, and the chat template accepts only text' },
    })
    const split = History([
      message('user', [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ]),
    ])
    expect(orThrow(renderText(ownTemplate('chatml'), split, options))).toContain('\nab<|im_end|>')
  })

  describe('of videos and files', () => {
    const vision = `{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}
{%- for p in m.content %}{% if p.type == 'video' %}<video {{ p.url or p.base64 }}>{% elif p.type == 'file' %}<file {{ p.name }}>
{%- else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{{ '\n' }}{% endfor %}`
    const said: ContentPart = { type: 'text', text: 'See ' }
    const video: ContentPart = { type: 'video', source: { url: 'https://a.b/c.mp4' } }
    const file: ContentPart = { type: 'file', source: { base64: 'AAAA', mediaType: 'application/pdf' }, name: 'a.pdf' }
    const asked = (...parts: readonly ContentPart[]) => History([message('user', parts)])

    it('they reach a template that goes through its parts', () => {
      expect(text(vision, asked(said, video, file))).toBe('user: See <video https://a.b/c.mp4><file a.pdf>\n')
    })

    it.each([
      ['a video', video],
      ['a file', file],
      ['a sound', { type: 'audio', source: { url: 'https://a.b/c.wav' } } satisfies ContentPart],
    ])('%s is refused by a template of text, and by one of parts that writes nothing for it', (what, part) => {
      const reasonOf = (source: string) =>
        renderText(orThrow(chatTemplate(source)), asked(said, part), { generationPrompt: 'omit' })
      expect(reasonOf('{% for m in messages %}{{ m.content + "" }}{% endfor %}')).toMatchObject({
        left: { reason: `message 0 has ${what}, and the chat template accepts only text` },
      })
      expect(
        reasonOf('{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}'),
      ).toMatchObject({
        left: { reason: `message 0 has ${what}, which the chat template does not render` },
      })
    })
  })

  it('thoughts are given under the name that the template reads', () => {
    const history = History([message('assistant', 'x', { reasoning: 'why' })])
    expect(text('{{ messages[0].thinking }}', history)).toBe('why')
    expect(text('{{ messages[0].reasoning_content }}{{ messages[0].thinking }}', history)).toBe('why')
  })
})

describe('options', () => {
  const one = History([message('user', 'Hi')])

  it('variables of the rendering win over those of the template, and neither over the conversation', () => {
    const template = orThrow(chatTemplate('{{ a }}{{ b }}{{ messages | length }}', { a: 1, b: 2 }))
    expect(orThrow(renderText(template, one, { ...options, variables: { b: 3, messages: [] } }))).toBe('131')
  })

  it('the date is the one that is given; without one the function is not there', () => {
    const source = "{% if strftime_now is defined %}{{ strftime_now('%d %B %y %H:%M %j') }}{% else %}none{% endif %}"
    expect(text(source, one)).toBe('none')
    expect(text(source, one, { now: new Date(Date.UTC(2024, 1, 29, 23, 5)) })).toBe('29 February 24 23:05 060')
  })

  it('tools and documents are None where there are none', () => {
    expect(text('{{ tools }}{{ documents }}', one)).toBe('NoneNone')
    expect(text('{{ tools[0].name }}', one, { tools: [{ name: 'add' }] })).toBe('add')
  })
})

describe('a message to be continued', () => {
  it('ends the text with its own text', () => {
    const history = History([message('user', 'a'), message('assistant', 'The answer', { isComplete: false })])
    const result = orThrow(renderText(ownTemplate('chatml'), history, { generationPrompt: 'continue' }))
    expect(result.endsWith('<|im_start|>assistant\nThe answer')).toBe(true)
  })

  it.each([
    ['without a message', '{{ messages }}', History([]), /no text to continue/],
    [
      'of an image',
      '{% for p in messages[0].content %}{{ p.text or p.type }}{% endfor %}',
      History([message('user', [image])]),
      /no text to continue/,
    ],
    [
      'that the template does not show',
      'x',
      History([message('user', 'a')]),
      /does not show the text of the last message/,
    ],
    [
      'that is shown by its end',
      '{{ messages[0].content | trim | last | tojson }}{{ messages[0].content }}',
      History([message('user', 'a')]),
      /depends on the text after it/,
    ],
  ])('is refused %s', (_, source, history, reason) => {
    const failure = renderText(orThrow(chatTemplate(source)), history, { generationPrompt: 'continue' })
    expect(E.isLeft(failure) ? failure.left.reason : failure.right).toMatch(reason)
  })
})

describe('templateSource', () => {
  const several = {
    chat_template: [
      { name: 'default', template: 'd' },
      { name: 'tool_use', template: 't' },
    ],
    bos_token: { content: '<s>', lstrip: false },
    eos_token: null,
  }

  it.each([
    [{}, 'd'],
    [{ tools: [] }, 't'],
    [{ name: 'tool_use' }, 't'],
    [{ file: 'f' }, 'f'],
  ])('with %j is %s', (choice, source) => {
    expect(templateSource(several, choice)).toEqual(E.right({ source, variables: { bos_token: '<s>' } }))
  })

  it.each([
    [several, { name: 'rag' }, "no chat template 'rag'; the model has 'default', 'tool_use'"],
    [{ chat_template: 'x' }, { name: 'rag' }, "no chat template 'rag'; the model has 'default'"],
    [
      {},
      {},
      'the model has no chat template: add chat_template.jinja to its folder, or load it with fallbackFormat, such as CHAT_ML or PLAIN_CHAT',
    ],
    [{ chat_template: [] }, {}, "no chat template 'default'; the model has none"],
  ])('of %j with %j is refused', (config, choice, reason) => {
    expect(templateSource(config, choice)).toEqual(E.left({ _tag: 'TemplateFailure', reason }))
  })

  it('knows the files of further templates by their names', () => {
    const choice = { file: 'f', others: { rag: 'r', tool_use: 't' } }
    const sourceOf = (more: object) => orThrow(templateSource(several, { ...choice, ...more })).source
    expect([sourceOf({}), sourceOf({ name: 'rag' }), sourceOf({ tools: [] })]).toEqual(['f', 'r', 't'])
  })

  it('gives every special token that has a name, as Transformers gives them to templates', () => {
    const config = {
      chat_template: 'x',
      bos_token: null,
      cls_token: '[CLS]',
      mask_token: { content: '[MASK]' },
      image_token: '<image>',
      add_bos_token: true,
      extra_special_tokens: { audio_token: '<audio>' },
    }
    const { variables } = orThrow(templateSource(config))
    expect(variables).toEqual({
      cls_token: '[CLS]',
      mask_token: '[MASK]',
      image_token: '<image>',
      audio_token: '<audio>',
    })
    expect(orThrow(templateSource({ chat_template: 'x', extra_special_tokens: ['<a>'] })).variables).toEqual({})
  })

  it('reports every problem of a config', () => {
    const failure = templateSource({ chat_template: 5, bos_token: 7 })
    expect(E.isLeft(failure) && failure.left.reason).toMatch(
      /chat_template[\s\S]*bos_token|bos_token[\s\S]*chat_template/,
    )
  })
})
