/** Templates beyond the golden files: errors, limits, and unsupported features. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { strftime } from '../../src/jinja/strftime.js'
import { compileTemplate } from '../../src/jinja/template.js'
import { type TemplateValue, toValue } from '../../src/jinja/value.js'

const run = (source: string, values: Readonly<Record<string, unknown>> = {}): string =>
  compileTemplate(source)({
    variables: new Map(Object.entries(values).map(([name, json]): [string, TemplateValue] => [name, toValue(json)])),
  }).text

describe('refusals are those of Python', () => {
  it.each([
    ['{{ missing.field }}', "'missing' is undefined"],
    ['{{ missing() }}', "'missing' is undefined"],
    ["{{ 'a' + 1 }}", "unsupported operand types for +: 'str' and 'int'"],
    ['{{ none + 1 }}', "'NoneType' and 'int'"],
    ["{{ 1 in 'a' }}", 'requires string, not int'],
    ["{{ 1 < 'a' }}", 'have no order'],
    ['{{ 1 / 0 }}', 'division by zero'],
    ['{% for x in 5 %}{% endfor %}', "'int' object is not iterable"],
    ['{% set a.b = 1 %}', 'cannot assign attribute on non-namespace object'],
    ['{{ [1].append(2) }}', 'not safely callable'],
    ['{{ {}.update({}) }}', 'not safely callable'],
    ["{{ 'x' | shout }}", "No filter named 'shout'"],
    ['{{ 1 is strange }}', "No test named 'strange'"],
    ['{{ missing | tojson }}', 'Undefined is not JSON serializable'],
    ["{{ 'abc'.split('') }}", 'empty separator'],
    ["{{ raise_exception('no ' ~ 1) }}", 'no 1'],
    ["{{ strftime_now('%Y') }}", "'strftime_now' is undefined"],
    ["{{ '%d' % 'x' }}", "'%d' is not a supported conversion of a str"],
  ])('%s', (source, message) => {
    expect(() => run(source, { a: {} })).toThrow(message)
  })
})

describe('`safe` and `escape`, as Jinja 3.1.6 with MarkupSafe 3.0.3 renders them', () => {
  it.each([
    ['{{ x|safe }}', '<a>'],
    ["{{ (x|safe) + '<end>' }}", '<a>&lt;end&gt;'],
    ["{{ '<start>' + (x|safe) }}", '&lt;start&gt;<a>'],
    ['{{ (x|safe) + (x|safe) }}', '<a><a>'],
    ["{{ (x|safe) ~ '<end>' }}", '<a><end>'],
    ["{% set y = x|safe %}{{ y + '</s>' }}", '<a>&lt;/s&gt;'],
    ["{{ (x|safe) + x + '&' }}", '<a>&lt;a&gt;&amp;'],
    ["{{ (x|safe|upper) + '<' }}", '<A>&lt;'],
    ["{{ (x|safe|trim) + '<' }}", '<a>&lt;'],
    ["{{ (x|safe|string) + '<' }}", '<a>&lt;'],
    ["{{ (x|safe|lower) + '<' }}", '<a>&lt;'],
    ["{{ (x|safe|capitalize) + '<' }}", '<a>&lt;'],
    ["{{ (x|safe|default('')) + '<' }}", '<a>&lt;'],
    ["{{ (x|e) + '<' }}", '&lt;a&gt;&lt;'],
    ['{{ x|e|e }}', '&lt;a&gt;'],
    ['{{ x|escape|safe|escape }}', '&lt;a&gt;'],
    ['{{ x|e|forceescape }}', '&amp;lt;a&amp;gt;'],
    ["{{ (x|safe if true else x) + '<' }}", '<a>&lt;'],
    ["{{ (x|safe or '') + '<' }}", '<a>&lt;'],
    ["{{ ((x|safe) + '<') + '>' }}", '<a>&lt;&gt;'],
    ["{{ (x|safe|replace('a', '<')) + '<' }}", '<<><'],
    ["{{ (x|safe|title) + '<' }}", '<A><'],
    ["{{ [x|safe, '<']|join('>') }}", '<a>><'],
  ])('%s', (source, text) => {
    expect(run(source, { x: '<a>' })).toBe(text)
  })
})

describe('limits', () => {
  it.each([
    ['a range', '{{ range(1000000000) }}', /Range too big/],
    ['a repeated string', "{{ 'abc' * 1000000000 }}", /too long/],
    ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', /call stack/],
  ])('%s without end is refused', (_, source, message) => {
    expect(() => run(source)).toThrow(message)
  })

  it('any source is run or refused with an error, and does not reach the objects of JavaScript', () => {
    expect(
      run("{{ x.constructor }}{{ x['__proto__'] }}{{ 'a'.constructor }}{{ [].constructor }}{{ x.toString }}", {
        x: {},
      }),
    ).toBe('')
    const pieces = fc.constantFrom(
      '{{',
      '}}',
      '{%',
      '%}',
      ' if ',
      ' for ',
      'x',
      ' in ',
      'end',
      '(',
      ')',
      '[',
      ']',
      '|',
      '.',
      "'",
      '1',
      ' is ',
      'sameas ',
      'generation',
      '-',
      '~',
    )
    const law = fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      try {
        expect(typeof run(parts.join(''), { x: [1] })).toBe('string')
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
      }
    })
    fc.assert(law, { numRuns: 500 })
  })
})

describe('raw blocks', () => {
  /** Printed by Jinja 3.1.6 with trimmed blocks and `x` 1. */
  it.each([
    ['{% raw %}{{ x }}{% endraw %}', '{{ x }}'],
    ['a\n  {% raw %}\n b\n {% endraw %}\n c', 'a\n\n b\n c'],
    ['{%+ raw %}\t{% endraw -%}', '\t'],
    ['{{ "}" }}{%- raw %}{%- raw %}\'%{% endif %}{% endraw %}', "}{%- raw %}'%{% endif %}"],
    ["{%- raw -%}{{ 1 }}{%+ raw %}{%+ raw %}}{{'{%- endraw %}", "{{ 1 }}{%+ raw %}{%+ raw %}}{{'"],
    ['{{ 1 }}{# c #}{% raw %}%{{{%- endraw -%}', '1%{{'],
    ['{%- raw -%}{% raw %}{% endraw -%}}\n', '{% raw %}}'],
    ['\n  {% raw -%}{%- if x %}  %{% endraw +%}\t', '\n{%- if x %}  %\t'],
    ['{% raw -%} \\n {%- endraw %}', '\\n'],
    ['{# {% raw %} #}{{ x }}', '1'],
    ['{% if x %}{% raw %}{% generation %}{% endraw %}{% endif %}', '{% generation %}'],
  ])('%j prints %j', (source, text) => {
    expect(compileTemplate(source)({ variables: new Map([['x', 1]]) }).text).toBe(text)
  })
})

