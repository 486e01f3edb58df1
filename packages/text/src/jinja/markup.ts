/**
 * Python's `Markup`, the result of `safe` and `escape`: `+` escapes text that is joined to it. As
 * in Transformers, templates do not escape their output, so nothing else depends on it.
 */
import { derived, joinPrinted } from './origin.js'
import { str } from './print.js'
import type { TracedValue } from './value.js'

/** Filters that return `Markup`. */
const MAKING: ReadonlySet<string> = new Set(['safe', 'e', 'escape', 'forceescape'])

/** Filters that return `Markup` for `Markup`. */
const KEEPING: ReadonlySet<string> = new Set(['capitalize', 'd', 'default', 'lower', 'string', 'trim', 'upper'])

/** Replaces the five characters that HTML reserves. */
export const escapeHtml = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('>', '&gt;')
    .replaceAll('<', '&lt;')
    .replaceAll("'", '&#39;')
    .replaceAll('"', '&#34;')

const asMarkup = (text: TracedValue): TracedValue => ({ ...text, isMarkup: true })

/** Returns the result of a filter, as `Markup` if Jinja's filter returns that. */
export const filterResult = (name: string, input: TracedValue, result: TracedValue): TracedValue => {
  if (input.isMarkup && (name === 'e' || name === 'escape')) return input // it is escaped already
  return MAKING.has(name) || (input.isMarkup && KEEPING.has(name)) ? asMarkup(result) : result
}

const escaped = (text: TracedValue): TracedValue =>
  text.isMarkup ? text : derived(escapeHtml(str(text.value)), [text.origin])

/** Joins two texts as `+` does. */
export const addTexts = (left: TracedValue, right: TracedValue): TracedValue =>
  left.isMarkup || right.isMarkup ? asMarkup(joinPrinted(escaped(left), escaped(right))) : joinPrinted(left, right)
