/** Expressions in Oniguruma's syntax as JavaScript's, translated by `@huggingface/tokenizers`. */
import * as library from '@huggingface/tokenizers'
import type { PatternJson } from './files.js'
import { repeatsChoices } from './patternGuard.js'

/** The part of the library that is used here; its own declarations are not resolved under Node's module rules. */
interface Translator {
  readonly SplitPreTokenizer: new (json: object) => { readonly pattern: RegExp | null }
}

const { SplitPreTokenizer } = library as unknown as Translator // see `Translator`

/** A half-open range of a text, and whether a pattern matched there. */
export interface Found {
  readonly start: number
  readonly end: number
  readonly isMatch: boolean
}

/**
 * The JavaScript expression that finds what a pattern of `tokenizer.json` finds, flags `gu`.
 *
 * Errors   throws SyntaxError for an expression that cannot be translated, or that repeats what can match in several ways.
 */
export const compilePattern = (pattern: PatternJson): RegExp => {
  const json = { type: 'Split', pattern, behavior: 'Isolated', invert: true }
  const { pattern: compiled } = new SplitPreTokenizer(json)
  if (compiled === null) throw new SyntaxError(`not a pattern: ${JSON.stringify(pattern)}`)
  if ('Regex' in pattern && repeatsChoices(compiled.source)) {
    throw new SyntaxError(`the pattern ${JSON.stringify(pattern.Regex.slice(0, 100))} may take exponential time`)
  }
  return compiled
}

/** The text in order: matches and what is between them. An empty match is a range too. */
export const findAll = (text: string, expression: RegExp): readonly Found[] => {
  const found: Found[] = []
  let end = 0
  for (const match of text.matchAll(expression)) {
    if (match.index > end) found.push({ start: end, end: match.index, isMatch: false })
    end = match.index + match[0].length
    found.push({ start: match.index, end, isMatch: true })
  }
  if (end < text.length) found.push({ start: end, end: text.length, isMatch: false })
  return found
}