describe('values as Python has them', () => {
  it.each([
    ["{{ none | selectattr('a') | list }}", '[]'],
    ["{{ none | rejectattr('a', 'equalto', 1) | list }}", '[]'],
    ["{{ (none | select('odd') | list) + (none | reject('odd') | list) + (0 | map('upper') | list) }}", '[]'],
    ["{{ none | map(attribute='a') | list }}", '[]'],
    ["{{ ' a  b c '.split(none, 1) }}", "['a', 'b c ']"],
    ["{{ 'a b '.split(none, 5) }}", "['a', 'b']"],
    ["{{ ' a  b c '.rsplit(none, 1) }}", "[' a  b', 'c']"],
    ["{{ ' a b'.rsplit(none, 0) }}", "[' a b']"],
    ["{{ ' a b '.split(none, 0) }}", "['a b ']"],
  ])('%s prints %s', (source, text) => {
    expect(compileTemplate(source)({ variables: new Map() }).text).toBe(text)
  })
})

describe('scopes', () => {
  it.each([
    [
      'a name that a loop sets is gone in the next turn',
      '{% for i in [1, 2] %}{{ x | default("-") }}{% set x = i %}{% endfor %}{{ x | default("-") }}',
      '---',
    ],
    [
      'a macro sees the names around it and keeps its own',
      '{% set a = 1 %}{% macro f(b) %}{% set c = b %}{{ a }}{{ b }}{% endmacro %}{% set a = 2 %}{{ f(3) }}{{ c | default("-") }}',
      '23-',
    ],
    [
      'break and continue keep what was written before them',
      '{% for i in range(5) %}{{ i }}{% if i == 1 %}{% continue %}{% endif %}.{% if i == 2 %}{% break %}{% endif %}{% endfor %}',
      '0.12.',
    ],
    [
      'a call block gives its body to the macro',
      '{% macro f(n) %}<{{ caller(n) }}>{% endmacro %}{% call(x) f(4) %}{{ x + 1 }}{% endcall %}',
      '<5>',
    ],
    [
      'a dict has its methods before its entries with a dot, and after them in brackets',
      "{{ d['items'] }}{{ d.get('keys') }}{{ d.items() | list | length }}",
      '122',
    ],
  ])('%s', (_, source, text) => {
    expect(run(source, { d: { items: 1, keys: 2 } })).toBe(text)
  })
})

describe('strftime', () => {
  it('tells a moment of the morning, of noon and of the last day of a year', () => {
    const at = (...[y, m, d, h]: readonly [number, number, number, number]): Date => new Date(Date.UTC(y, m, d, h))
    expect(strftime(at(2024, 0, 1, 0), '%a %A %b %B %d %-d %e %I %p %u %w')).toBe(
      'Mon Monday Jan January 01 1  1 12 AM 1 1',
    )
    expect(strftime(at(2023, 11, 31, 12), '%j %y %Y-%m-%-m %H %I %p %u %w %%')).toBe('365 23 2023-12-12 12 12 PM 7 0 %')
    expect(strftime(at(2024, 6, 4, 15), '%F %T %R %D %x %X %c %S %f %M %-H %-I%Z%z')).toBe(
      '2024-07-04 15:00:00 15:00 07/04/24 07/04/24 15:00:00 Thu Jul  4 15:00:00 2024 00 000000 00 15 3',
    )
    expect(() => strftime(at(2024, 0, 1, 0), '%Q')).toThrow("unknown directive '%Q'")
  })
})
