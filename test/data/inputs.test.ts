import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { changedInputs, joinInputs, rowInputs, rowsDigest, textInputs } from '../../src/data/inputs.js'
import { endlessTasks, rowList, shuffled, taskList } from '../../src/data/task.js'

const anyInputs = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2', '3'))

describe('joinInputs', () => {
  it('keeps every digest of every part, and equal ones once', () => {
    const law = fc.property(fc.array(anyInputs, { maxLength: 4 }), (all) => {
      const joined = joinInputs(all)
      for (const [name, digest] of all.flatMap(Object.entries)) {
        const own = Object.entries(joined).filter(([each]) => each === name || each.startsWith(`${name} (`))
        expect(own.filter(([, each]) => each === digest)).toHaveLength(1)
      }
      expect(joinInputs([joined, ...all])).toEqual(joined)
    })
    fc.assert(law)
  })
})

describe('changedInputs', () => {
  it('names exactly the inputs whose digest differs, is missing or is new', () => {
    const law = fc.property(anyInputs, anyInputs, (was, is) => {
      const changed = changedInputs(was, is)
      for (const name of ['a', 'b', 'c']) expect(changed.includes(name)).toBe(was[name] !== is[name])
      expect(changedInputs(was, { ...was })).toEqual([])
    })
    fc.assert(law)
  })
})

describe('rowInputs', () => {
  it('changes with any row, their number and their order, and not with the source that makes them', () => {
    const anyRows = fc.array(fc.record({ query: fc.string(), level: fc.option(fc.double()) }), { minLength: 1 })
    const law = fc.property(anyRows, anyRows, (one, other) => {
      const [a, b] = [one, other].map((rows) => rowsDigest(taskList('x', rows)))
      expect(a === b).toBe(JSON.stringify(one) === JSON.stringify(other))
      expect(rowsDigest(taskList('x', structuredClone(one)))).toBe(a)
    })
    fc.assert(law)
    const ids = rowList('ids', [{ n: 1n }, { n: Number.NaN }])
    expect(Object.keys(rowInputs(ids))).toEqual(['rows of ids'])
    expect(rowInputs(shuffled(ids, keyFromSeed(1)))).not.toEqual({})
    expect(rowInputs(endlessTasks('made', (i) => ({ id: String(i), query: '', answer: '' })))).toEqual({})
  })
})

describe('textInputs', () => {
  it('has a digest of the template and one of the tokenizer', () => {
    const text = { template: { source: 'a' }, files: { 'tokenizer.json': '{}', 'tokenizer_config.json': '{}' } }
    expect(Object.keys(textInputs(text))).toEqual(['chat template', 'tokenizer'])
    expect(changedInputs(textInputs(text), textInputs({ ...text, template: { source: 'b' } }))).toEqual([
      'chat template',
    ])
    expect(textInputs({})).toEqual({})
  })
})
