/**
 * The parser of statements, with the grammar of Python's Jinja and its loop controls. Unknown
 * statements are refused by name.
 *
 * Source   `jinja2.parser` 3.1.6, and the `generation` blocks of Transformers.
 */
import { type Cursor, isWord } from './cursor.js'
import { parseExpression, parseFilters, parseOr, parseParameters, parsePrimary, parseTuple } from './parseExpression.js'
import type { Expression, Statement } from './tree.js'

/**
 * The surroundings of a statement: `break` and `continue` must be directly in the loop that they
 * end.
 */
type Around = 'loop' | 'no loop'

const isTag = (cursor: Cursor, ...names: readonly string[]): boolean =>
  cursor.is('OpenStatement') && names.some((name) => cursor.is('Identifier', name, 1))

/** Parses statements up to a tag with one of these names, without consuming the tag. */
const parseUntil = (cursor: Cursor, around: Around, ...ends: readonly string[]): readonly Statement[] => {
  const body: Statement[] = []
  while (!isTag(cursor, ...ends)) {
    if (cursor.isEnd()) throw cursor.unexpected(ends.map((end) => `'${end}'`).join(' or '))
    body.push(parseOne(cursor, around))
  }
  return body
}

const closeTag = (cursor: Cursor): void => {
  cursor.expect('CloseStatement')
}

const tag = (cursor: Cursor, name: string): void => {
  cursor.expect('OpenStatement')
  cursor.expect('Identifier', name)
  closeTag(cursor)
}

/** Parses the rest of a tag, the statements after it, and its end tag. */
const parseBody = (cursor: Cursor, around: Around, end: string): readonly Statement[] => {
  closeTag(cursor)
  const body = parseUntil(cursor, around, end)
  tag(cursor, end)
  return body
}

const parseIf = (cursor: Cursor, around: Around): Statement => {
  const test = parseTuple(cursor, parseOr)
  closeTag(cursor)
  const body = parseUntil(cursor, around, 'elif', 'else', 'endif')
  cursor.expect('OpenStatement')
  if (cursor.skip('Identifier', 'elif')) return { type: 'If', test, body, alternate: [parseIf(cursor, around)] }
  if (cursor.skip('Identifier', 'else'))
    return { type: 'If', test, body, alternate: parseBody(cursor, around, 'endif') }
  cursor.expect('Identifier', 'endif')
  closeTag(cursor)
  return { type: 'If', test, body, alternate: [] }
}

const CONSTANTS: ReadonlySet<string> = new Set(['true', 'false', 'none', 'True', 'False', 'None'])

const requireTarget = (target: Expression): Expression => {
  const isPlain = target.type === 'Identifier' && !CONSTANTS.has(target.value)
  const isMember = target.type === 'MemberExpression' && target.object.type === 'Identifier' && !target.computed
  if (target.type === 'TupleLiteral') target.value.forEach(requireTarget)
  else if (!(isPlain || isMember)) throw new SyntaxError(`cannot assign to a ${target.type}`)
  return target
}

const parseFor = (cursor: Cursor, around: Around): Statement => {
  const loopvar = requireTarget(parseTuple(cursor, parsePrimary))
  cursor.expect('Identifier', 'in')
  const iterable = parseTuple(cursor, parseOr)
  const condition = cursor.skip('Identifier', 'if') ? parseExpression(cursor) : undefined
  if (isWord(cursor, 'recursive')) throw new SyntaxError("a loop that is 'recursive' is not supported")
  closeTag(cursor)
  const body = parseUntil(cursor, 'loop', 'else', 'endfor')
  cursor.expect('OpenStatement')
  const node = { type: 'For', loopvar, iterable, condition, body } as const
  if (cursor.skip('Identifier', 'else')) return { ...node, defaultBlock: parseBody(cursor, around, 'endfor') }
  cursor.expect('Identifier', 'endfor')
  closeTag(cursor)
  return { ...node, defaultBlock: [] }
}

/** Parses a name, or a field of a namespace. */
const parseSetName = (cursor: Cursor): Expression => {
  const object = parsePrimary(cursor)
  if (!cursor.skip('Dot')) return object
  const property = { type: 'Identifier', value: cursor.expect('Identifier') } as const
  return { type: 'MemberExpression', object, property, computed: false }
}

const parseSet = (cursor: Cursor): Statement => {
  const assignee = requireTarget(parseTuple(cursor, parseSetName))
  if (cursor.skip('Equals')) {
    const value = parseTuple(cursor, parseExpression)
    closeTag(cursor)
    return { type: 'Set', assignee, value }
  }
  const filters = parseFilters(cursor, 'bar')
  return { type: 'SetBlock', assignee, filters, body: parseBody(cursor, 'no loop', 'endset') }
}

const parseCallBlock = (cursor: Cursor): Statement => {
  const callerArgs = cursor.is('OpenParen') ? parseParameters(cursor) : []
  const call = parseExpression(cursor)
  if (call.type !== 'CallExpression') throw cursor.unexpected("a call after 'call'")
  return { type: 'CallStatement', call, callerArgs, body: parseBody(cursor, 'no loop', 'endcall') }
}

const parseControl = (cursor: Cursor, around: Around, type: 'Break' | 'Continue'): Statement => {
  if (around === 'no loop') throw new SyntaxError(`'${type.toLowerCase()}' is not directly in a loop`)
  closeTag(cursor)
  return { type }
}

/** The name of the tag that replaces `generation`, which the lexer would delete. */
export const GENERATION = 'generation_block'

const parseTag = (cursor: Cursor, around: Around): Statement => {
  cursor.expect('OpenStatement')
  const name = cursor.expect('Identifier')
  switch (name) {
    case 'if':
      return parseIf(cursor, around)
    case 'for':
      return parseFor(cursor, around)
    case 'set':
      return parseSet(cursor)
    case 'macro': {
      const macro = cursor.expect('Identifier')
      const args = parseParameters(cursor)
      return { type: 'Macro', name: macro, args, body: parseBody(cursor, 'no loop', 'endmacro') }
    }
    case 'call':
      return parseCallBlock(cursor)
    case 'filter': {
      const filters = parseFilters(cursor, 'no bar')
      return { type: 'FilterStatement', filters, body: parseBody(cursor, 'no loop', 'endfilter') }
    }
    case GENERATION:
      return { type: 'Generation', body: parseBody(cursor, 'no loop', `end${GENERATION}`) }
    case 'break':
      return parseControl(cursor, around, 'Break')
    case 'continue':
      return parseControl(cursor, around, 'Continue')
    default:
      throw new SyntaxError(`the statement '${name}' is unknown, or not supported here`)
  }
}

const parseOne = (cursor: Cursor, around: Around): Statement => {
  if (cursor.is('Comment')) {
    cursor.expect('Comment')
    return { type: 'Comment' }
  }
  if (cursor.is('Text')) return { type: 'Text', value: cursor.expect('Text') }
  if (!cursor.skip('OpenExpression')) return parseTag(cursor, around)
  const value = parseTuple(cursor, parseExpression)
  cursor.expect('CloseExpression')
  return { type: 'Output', value }
}

/**
 * Parses all statements of a template. Errors: throws SyntaxError for statements that Python's
 * Jinja does not parse, or that are not supported.
 */
export const parseStatements = (cursor: Cursor): readonly Statement[] => {
  const program: Statement[] = []
  while (!cursor.isEnd()) program.push(parseOne(cursor, 'no loop'))
  return program
}
