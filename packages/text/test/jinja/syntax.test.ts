/**
 * The grammar, against Python's: small templates written by hand, and expressions drawn at random.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { compileTemplate } from '../../src/jinja/template.js'
import { type TemplateValue, toValue } from '../../src/jinja/value.js'

interface Golden {
  readonly jinja2: string
  readonly values: Readonly<Record<string, unknown>>
  /** A template, and its text in Python; null where Python refuses. */
  readonly cases: readonly (readonly [string, string | null])[]
}

const golden = JSON.parse(readFileSync('test/golden/chatTemplates/syntax.json', 'utf8')) as Golden // written by the generator

const variables = new Map(
  Object.entries(golden.values).map(([name, json]): [string, TemplateValue] => [name, toValue(json)]),
)

/** The text of a template, or null where it is refused. */
const textOf = (source: string): string | null => {
  try {
    return compileTemplate(source)({ variables }).text
  } catch (error) {
    if (error instanceof SyntaxError || (error instanceof Error && error.name === 'TemplateError')) return null
    throw error
  }
}

describe('the grammar of templates', () => {
  it('groups and refuses as Python does, in every case that Python was given', () => {
    expect(golden.jinja2).toBe('3.1.6')
    expect(golden.cases.length).toBeGreaterThan(600)
    expect(golden.cases.filter(([, text]) => text === null).length).toBeGreaterThan(100)
    const ours = golden.cases.map(([source]): readonly [string, string | null] => [source, textOf(source)])
    expect(ours).toEqual(golden.cases)
  })

  it.each([
    ['{% for a in [1] recursive %}{% endfor %}', "a loop that is 'recursive' is not supported"],
    ['{% with a = 1 %}{% endwith %}', "the statement 'with' is unknown, or not supported here"],
    ['{% raw %}{{ 1 }}', "a 'raw' block has no 'endraw'"],
    ['{% include "a" %}', "the statement 'include' is unknown, or not supported here"],
    ['{{ 1e5 }}', "expected CloseExpression, found 'e5'"],
    ['{% for a in [1] %}{% set b %}{% break %}{% endset %}{% endfor %}', "'break' is not directly in a loop"],
    ['{{ [1, 2][] }}', "expected an index, found '}}'"],
    ['{{ {(1, 2): 5} }}', 'a tuple as a key is not supported'],
  ])('refuses by name what Python takes and we do not: %s', (source, reason) => {
    expect(() => compileTemplate(source)({ variables })).toThrow(reason)
  })
})
