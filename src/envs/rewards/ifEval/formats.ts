/**
 * IFEval's `detectable_content` and `detectable_format`: placeholders, postscripts, lists,
 * highlights, sections, JSON and titles.
 */
import type { CheckTable } from './check.js'
import { escaped, isBlankText, SPACE, stripEndOf, stripStartOf, stripText } from './pythonText.js'

const CONSTRAINED_RESPONSES = ['My answer is yes.', 'My answer is no.', 'My answer is maybe.']

/**
 * Counts pairs of square brackets in one line: each opening bracket matches the next closing one.
 */
const placeholderCount = (text: string): number =>
  text.split('\n').reduce((count, line) => {
    let found = count
    for (let open = line.indexOf('['); open >= 0; ) {
      const close = line.indexOf(']', open + 1)
      if (close < 0) break
      found++
      open = line.indexOf('[', close + 1)
    }
    return found
  }, 0)

const NOT_SPACE = new RegExp(`[^${SPACE}]`, 'g')

const indexOr = (index: number, other: number): number => (index < 0 ? other : index)

/**
 * Lines that begin with a marker, as the published pattern `^\s*MARKER.*$` finds them: white space
 * in front may span lines. What the marker may not be followed by may be `notBefore`; a line break
 * after it counts as a character, so that the bullet has the next line.
 */
const bulletCount = (text: string, marker: string, notBefore?: string): number => {
  let count = 0
  for (let line = 0; line <= text.length; ) {
    NOT_SPACE.lastIndex = line
    const at = NOT_SPACE.exec(text)?.index ?? text.length
    const next = text[at + 1]
    const isBullet = text[at] === marker && (notBefore === undefined || (next !== undefined && next !== notBefore))
    if (isBullet) count++
    const end = isBullet && notBefore !== undefined ? at + 2 : at
    line = indexOr(text.indexOf('\n', end), text.length) + 1
  }
  return count
}

/** Counts texts that are not blank between single and double asterisks in one line. */
const highlightCount = (text: string): number => {
  const single = [...text.matchAll(/\*([^\n*]*)\*/g)].filter(([, inner]) => !isBlankText(inner!))
  const double = [...text.matchAll(/\*\*([^\n*]*)\*\*/g)].filter(([, inner]) => !isBlankText(inner!))
  return single.length + double.length
}

/**
 * Returns true if a line has text in double angle brackets: from the first opening to the last
 * closing ones.
 */
const hasTitle = (line: string): boolean => {
  const open = line.indexOf('<<')
  const close = line.lastIndexOf('>>')
  if (open < 0 || close < open + 3) return false
  return !isBlankText(stripEndOf(stripStartOf(line.slice(open, close), '<'), '>'))
}

/** Returns the content if the text is one fenced block, and the text otherwise. */
const withoutFence = (text: string): string => {
  // Removes one fence after another, as the published check does.
  const opened = ['```json', '```Json', '```JSON', '```'].reduce(
    (rest, fence) => (rest.startsWith(fence) ? rest.slice(fence.length) : rest),
    stripText(text),
  )
  return stripText(opened.endsWith('```') ? opened.slice(0, -3) : opened)
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false // the only way to find out that a text is not JSON
  }
}

/** Returns a pattern for a postscript, to be used on lower case. */
const postscript = (marker: string): RegExp => {
  if (marker === 'P.P.S') return new RegExp(`p\\.[${SPACE}]?p\\.[${SPACE}]?s`)
  if (marker === 'P.S.') return new RegExp(`p\\.[${SPACE}]?s\\.`)
  return new RegExp(escaped(marker.toLowerCase()))
}

export const FORMATS: CheckTable<
  | 'detectable_content:number_placeholders'
  | 'detectable_content:postscript'
  | 'detectable_format:number_bullet_lists'
  | 'detectable_format:constrained_response'
  | 'detectable_format:number_highlighted_sections'
  | 'detectable_format:multiple_sections'
  | 'detectable_format:json_format'
  | 'detectable_format:title'
> = {
  'detectable_content:number_placeholders':
    ({ num_placeholders }) =>
    (text) =>
      placeholderCount(text) >= num_placeholders,
  'detectable_content:postscript': ({ postscript_marker }) => {
    const pattern = postscript(stripText(postscript_marker))
    return (text) => pattern.test(text.toLowerCase())
  },
  'detectable_format:number_bullet_lists':
    ({ num_bullets }) =>
    (text) =>
      bulletCount(text, '*', '*') + bulletCount(text, '-') === num_bullets,
  'detectable_format:constrained_response': () => (text) =>
    CONSTRAINED_RESPONSES.some((response) => text.includes(response)),
  'detectable_format:number_highlighted_sections':
    ({ num_highlights }) =>
    (text) =>
      highlightCount(text) >= num_highlights,
  'detectable_format:multiple_sections': ({ section_spliter, num_sections }) => {
    const pattern = new RegExp(`${escaped(stripText(section_spliter))}[${SPACE}]?\\p{Nd}+`, 'gu')
    return (text) => [...text.matchAll(pattern)].length >= num_sections
  },
  'detectable_format:json_format': () => (text) => isJson(withoutFence(text)),
  'detectable_format:title': () => (text) => text.split('\n').some(hasTitle),
}
