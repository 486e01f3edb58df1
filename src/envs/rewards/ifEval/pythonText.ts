/**
 * Operations on text with the meaning that Python gives them: the published checks of IFEval are
 * stated in them.
 */

/**
 * White space, as the inside of a character class: what `str.isspace` and `\s` of Python say.
 * U+FEFF is none.
 */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'

/**
 * What `\w` of Python matches, as the inside of a character class: combining marks are not part of
 * it.
 */
export const WORD = '\\p{L}\\p{N}_'

const space = new RegExp(`[${SPACE}]`)
const spaces = new RegExp(`[${SPACE}]+`)

/**
 * Where the text ends once trailing characters of a kind are left out. Linear, which a pattern at
 * the end of a text is not.
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

/** Without white space at the end. */
export const stripEnd = (text: string): string => text.slice(0, endWithout(text, isSpace))

/** Without white space around it. */
export const stripText = (text: string): string => {
  const end = stripEnd(text)
  return end.slice(startWithout(end, isSpace))
}

/** Without repetitions of one character in front. */
export const stripStartOf = (text: string, character: string): string =>
  text.slice(startWithout(text, (each) => each === character))

/** Without repetitions of one character at the end. */
export const stripEndOf = (text: string, character: string): string =>
  text.slice(
    0,
    endWithout(text, (each) => each === character),
  )

/** Whether nothing is left of a text without white space. */
export const isBlankText = (text: string): boolean => startWithout(text, isSpace) === text.length

/** The pieces between white space. */
export const splitSpaces = (text: string): readonly string[] => text.split(spaces).filter((piece) => piece !== '')

/**
 * Whether there is a letter with case, and all of them are upper case.
 *
 * @example
 * isUpper('NASA-2') // true
 */
export const isUpper = (text: string): boolean => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text)

/** Whether there is a letter with case, and all of them are lower case. */
export const isLower = (text: string): boolean => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text)

/** Characters that Python takes for others, and that have no single character in the other case. */
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
 * The text in which letters that differ only in case are the same, character by character: two
 * texts are equal here where a pattern of Python matches without regard to case.
 *
 * @example
 * foldCase('ΣΊΣΥΦΟΣ') === foldCase('σίσυφος') // true
 */
export const foldCase = (text: string): string =>
  text.replace(/\P{ASCII}/gu, foldCharacter).replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** Places where a phrase occurs, from left to right, none within another. */
export const occurrences = (text: string, phrase: string): readonly number[] => {
  const found: number[] = []
  for (let at = text.indexOf(phrase); at >= 0; at = text.indexOf(phrase, at + phrase.length)) found.push(at)
  return found
}

/** A text as a pattern that matches it and nothing else. */
export const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
