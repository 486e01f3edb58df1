/** IFEval's `length_constraints`: numbers of words, sentences and paragraphs. */
import { type CheckTable, compares } from './check.js'
import { sentences } from './punkt.js'
import { isBlankText, SPACE, splitSpaces, stripStartOf, WORD } from './pythonText.js'

const PARAGRAPH_DIVIDER = new RegExp(`[${SPACE}]?\\*\\*\\*[${SPACE}]?`)
const RUN_OF_WORD = new RegExp(`[${WORD}]+`, 'gu')

/** Counts the matches of a pattern without storing them. */
const countOf = (text: string, pattern: RegExp): number => {
  let count = 0
  for (const _ of text.matchAll(pattern)) count++
  return count
}

/**
 * Counts paragraphs between dividers of three asterisks. Paragraphs may be blank before the first
 * and after the last divider, but not in between.
 */
const paragraphCount = (text: string): number | undefined => {
  const parts = text.split(PARAGRAPH_DIVIDER)
  const isEdge = (index: number): boolean => index === 0 || index === parts.length - 1
  const blanks = parts.flatMap((part, i) => (isBlankText(part) ? [i] : []))
  return blanks.every(isEdge) ? parts.length - blanks.length : undefined
}

/**
 * Returns the first word of a paragraph in lower case, without leading quotes, up to the first
 * punctuation.
 */
const firstWord = (paragraph: string): string => {
  const [word = ''] = splitSpaces(paragraph)
  const [first = ''] = stripStartOf(stripStartOf(word, "'"), '"').split(/[.,?!'"]/, 1)
  return first.toLowerCase()
}

export const LENGTHS: CheckTable<
  | 'length_constraints:number_sentences'
  | 'length_constraints:number_paragraphs'
  | 'length_constraints:number_words'
  | 'length_constraints:nth_paragraph_first_word'
> = {
  'length_constraints:number_sentences':
    ({ num_sentences, relation }) =>
    (text) =>
      compares(sentences(text).length, relation, num_sentences),
  'length_constraints:number_paragraphs':
    ({ num_paragraphs }) =>
    (text) =>
      paragraphCount(text) === num_paragraphs,
  'length_constraints:number_words':
    ({ num_words, relation }) =>
    (text) =>
      compares(countOf(text, RUN_OF_WORD), relation, num_words),
  // The place is counted with blank paragraphs, the number without them: so the published check has
  // it.
  'length_constraints:nth_paragraph_first_word':
    ({ num_paragraphs, nth_paragraph, first_word }) =>
    (text) => {
      const paragraphs = text.split('\n\n')
      const count = paragraphs.filter((paragraph) => !isBlankText(paragraph)).length
      const paragraph = paragraphs[nth_paragraph - 1] ?? ''
      return count === num_paragraphs && !isBlankText(paragraph) && firstWord(paragraph) === first_word.toLowerCase()
    },
}
