/**
 * Tokenizers of many families, texts that are hard to cut, and the comparison with the Rust
 * library.
 */
import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { type TextTokenizer, textTokenizer } from '@tandem-rl/text'
import fc from 'fast-check'
import { Tokenizer } from 'tokenizers'
import { classOf } from '../../packages/text/src/tokenizer/oldUnicode.js'

/** The families of test/golden/tokenizers, by the kind of their model. */
export const FAMILIES = {
  gpt2: 'byte-level BPE',
  phi: 'byte-level BPE',
  llama3: 'byte-level BPE',
  qwen: 'byte-level BPE',
  roberta: 'byte-level BPE',
  falcon: 'byte-level BPE',
  clip: 'byte-level BPE',
  llama2: 'byte-fallback BPE',
  phi3: 'byte-fallback BPE',
  mistral: 'byte-fallback BPE',
  gemma: 'byte-fallback BPE',
  bert: 'WordPiece',
  bertCased: 'WordPiece',
  mixed: 'WordPiece',
  t5: 'Unigram',
  xlmr: 'Unigram',
} as const

export type Family = keyof typeof FAMILIES

export const families = Object.keys(FAMILIES) as Family[] // the keys are those of the constant above

/** A tokenizer.json, as far as tests look into it. */
interface FamilyJson {
  readonly added_tokens: readonly { readonly content: string; readonly id: number }[]
  readonly model: { readonly unk_token?: string | null; readonly unk_id?: number }
}

/** The parsed tokenizer.json of a family. */
export const familyJson = (family: Family): FamilyJson =>
  JSON.parse(readFileSync(`test/golden/tokenizers/${family}.json`, 'utf8'))

export const familyTokenizer = (family: Family): TextTokenizer => orThrow(textTokenizer(familyJson(family)))

const WORDS = [
  "The quick brown fox's",
  'learning',
  'reinforcement',
  'Wednesday',
  "isn't",
  "We'LL",
  '12345',
  '1,000.5',
  '½',
  'ﬁne',
  'Ｆｕｌｌ',
  'Ⅷ',
  'café',
  'cafe\u0301',
  'A\u030angstro\u0308m',
  'o\u0323\u0302',
  '\u1112\u1161\u11ab',
  'ｶﾞ',
  'ﷺ',
  'İstanbul',
  'ΣΑΣ',
  'straße',
  '你好，世界',
  '日本語',
  '한국어',
  'مرحبا',
  'नमस्ते',
  'ไทย',
  '😀',
  '👨‍👩‍👧',
  '👍🏽',
  '🇩🇪',
  '❤️',
  '𝒳',
  '\u{2b820}',
  'a-b-c',
  'foo_bar',
  'oo-oo',
  '<0x41>',
  '▁',
  '▁▁a',
  'Ġ',
  '##ing',
  '<unk>',
  '[UNK]',
  'Word',
  'Words',
  "don't do not",
  ' .',
  ' ,x',
  '﻿',
  '\u200b',
  '\u00a0',
  '\u3000',
  '\u2028',
  '\u0085',
  '\0',
  '\u0001',
  '\u0007',
  '\ud800',
  '\udc00',
  '\ufffd',
  '\t',
  '\n',
  '\r\n',
  '\n\n\n',
  '  ',
  '        ',
  ' ',
  '',
  '\u0301',
  '\u200d',
  '\u00ad',
  'x'.repeat(120),
]

/** Texts of words, tokens of the family, and any characters. */
export const anyText = (family: Family): fc.Arbitrary<string> => {
  const tokens = familyJson(family).added_tokens.map(({ content }) => content)
  const part = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...WORDS) },
    { weight: 2, arbitrary: fc.constantFrom(...tokens) },
    { weight: 2, arbitrary: fc.constantFrom(' ', ' ', '\n', '.', "'", '-', 'o') },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 6 }) },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme-ascii', maxLength: 8 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 3 }) },
  )
  return fc.array(part, { maxLength: 8 }).map((parts) => parts.join(''))
}

/** The encodings of a text by both libraries, in one form. */
export interface Told {
  readonly ids: readonly number[]
  readonly offsets: readonly number[]
  readonly typeIds: readonly number[]
  readonly added: readonly number[]
  readonly kept: string
  readonly skipped: string
}

/** The Rust library's tokenizer; offsets in UTF-16 code units. */
export const rust = (json: object) => {
  const native = Tokenizer.fromString(JSON.stringify(json))
  return async (text: string, template: 'add' | 'omit'): Promise<Told> => {
    const encoding = await native.encode(text, null, { addSpecialTokens: template === 'add' })
    const places = [0]
    for (const character of text) places.push(places.at(-1)! + character.length)
    const ids = encoding.getIds()
    return {
      ids,
      offsets: encoding
        .getOffsets()
        .flat()
        .map((place) => places[place]!),
      typeIds: encoding.getTypeIds(),
      added: encoding.getSpecialTokensMask(),
      kept: await native.decode(ids, false),
      skipped: await native.decode(ids, true),
    }
  }
}

/** The same of our tokenizer. */
export const ours = (tokenizer: TextTokenizer, text: string, template: 'add' | 'omit'): Told => {
  const { ids, offsets, typeIds, specialTokensMask } = tokenizer.encoding(text, { template })
  return {
    ids: Array.from(ids),
    offsets: Array.from(offsets),
    typeIds: Array.from(typeIds),
    added: Array.from(specialTokensMask),
    kept: tokenizer.decode(ids, 'keep'),
    skipped: tokenizer.decode(ids, 'skip'),
  }
}

const { codePoints } = JSON.parse(readFileSync('test/golden/tokenizers/differences.json', 'utf8'))

const NEWER = new RegExp(`[${classOf(codePoints)}]`, 'u')

/**
 * Checks for characters that the two libraries know in different versions of Unicode: see
 * differences.json.
 */
export const isNewerThanRust = (text: string): boolean => NEWER.test(text) || NEWER.test(text.normalize('NFKD'))
