/** Rewriting of `raw` blocks, which the lexer does not support, as printed strings. */

const RAW_START = /\{%([-+]?)\s*raw\s*(-?)%\}/y
const RAW_END = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g

/**
 * Returns the text as a string literal of a template, without anything that the lexer could take
 * for a tag.
 */
const literal = (text: string): string => {
  const body = text.replace(/[{}'\\\n]/g, (c) =>
    c === '\n' ? '\\n' : `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
  return `'${body}'`
}

/** Removes the blanks that begin the line of the tag after a text, as with `lstrip_blocks`. */
const withoutIndent = (text: string, sign: string | undefined, starts: 'a line' | 'inside a line'): string => {
  if (sign === '-') return text.trimEnd()
  const line = text.lastIndexOf('\n') + 1
  const isLine = line > 0 || starts === 'a line'
  return sign === '' && isLine && /^[ \t]*$/.test(text.slice(line)) ? text.slice(0, line) : text
}

/**
 * Replaces the `raw` blocks of a template by expressions.
 *
 * Errors   throws SyntaxError for a block that is never closed.
 * Cost     O(length).
 */
export const withoutRaw = (source: string): string => {
  const parts: string[] = []
  let done = 0
  let starts: 'a line' | 'inside a line' = 'a line'
  for (let at = source.indexOf('{'); at >= 0; at = source.indexOf('{', at + 1)) {
    if (source[at + 1] === '#') {
      const end = source.indexOf('#}', at + 2)
      if (end < 0) break
      at = end + 1
      continue
    }
    RAW_START.lastIndex = at
    const start = RAW_START.exec(source)
    if (start === null) continue
    RAW_END.lastIndex = RAW_START.lastIndex
    const end = RAW_END.exec(source)
    if (end === null) throw new SyntaxError("a 'raw' block has no 'endraw'")
    const content = source.slice(RAW_START.lastIndex, end.index)
    const text = withoutIndent(start[2] === '-' ? content.trimStart() : content, end[1], 'inside a line')
    const isCut = end[2] === '' && source[RAW_END.lastIndex] === '\n'
    parts.push(
      withoutIndent(source.slice(done, at), start[1], starts),
      `{{${start[1] === '-' ? '-' : ''} ${literal(text)} ${end[2] === '-' ? '-' : ''}}}`,
    )
    done = RAW_END.lastIndex + (isCut ? 1 : 0)
    starts = isCut ? 'a line' : 'inside a line'
    at = RAW_END.lastIndex - 1
  }
  return done === 0 ? source : parts.join('') + source.slice(done)
}
