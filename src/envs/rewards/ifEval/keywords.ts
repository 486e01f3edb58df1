/**
 * IFEval's `keywords`: required words, forbidden words, and frequencies.
 *
 * A keyword is a text, not a pattern, and case is ignored. The published code uses it as a regular
 * expression, which is the same for letters, digits and blanks; but there `a.b` finds `axb`, and
 * `C++` finds any C or is an error, depending on the version of Python.
 */
import { type CheckTable, compares } from './check.js'
import { foldCase, occurrences, stripText, WORD } from './pythonText.js'

const isWordCharacter = new RegExp(`^[${WORD}]$`, 'u')

/** Returns true if the characters before and after a place are not part of a word. */
const standsAlone = (text: string, start: number, end: number): boolean => {
  const [before = ''] = [...text.slice(Math.max(0, start - 2), start)].slice(-1)
  const [after = ''] = text.slice(end, end + 2)
  return !isWordCharacter.test(before) && !isWordCharacter.test(after)
}

/** Returns true if a word occurs alone, also at overlapping positions. */
const hasAlone = (text: string, word: string): boolean => {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (standsAlone(text, at, at + word.length)) return true
  }
  return false
}

export const KEYWORDS: CheckTable<
  'keywords:existence' | 'keywords:frequency' | 'keywords:forbidden_words' | 'keywords:letter_frequency'
> = {
  'keywords:existence': ({ keywords }) => {
    const folded = keywords.map(foldCase)
    return (text) => {
      const searched = foldCase(text)
      return folded.every((keyword) => searched.includes(keyword))
    }
  },
  'keywords:frequency': ({ keyword, frequency, relation }) => {
    const folded = foldCase(stripText(keyword))
    return (text) => compares(occurrences(foldCase(text), folded).length, relation, frequency)
  },
  'keywords:forbidden_words': ({ forbidden_words }) => {
    const folded = forbidden_words.map((word) => foldCase(stripText(word)))
    return (text) => {
      const searched = foldCase(text)
      return !folded.some((word) => hasAlone(searched, word))
    }
  },
  'keywords:letter_frequency': ({ letter, let_frequency, let_relation }) => {
    const lower = letter.toLowerCase()
    return (text) => compares(occurrences(text.toLowerCase(), lower).length, let_relation, let_frequency)
  },
}
