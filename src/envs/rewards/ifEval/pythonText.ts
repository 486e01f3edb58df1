/** Operations on text with the semantics of Python, which the published checks of IFEval use. */

/**
 * White space, as the inside of a character class, as in Python's `str.isspace` and `\s`. U+FEFF is
 * not included.
 */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'

/** The characters of Python's `\w`, as the inside of a character class, without combining marks. */
export const WORD = '\\p{L}\\p{N}_'

const space = new RegExp(`[${SPACE}]`)
const spaces = new RegExp(`[${SPACE}]+`)

/**
 * Returns the end of the text without trailing characters of a kind. Linear, unlike a pattern
 * anchored at the end.
 */
const endWithout = (text: string, isOut: (character: string) => boolean): number => {
  let end = text.length
  while (end > 0 && isOut(text[end - 1]!)) end--
  return end
}

const startWithout = (text: string, isOut: (character: string) => boolean): number => {
  let start = 0
  while (start < text.length && isOut(text[start]!)) start++
  return start
}

const isSpace = (character: string): boolean => space.test(character)

/** Removes trailing white space. */
export const stripEnd = (text: string): string => text.slice(0, endWithout(text, isSpace))

/** Removes surrounding white space. */
export const stripText = (text: string): string => {
  const end = stripEnd(text)
  return end.slice(startWithout(end, isSpace))
}

/** Removes leading repetitions of a character. */
export const stripStartOf = (text: string, character: string): string =>
  text.slice(startWithout(text, (each) => each === character))

/** Removes trailing repetitions of a character. */
export const stripEndOf = (text: string, character: string): string =>
  text.slice(
    0,
    endWithout(text, (each) => each === character),
  )

/** Returns true for a text of white space only. */
export const isBlankText = (text: string): boolean => startWithout(text, isSpace) === text.length

/** Splits a text at white space. */
export const splitSpaces = (text: string): readonly string[] => text.split(spaces).filter((piece) => piece !== '')

/**
 * Returns true if the text has a letter with case, and all of them are upper case.
 *
 * @example
 * isUpper('NASA-2') // true
 */
export const isUpper = (text: string): boolean => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text)

/** Returns true if the text has a letter with case, and all of them are lower case. */
export const isLower = (text: string): boolean => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text)

/** Characters that Python equates although they have no single-character counterpart. */
const ALSO = new Map([
  ['\u0130', 'i'],
  ['\u1fd3', '\u0390'],
  ['\u1fe3', '\u03b0'],
  ['\ufb05', '\ufb06'],
])

const foldCharacter = (character: string): string => {
  const other = ALSO.get(character)
  if (other !== undefined) return other
  const upper = character.toUpperCase()
  const folded = ([...upper].length === 1 ? upper : character).toLowerCase()
  return [...folded].length === 1 ? folded : character
}

/**
 * Folds case character by character: two texts become equal if a case-insensitive pattern of Python
 * matches both.
 *
 * @example
 * foldCase('ΣΊΣΥΦΟΣ') === foldCase('σίσυφος') // true
 */
export const foldCase = (text: string): string =>
  text.replace(/\P{ASCII}/gu, foldCharacter).replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** Returns the positions of a phrase, from left to right, without overlaps. */
export const occurrences = (text: string, phrase: string): readonly number[] => {
  const found: number[] = []
  for (let at = text.indexOf(phrase); at >= 0; at = text.indexOf(phrase, at + phrase.length)) found.push(at)
  return found
}

/** Escapes a text for use in a pattern. */
export const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
