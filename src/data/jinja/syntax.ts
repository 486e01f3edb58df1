/** The syntax tree of a template. The lexer is that of `@huggingface/jinja`; the parser is ours, because the library's groups otherwise than Python. */
import { tokenize } from '@huggingface/jinja'
import { cursorOf } from './cursor.js'
import { GENERATION, parseStatements } from './parseStatement.js'
import type { Statement } from './tree.js'

/**
 * The syntax tree of a template.
 *
 * Errors   throws SyntaxError if the source is not valid Jinja, or has what is not supported.
 */
export const parseTemplate = (source: string): readonly Statement[] => {
  const rewritten = source
    .replace(/\r\n?/g, '\n') // as Python's Jinja does when it reads a template
    .replace(/\{%(-?)\s*(end)?generation\s*(-?)%\}/g, `{%$1 $2${GENERATION} $3%}`) // a tag that the lexer would delete
  return parseStatements(cursorOf(tokenize(rewritten, { trim_blocks: true, lstrip_blocks: true })))
}
