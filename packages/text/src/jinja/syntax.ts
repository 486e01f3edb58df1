/**
 * The syntax tree of a template. The lexer is that of `@huggingface/jinja`; the parser is ours,
 * because the library's precedences differ from Python's.
 */
import { tokenize } from '@huggingface/jinja'
import { cursorOf } from './cursor.js'
import { GENERATION, parseStatements } from './parseStatement.js'
import { withoutRaw } from './raw.js'
import type { Statement } from './tree.js'

/** The longest source, in UTF-16 units. The largest published templates have about 50,000. */
const LONGEST = 2 ** 18

/** The longest run of white space, in which the lexer is quadratic. */
const LONGEST_BLANK = 500

const refuseBlanks = (source: string): void => {
  let blanks = 0
  for (const character of source) {
    blanks = /\s/.test(character) ? blanks + 1 : 0
    if (blanks > LONGEST_BLANK) throw new SyntaxError(`more than ${LONGEST_BLANK} blanks in a row`)
  }
}

/**
 * Parses a template.
 *
 * Errors   throws SyntaxError if the source is not valid Jinja, uses unsupported features, or is
 *          too long.
 */
export const parseTemplate = (source: string): readonly Statement[] => {
  if (source.length > LONGEST) throw new SyntaxError(`a template of more than ${LONGEST} characters`)
  const unix = source.replace(/\r\n?/g, '\n') // as Python's Jinja does when it reads a template
  refuseBlanks(unix)
  const rewritten = withoutRaw(unix).replace(/\{%(-?)\s*(end)?generation\s*(-?)%\}/g, `{%$1 $2${GENERATION} $3%}`) // a tag that the lexer would delete
  return parseStatements(cursorOf(tokenize(rewritten, { trim_blocks: true, lstrip_blocks: true })))
}
