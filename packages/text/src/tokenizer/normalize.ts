/** The normalizers of `tokenizer.json`, on texts that keep the positions of their original. */
import { pipe } from 'fp-ts/lib/function.js'
import {
  type AlignedText,
  applyChanges,
  mapCharacters,
  original,
  prepend,
  sliceAligned,
  substitute,
} from './alignedText.js'
import { tokenizerWork } from './budget.js'
import { charsmapChanges, readCharsmap } from './charsmap.js'
import type { SimpleNormalizer } from './files.js'
import { classOf, MARK, NONSPACING_MARK, REMOVED_BY_BERT } from './oldUnicode.js'
import { compilePattern } from './pattern.js'
import { type UnicodeForm, unicodeChanges } from './unicodeForm.js'

/** A change of a text before it is split. */
export type Normalize = (text: AlignedText) => AlignedText

/** The length below which the sorting of combining characters is fast. */
const SHORT_RUN = 1024

/**
 * Charges the sorting of combining characters, whose time grows with the square of their number.
 */
const chargeSorting = (text: string): void => {
  if (text.length < SHORT_RUN) return
  for (const [run] of text.matchAll(/\p{M}+/gu)) if (run.length > SHORT_RUN) tokenizerWork.spend(run.length ** 2 / 16)
}

const toForm =
  (form: UnicodeForm): Normalize =>
  (old) => {
    chargeSorting(old.text)
    return old.text.normalize(form) === old.text ? old : applyChanges(old, unicodeChanges(old.text, form))
  }

const map =
  (found: RegExp, change: (character: string) => string): Normalize =>
  (old) =>
    found.test(old.text) ? mapCharacters(old, change) : old

/** Removes the characters of a class. */
const drop = (unwanted: RegExp): Normalize => map(unwanted, (character) => (unwanted.test(character) ? '' : character))

const lowercase: Normalize = (old) =>
  old.text.toLowerCase() === old.text ? old : mapCharacters(old, (character) => character.toLowerCase())

const CHINESE =
  /[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{f900}-\u{faff}\u{2f800}-\u{2fa1f}]/u

const WHITE_SPACE = /\p{White_Space}/u

/** Runs steps one after another. */
const inOrder =
  (steps: readonly Normalize[]): Normalize =>
  (text) =>
    steps.reduce((result, step) => step(result), text)

/**
 * Puts a blank before and after each Chinese character. The character comes second, so that it
 * counts as inserted.
 */
const spaced: Normalize = (old) => {
  if (!CHINESE.test(old.text)) return old
  return mapCharacters(old, (character) => (CHINESE.test(character) ? ` ${character} ` : character))
}

const bert = (json: Extract<SimpleNormalizer, { readonly type: 'BertNormalizer' }>): Normalize =>
  inOrder([
    ...(json.clean_text
      ? [drop(REMOVED_BY_BERT), map(WHITE_SPACE, (character) => (WHITE_SPACE.test(character) ? ' ' : character))]
      : []),
    ...(json.handle_chinese_chars ? [spaced] : []),
    ...((json.strip_accents ?? json.lowercase) ? [toForm('NFD'), drop(NONSPACING_MARK)] : []),
    ...(json.lowercase ? [lowercase] : []),
  ])

/** Strips the white space at the ends of a text. */
const strip =
  (ends: { readonly left: number; readonly right: number }): Normalize =>
  (old) => {
    const { text } = old
    const [leading = ''] = /^\p{White_Space}*/u.exec(text) ?? []
    const start = leading.length * ends.left
    const [trailing = ''] = /(?<!\p{White_Space})\p{White_Space}+$/u.exec(text.slice(start)) ?? []
    return sliceAligned(old, start, text.length - trailing.length * ends.right)
  }

/** The rules of NMT for SentencePiece: controls are removed, invisible characters become blanks. */
const NMT_REMOVED = new RegExp(`[${classOf('1-8 b e-1f 7f 8f 9f')}]`, 'u')
const NMT_BLANK = new RegExp(`[${classOf('9 a c d 1680 200b-200f 2028 2029 2581 feff fffd')}]`, 'u')

const precompiled = (base64: string | null | undefined): Normalize => {
  if (base64 === null || base64 === undefined || base64 === '') return (text) => text
  const charsmap = readCharsmap(base64)
  return (old) => {
    const changes = charsmapChanges(charsmap, old.text)
    return changes === undefined ? old : applyChanges(old, changes)
  }
}

const compile = (json: SimpleNormalizer): Normalize => {
  switch (json.type) {
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD':
      return toForm(json.type)
    case 'Lowercase':
      return lowercase
    case 'StripAccents':
      return drop(MARK)
    case 'Nmt':
      return inOrder([drop(NMT_REMOVED), map(NMT_BLANK, (character) => (NMT_BLANK.test(character) ? ' ' : character))])
    case 'BertNormalizer':
      return bert(json)
    case 'Strip':
      return strip({ left: Number(json.strip_left), right: Number(json.strip_right) })
    case 'Replace': {
      const found = compilePattern(json.pattern)
      return (text) => substitute(text, found, json.content)
    }
    case 'Prepend':
      return (text) => prepend(text, json.prepend)
    case 'Precompiled':
      return precompiled(json.precompiled_charsmap)
  }
}

/** Largest total growth factor of a text by replacements. */
const MOST_GROWTH = 64

/** Returns the largest growth factor of a step. An expression may match between two characters. */
const growthOf = (step: SimpleNormalizer): number => {
  if (step.type === 'Prepend') return 1 + step.prepend.length
  if (step.type !== 'Replace') return 1
  const { pattern, content } = step
  if ('Regex' in pattern) {
    const matchesNothing = Array.from(compilePattern(pattern)('')).length > 0
    return matchesNothing ? 1 + content.length : Math.max(1, content.length)
  }
  return Math.max(1, content.length / Math.max(1, pattern.String.length))
}

/**
 * Combines the normalizers of a file.
 *
 * Errors   throws for an invalid pattern or charsmap, and RangeError for replacements that make a
 *          text many times longer.
 */
export const normalizer = (steps: readonly SimpleNormalizer[]): Normalize => {
  const growth = steps.reduce((product, step) => product * growthOf(step), 1)
  if (growth > MOST_GROWTH)
    throw new RangeError(`the normalizers make texts up to ${growth} times longer, the limit is ${MOST_GROWTH}`)
  return pipe(steps.map(compile), inOrder)
}

/** Returns only the normalized text. */
export const normalizeText = (normalize: Normalize, text: string): string => normalize(original(text)).text
