import fc from 'fast-check'
import { left, right } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { parseYaml } from '../../../src/data/codecs/yamlText.js'

describe('parseYaml', () => {
  it('returns the data that was written, as YAML and as JSON', async () => {
    const value = fc.jsonValue({ maxDepth: 4 }).map((json) => JSON.parse(JSON.stringify(json)) as never)
    const law = fc.asyncProperty(value, async (data) => {
      fc.pre(!JSON.stringify(data).includes('__proto__'))
      expect(await parseYaml(stringify(data))).toEqual(right(data))
      expect(await parseYaml(JSON.stringify(data))).toEqual(right(data))
    })
    await fc.assert(law, { numRuns: 50 })
  })

  it('resolves anchors and aliases to copies', async () => {
    const parsed = await parseYaml('a: &a { x: 1 }\nb: *a\nc: { <<: *a, y: 2 }\n')
    expect(parsed).toEqual(right({ a: { x: 1 }, b: { x: 1 }, c: { '<<': { x: 1 }, y: 2 } }))
  })

  it.each([
    ['an alias inside its own anchor', 'a: &a\n  b: *a\n', 'nested deeper than 64 levels'],
    ['a list inside itself', '&a [*a, *a]', 'nested deeper than 64 levels'],
    ['deep lists', '['.repeat(100_000), 'not YAML'],
    [
      'too many aliases',
      `a: &a [${'1,'.repeat(99)}]\nb: &b [${'*a,'.repeat(99)}]\nc: [${'*b,'.repeat(99)}]`,
      'not YAML',
    ],
    ['the prototype as a key', '__proto__:\n  polluted: true\n', "the key '__proto__' is not allowed"],
    ['the prototype in a list', '- a: { __proto__: [1] }\n', "the key '__proto__' is not allowed"],
    ['a key that occurs twice', 'a: 1\nb:\n  c: 1\n  c: 2\n', "the key 'c' occurs twice"],
    ['bytes', 'a: !!binary aGk=', 'a value is neither text'],
    ['a set', 'a: !!set { b, c }', 'a value is neither text'],
    ['text that is not YAML', 'a: [1', 'not YAML'],
    ['a long text', `a: ${'x'.repeat(2 ** 18)}`, 'YAML of 262147 characters, more than 262144'],
  ])('refuses %s', async (_, text, reason) => {
    expect(await parseYaml(text)).toEqual(left(expect.stringContaining(reason)))
  })

  it('reads thousands of keys', async () => {
    const keys = Array.from({ length: 20_000 }, (_, i) => `k${i}: 1`).join('\n')
    expect(await parseYaml(keys)).toMatchObject({ right: { k0: 1, k19999: 1 } })
  })
})
