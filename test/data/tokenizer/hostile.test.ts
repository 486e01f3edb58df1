/** Untrusted tokenizer files that would hang or exhaust memory are rejected when they are read. */
import { describe, expect, it } from 'vitest'
import { normalizer, normalizeText } from '../../../src/data/tokenizer/normalize.js'
import { compilePattern } from '../../../src/data/tokenizer/pattern.js'

describe('patterns', () => {
  it.each([
    '(a+)+$',
    '(?:a+)+$',
    '(a*)*b',
    '(a|a)*b',
    '((a|b))+c',
    '(a?){30}a{30}',
    '(?:a{1,40})+$',
    '(x+x+)+y',
    '([a-z]+\\d?)*!',
    '(?=(a+)+b)',
  ])('%s may take exponential time, and is refused', (Regex) => {
    expect(() => compilePattern({ Regex })).toThrow('may take exponential time')
  })

  it.each([
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}]*[\\p{Ll}\\p{Lm}]+(?i:'s|'t)?|\\p{N}{1,3}",
    '\\d{1,3}(?=(?:\\d{3})*\\b)',
    '(\\d{3})+',
    '[(|+)*]+',
    '\\(\\|\\)+',
  ])('%s is read', (Regex) => {
    expect(compilePattern({ Regex })).toBeInstanceOf(RegExp)
  })
})

describe('normalizers', () => {
  const doubling = { type: 'Replace', pattern: { String: 'a' }, content: 'aa' } as const

  it('that double a text again and again are refused', () => {
    expect(() => normalizer(Array.from({ length: 40 }, () => doubling))).toThrow('times longer')
    expect(() => normalizer([{ type: 'Replace', pattern: { Regex: 'x*' }, content: 'b'.repeat(1000) }])).toThrow(
      'times longer',
    )
    expect(() => normalizer([{ type: 'Prepend', prepend: 'b'.repeat(1000) }])).toThrow('times longer')
  })

  it('that double it twice are not', () => {
    expect(normalizeText(normalizer([doubling, doubling]), 'xa')).toBe('xaaaa')
  })
})
