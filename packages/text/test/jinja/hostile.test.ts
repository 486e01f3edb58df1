import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { compileTemplate } from '../../src/jinja/template.js'
import { toValue } from '../../src/jinja/value.js'
import { chatTemplate } from '../../src/template/chatTemplate.js'

const run = (source: string, variables: object = {}): string =>
  compileTemplate(source)({
    variables: new Map(Object.entries(variables).map(([name, value]) => [name, toValue(value)])),
  }).text

const doubling = (first: string, step: (i: number) => string, last: string, levels = 60): string =>
  [first, ...Array.from({ length: levels }, (_, i) => step(i)), last].join('')

const nested = (levels: number, body: string): string =>
  `${'{% for i in range(100000) %}'.repeat(levels)}${body}${'{% endfor %}'.repeat(levels)}`

/** Small templates with disproportionate work. */
const BOMBS: readonly (readonly [name: string, source: string])[] = [
  ['nested loops', nested(3, 'x')],
  ['nested loops that write nothing', nested(3, '')],
  ['loops with a condition', '{% for i in range(100000) if range(100000) | sum == 1 %}{% endfor %}'],
  [
    'macros that call the one before twice',
    doubling(
      '{% macro m0() %}{% endmacro %}',
      (i) => `{% macro m${i + 1}() %}{{ m${i}() }}{{ m${i}() }}{% endmacro %}`,
      '{{ m60() }}',
    ),
  ],
  ['text that doubles', doubling("{% set x = 'a' %}", () => '{% set x = x ~ x %}', '{{ x | upper }}')],
  ['text that doubles by addition', doubling("{% set x = 'a' %}", () => '{% set x = x + x %}', '{{ x }}')],
  ['text that doubles in a block', doubling("{% set x = 'a' %}", () => '{% set x %}{{ x }}{{ x }}{% endset %}', '')],
  ['given text that doubles', doubling('{% set x = given %}', () => "{% set x = x ~ 'b' ~ x %}", '{{ x }}')],
  ['lists that contain each other, printed', doubling("{% set x = ['a'] %}", () => '{% set x = [x, x] %}', '{{ x }}')],
  [
    'lists that contain each other, as JSON',
    doubling("{% set x = ['a'] %}", () => '{% set x = [x, x] %}', '{{ x | tojson }}'),
  ],
  [
    'dicts that contain each other',
    doubling('{% set x = {} %}', () => "{% set x = {'a': x, 'b': x} %}", '{{ x | tojson(indent=4) }}'),
  ],
  [
    'lists that contain each other, compared',
    doubling(
      "{% set x = ['a'] %}{% set y = ['a'] %}",
      () => '{% set x = [x, x] %}{% set y = [y, y] %}',
      '{{ x == y }}',
    ),
  ],
  [
    'lists with given text that contain each other',
    doubling(
      "{% set x = [given, 'a'] %}",
      () => '{% set x = [x, x, given][0:2] %}',
      "{{ x | first | first | join('b') }}",
    ),
  ],
  [
    'values whose origin doubles',
    doubling("{% set x = [given, 'a'] %}", () => '{% set x = [x, x][0] %}', '{{ x | join }}'),
  ],
  ['lists that double', doubling('{% set x = [1] %}', () => '{% set x = x + x %}', '{{ x | length }}')],
  ['a replacement that grows', doubling("{% set x = 'aa' %}", () => "{% set x = x.replace('a', x) %}", '{{ x }}')],
  ['joins that grow', doubling("{% set x = 'aa' %}", () => '{% set x = x.join([x, x, x]) %}', '{{ x }}')],
  ['a format that grows', doubling("{% set x = 'aa' %}", () => "{% set x = '{0}{0}{0}'.format(x) %}", '{{ x }}')],
  ['old formats that grow', doubling("{% set x = 'aa' %}", () => "{% set x = '%s%s' % (x, x) %}", '{{ x }}')],
  [
    'an indentation of indentations',
    doubling("{% set x = 'a\\n' * 9 %}", () => '{% set x = x | indent(x) %}', '{{ x }}'),
  ],
  ['JSON with a long indentation', "{{ ([[[1]]] * 1000) | tojson(indent=' ' * 9000000) }}"],
  ['repetitions', "{% for i in range(100000) %}{% set x = 'a' * 9999999 %}{% endfor %}"],
  ['unequal items of a long list', '{{ range(100000) | unique | list | length }}'],
  [
    'parts of texts that are looked for',
    "{% for i in range(100000) %}{% set x = given.split('') | length %}{% set y = (given ~ i) in (given ~ 'b' ~ i) %}{% endfor %}",
  ],
  ['a macro that calls itself', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}'],
]

describe('a hostile template', () => {
  it.each(BOMBS)('with %s ends with a failure', (_, source) => {
    expect(() => run(source, { given: 'some text that was given' })).toThrow(
      /steps of work|call stack|too long|separator/,
    )
  })

  it('is a TemplateFailure for those who render it', () => {
    const template = chatTemplate(nested(3, 'x'))
    expect(E.isRight(template)).toBe(true)
    if (E.isLeft(template)) return
    expect(template.right.run([{ role: 'user', content: 'a' }], { generationPrompt: 'add' })).toMatchObject({
      left: { _tag: 'TemplateFailure', reason: expect.stringContaining('steps of work') },
    })
  })

  it.each([
    ['of 50 MB', 'a'.repeat(5e7), 'more than 262144 characters'],
    ['with blanks that the lexer is slow in', `${' '.repeat(2e5)}{%- if`, 'more than 500 blanks in a row'],
    ['of open expressions', '{{'.repeat(1e5), ''],
    ['of open tags', '{%-'.repeat(8e4), ''],
    ['of open comments', '{#'.repeat(1e5), ''],
    ['of open raw blocks', '{% raw %}'.repeat(2e4), "a 'raw' block has no 'endraw'"],
    ['of brackets', `{{ ${'('.repeat(2e5)}`, ''],
    ['of signs', `{{ ${'- '.repeat(1e5)}1 }}`, ''],
    ['of conditions in conditions', '{% if x %}'.repeat(2e4), ''],
    ['of blanks and tags', `${' '.repeat(499)}{%- a`.repeat(500), ''],
  ])('%s is refused', (_, source, reason) => {
    const template = chatTemplate(source)
    expect(template).toMatchObject({ left: { _tag: 'TemplateFailure', reason: expect.stringContaining(reason) } })
  })

  it('does not limit long conversations: the budget grows with what is given', () => {
    const messages = Array.from({ length: 3000 }, (_, i) => ({
      role: i % 2 === 0 ? 'user' : 'assistant',
      content: `text ${i}`,
    }))
    const source =
      "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' and not (m.content.startswith('<tool') and m.content.endswith('tool>')) %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}" +
      "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m.content.split('</think>')[-1].lstrip('\\n') | trim }}{% if loop.index0 > ns.last %}{{ m | tojson }}{% endif %}{% endfor %}"
    expect(run(source, { messages }).length).toBeGreaterThan(30_000)
    expect(
      run('{% for m in messages %}{{ m.content }}{% endfor %}', { messages: [{ content: 'x'.repeat(2e6) }] }).length,
    ).toBe(2e6)
  })
})
