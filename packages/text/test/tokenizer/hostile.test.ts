/** Untrusted tokenizer files: a text that would stall the process or exhaust memory fails. */
import * as library from '@huggingface/tokenizers'
import { FailureError } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { hostile, hostileFile } from '../../../../test/kit/hostileTokenizer.js'
import { normalizer, normalizeText } from '../../src/tokenizer/normalize.js'
import { compilePattern } from '../../src/tokenizer/pattern.js'
import { guardOf } from '../../src/tokenizer/patternGuard.js'
import { type TextTokenizer, textTokenizer } from '../../src/tokenizer/textTokenizer.js'

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
const LLAMA3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const O200K =
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const PUBLISHED = {
  GPT2,
  LLAMA3,
  'Qwen 2.5': LLAMA3.replace('\\p{N}{1,3}', '\\p{N}'),
  O200K,
  'DeepSeek V3':
    '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  'digits from the right': '\\d{1,3}(?=(?:\\d{3})*\\b)',
  'Gemma 2': ' {2,}',
}

const split = (Regex: string): object => ({
  pre_tokenizer: { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false },
})

/** The failure of encoding a text. */
const failureOf = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error instanceof FailureError ? error.failure._tag : error
  }
}

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

  it.each(['a*a*a*b', '\\s*\\s*$', 'a+(?=a*b)', '(?:a+b){3}', 'a{1000}a*b', 'a+a{32}b'])(
    '%s may take cubic time, and is refused',
    (Regex) => {
      expect(() => compilePattern({ Regex })).toThrow('faster than the square of the text')
    },
  )

  it.each([
    ['a{0,31}a{0,31}a{0,31}b', 'ways at one place'],
    ['(a+)\\1b', 'backreference'],
    ['(?<=a*)b', 'looks back'],
    ['(?:(?:a{100}){100}){100}', 'parts'],
    ['(?:(?:a|b){9}){9}|a', 'exponential'],
    [`${'('.repeat(200)}a${')'.repeat(200)}`, 'nested'],
    [Array.from({ length: 5000 }, (_, i) => `x${i}`).join('|'), 'longer than'],
    [Array.from({ length: 3000 }, () => 'a').join('|'), 'alternatives'],
  ])('%s is refused', (Regex, reason) => {
    expect(() => compilePattern({ Regex })).toThrow(reason)
  })

  it.each([...Object.values(PUBLISHED), '(\\d{3})+', '[(|+)*]+', '\\(\\|\\)+'])('%s is read', (Regex) => {
    expect(() => compilePattern({ Regex })).not.toThrow()
  })

  it.each([' ?\\p{L}+| ?\\p{N}+', ' {2,}', '(\\d{3})+', '\\n'])('%s takes linear time for every text', (Regex) => {
    expect(guardOf(Regex).rescans).toEqual([])
  })

  it('a quadratic pattern ends with a typed failure on a text that is hostile to it', () => {
    const text = `${' '.repeat(60_000)}a`
    for (const [Regex, foreign] of [
      ['\\s+$', text],
      ['\\s*b', text],
      ['[^b]{0,9}\\s+b', text],
      ['a*(?:b+c)?', 'b'.repeat(60_000)],
    ] as const) {
      const tokenizer = hostile(split(Regex))
      expect(failureOf(() => tokenizer.encode(foreign))).toBe('TokenizerFailure')
      expect(failureOf(() => tokenizer.encoding(foreign))).toBe('TokenizerFailure')
      expect(tokenizer.encode('a b a').length).toBe(5)
    }
  })

  it('the same pattern in a normalizer and in a decoder ends with it too', () => {
    const replace = { type: 'Replace', pattern: { Regex: '\\s+$' }, content: '' }
    const text = `${' '.repeat(60_000)}a`
    expect(failureOf(() => hostile({ normalizer: replace }).encode(text))).toBe('TokenizerFailure')
    const decoding = hostile({ decoder: replace }, { vocab: { [text]: 0 } })
    expect(failureOf(() => decoding.decode([0], 'keep'))).toBe('TokenizerFailure')
  })

  it.each(Object.entries(PUBLISHED))('%s finds the same matches in texts with long runs', (name, Regex) => {
    // The library has no types under Node's rules: see `Translator` of pattern.ts.
    type Native = { readonly SplitPreTokenizer: new (json: object) => { readonly pattern: RegExp } }
    const { SplitPreTokenizer } = library as unknown as Native // exported, but without types
    const json = { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: true }
    const native = new SplitPreTokenizer(json).pattern
    const find = compilePattern({ Regex })
    const part = fc.constantFrom(' ', '\n', 'word', 'WORD', 'é', '語', '12', '123', "'s", '!', '😀', '\t')
    const law = fc.property(fc.array(part, { maxLength: 20 }), part, fc.array(part, { maxLength: 20 }), (a, run, b) => {
      const text = a.join('') + run.repeat(name.startsWith('digits') ? 500 : 4000) + 'x '.repeat(6000) + b.join('')
      const expected = Array.from(text.matchAll(native), (match) => [match.index, match[0].length])
      expect(Array.from(find(text), (match) => [match.index, match[0].length])).toEqual(expected)
    })
    fc.assert(law, { numRuns: 5 })
  })

  it.each([
    ['blanks', ' '.repeat(200_000)],
    ['letters', 'A'.repeat(200_000)],
    ['characters without case', '語'.repeat(200_000)],
    ['line ends', '\n'.repeat(200_000)],
  ])('published patterns read 200,000 %s', (_, text) => {
    for (const name of ['GPT2', 'LLAMA3', 'Qwen 2.5', 'O200K', 'DeepSeek V3'] as const) {
      const tokenizer = hostile(split(PUBLISHED[name]), { vocab: { [text[0]!]: 0 } })
      expect(tokenizer.encode(text).length).toBe(200_000)
    }
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

describe('texts of a file that are too long for a regular expression are refused when it is read', () => {
  const long = 'b'.repeat(20_000_000)
  it.each<[string, object]>([
    ['a metaspace', { pre_tokenizer: { type: 'Metaspace', replacement: long } }],
    ['a metaspace of two characters', { pre_tokenizer: { type: 'Metaspace', replacement: 'bb' } }],
    ['the metaspace of a decoder', { decoder: { type: 'Metaspace', replacement: long } }],
    ['a split', { pre_tokenizer: { type: 'Split', pattern: { String: long }, behavior: 'Isolated', invert: false } }],
    ['a replacement', { normalizer: { type: 'Replace', pattern: { String: long }, content: '' } }],
  ])('%s', (_, parts) => {
    const read = textTokenizer(hostileFile(parts))
    expect(read._tag === 'Left' && read.left.reason.length).toBeLessThan(1000)
    expect(read._tag).toBe('Left')
  })
})

describe('parts that grow or rescan a text end with a typed failure', () => {
  const long = 'b'.repeat(1_000_000)
  const doublings = Array.from({ length: 40 }, () => ({ type: 'Replace', pattern: { String: 'a' }, content: 'aa' }))
  const added = (content: string, more: object = {}): object => ({ added_tokens: [{ id: 9, content, ...more }] })

  it.each<[string, TextTokenizer, string]>([
    ['a prefix of a million characters', hostile({}, { continuing_subword_prefix: long }), 'a'.repeat(1000)],
    ['an added token that nearly matches everywhere', hostile(added(`${'a'.repeat(100_000)}b`)), 'a'.repeat(99_999)],
    [
      'an added token of blanks that takes the blanks behind it',
      hostile(added(' ', { rstrip: true, id: 2 })),
      ' '.repeat(99_999),
    ],
    [
      'a unigram token that nearly matches everywhere',
      hostile(
        {},
        {
          type: 'Unigram',
          unk_id: 0,
          vocab: [
            ['a', 0],
            [`${'a'.repeat(100_000)}b`, 0],
          ],
        },
      ),
      'a'.repeat(99_999),
    ],
    [
      'WordPiece without a limit of a word',
      hostile(
        {},
        {
          ...{ type: 'WordPiece', unk_token: 'a', continuing_subword_prefix: '', max_input_chars_per_word: 1e9 },
          vocab: { a: 0, ['b'.repeat(100_000)]: 1 },
        },
      ),
      'a'.repeat(20_000),
    ],
  ])('%s', (_, tokenizer, text) => {
    expect(failureOf(() => tokenizer.encode(text))).toBe('TokenizerFailure')
  })

  it('a decoder that doubles', () => {
    const tokenizer = hostile({ decoder: { type: 'Sequence', decoders: doublings } })
    expect(failureOf(() => tokenizer.decode([0], 'keep'))).toBe('TokenizerFailure')
  })
})

describe('long texts', () => {
  it('are cut at a metaspace in linear time', () => {
    const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never' }
    const tokenizer = hostile({ pre_tokenizer: metaspace }, { vocab: { a: 0, '▁': 1 } })
    expect(tokenizer.encode('a '.repeat(500_000)).length).toBe(1_000_000)
  })

  it('of combining characters that are out of order are sorted, or end with a typed failure', () => {
    const tokenizer = hostile({ normalizer: { type: 'NFD' } }, { vocab: { '\u0301': 0, '\u0323': 1 } })
    expect(failureOf(() => tokenizer.encode('\u0301\u0323'.repeat(500_000)))).toBe('TokenizerFailure')
    const ids = tokenizer.encode('\u0301'.repeat(3000) + '\u0323'.repeat(3000))
    expect([ids[0], ids[2999], ids[3000], ids.at(-1)]).toEqual([1, 1, 0, 0])
  })
})

it('a file whose pattern is refused gives a FormatFailure that shows the pattern', () => {
  const result = textTokenizer(hostileFile(split('(a+)+$')))
  expect(E.isLeft(result) && result.left.reason).toContain('(a+)+$')
})
