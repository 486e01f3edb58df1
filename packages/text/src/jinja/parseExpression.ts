/**
 * The parser of expressions, with the grammar of Python's Jinja.
 *
 * Precedence, from lowest to highest: `if else`, `or`, `and`, `not`, comparisons (which chain), `+
 * -`, `~`, `* / // %`, `**`, signs, then filters, tests, members and calls.
 *
 * Source   `jinja2.parser` 3.1.6.
 */
import { type Cursor, isWord, type TokenType } from './cursor.js'
import type { CallNode, Expression, FilterName, IdentifierNode, Parameters } from './tree.js'

type Parse = (cursor: Cursor) => Expression

const identifier = (value: string): IdentifierNode => ({ type: 'Identifier', value })

/** Parses left-associative operators of one precedence. */
const leftToRight =
  (operand: Parse, isOperator: (cursor: Cursor) => string | undefined): Parse =>
  (cursor) => {
    let left = operand(cursor)
    for (let value = isOperator(cursor); value !== undefined; value = isOperator(cursor)) {
      left = { type: 'BinaryExpression', operator: { value }, left, right: operand(cursor) }
    }
    return left
  }

/** Consumes the next token if it is one of these operators. */
const reading =
  (type: TokenType, ...values: readonly string[]) =>
  (cursor: Cursor): string | undefined =>
    values.find((value) => cursor.skip(type, value))

/** Parses items between commas, up to a closing bracket. A trailing comma is allowed. */
const commaSeparated = <T>(cursor: Cursor, close: TokenType, item: () => T): readonly T[] => {
  const items: T[] = []
  while (!cursor.is(close)) {
    if (items.length > 0) cursor.expect('Comma')
    if (cursor.is(close)) break
    items.push(item())
  }
  cursor.expect(close)
  return items
}

const argumentOf = (cursor: Cursor): Expression => {
  if (cursor.skip('ExponentiationBinaryOperator')) {
    return { type: 'KeywordSpreadExpression', argument: parseExpression(cursor) }
  }
  if (cursor.skip('MultiplicativeBinaryOperator', '*')) {
    return { type: 'SpreadExpression', argument: parseExpression(cursor) }
  }
  if (!(cursor.is('Identifier') && cursor.is('Equals', undefined, 1))) return parseExpression(cursor)
  const key = identifier(cursor.expect('Identifier'))
  cursor.expect('Equals')
  return { type: 'KeywordArgumentExpression', key, value: parseExpression(cursor) }
}

/**
 * Returns true if arguments are in Python's order: positional, `*`, by name, `**`. Arguments by
 * name may precede each but the first.
 */
const isOrdered = (args: readonly Expression[]): boolean =>
  args.every(({ type }, i) => {
    const before = args.slice(0, i).map((argument) => argument.type)
    if (before.includes('KeywordSpreadExpression')) return false
    if (type === 'KeywordArgumentExpression' || type === 'KeywordSpreadExpression') return true
    return !before.includes('SpreadExpression') && !before.includes('KeywordArgumentExpression')
  })

const parseArguments = (cursor: Cursor): readonly Expression[] => {
  cursor.expect('OpenParen')
  const args = commaSeparated(cursor, 'CloseParen', () => argumentOf(cursor))
  if (!isOrdered(args)) throw new SyntaxError('arguments by position must come before those by name')
  return args
}

/** Parses the parameters of a macro or of a call block, with their defaults. */
export const parseParameters = (cursor: Cursor): Parameters => {
  cursor.expect('OpenParen')
  const all = commaSeparated(cursor, 'CloseParen', (): Parameters[number] => {
    const key = identifier(cursor.expect('Identifier'))
    return cursor.skip('Equals') ? { type: 'KeywordArgumentExpression', key, value: parseExpression(cursor) } : key
  })
  const first = all.findIndex(({ type }) => type !== 'Identifier')
  if (first !== -1 && all.slice(first).some(({ type }) => type === 'Identifier')) {
    throw new SyntaxError('a parameter without a default follows one with a default')
  }
  return all
}

const parseCall = (cursor: Cursor, callee: Expression): CallNode => ({
  type: 'CallExpression',
  callee,
  args: parseArguments(cursor),
})

const isPartEnd = (cursor: Cursor): boolean => cursor.is('CloseSquareBracket') || cursor.is('Comma')

/** Parses the subscript of a member: an index, or the bounds of a slice. */
const parseIndex = (cursor: Cursor): Expression => {
  const bound = (): Expression | undefined =>
    isPartEnd(cursor) || cursor.is('Colon') ? undefined : parseExpression(cursor)
  const start = bound()
  if (!cursor.skip('Colon')) {
    if (start === undefined) throw cursor.unexpected('an index')
    return start
  }
  const stop = bound()
  return { type: 'SliceExpression', start, stop, step: cursor.skip('Colon') ? bound() : undefined }
}

const parseMember = (cursor: Cursor, object: Expression): Expression => {
  if (cursor.skip('Dot')) {
    const property: Expression = cursor.is('NumericLiteral')
      ? { type: 'IntegerLiteral', value: Number(cursor.expect('NumericLiteral')) }
      : identifier(cursor.expect('Identifier'))
    return { type: 'MemberExpression', object, property, computed: false }
  }
  cursor.expect('OpenSquareBracket')
  const parts = commaSeparated(cursor, 'CloseSquareBracket', () => parseIndex(cursor))
  const [only] = parts
  if (only === undefined) throw cursor.unexpected('an index')
  const property: Expression = parts.length === 1 ? only : { type: 'TupleLiteral', value: parts }
  return { type: 'MemberExpression', object, property, computed: true }
}

/** Parses the members and calls after an operand. */
const parsePostfix = (cursor: Cursor, operand: Expression): Expression => {
  let node = operand
  for (;;) {
    if (cursor.is('Dot') || cursor.is('OpenSquareBracket')) node = parseMember(cursor, node)
    else if (cursor.is('OpenParen')) node = parseCall(cursor, node)
    else return node
  }
}

/** Parses the name of a filter or a test, with its arguments if it has parentheses. */
const parseFilterName = (cursor: Cursor): FilterName => {
  const name = identifier(cursor.expect('Identifier'))
  return cursor.is('OpenParen') ? parseCall(cursor, name) : name
}

/** Parses a row of filters. `first` is 'bar' if the first filter has its bar in front. */
export const parseFilters = (cursor: Cursor, first: 'bar' | 'no bar'): readonly FilterName[] => {
  const filters = first === 'no bar' ? [parseFilterName(cursor)] : []
  while (cursor.skip('Pipe')) filters.push(parseFilterName(cursor))
  return filters
}

const isTestArgument = (cursor: Cursor): boolean =>
  cursor.is('StringLiteral') ||
  cursor.is('NumericLiteral') ||
  cursor.is('OpenSquareBracket') ||
  cursor.is('OpenCurlyBracket') ||
  (cursor.is('Identifier') && !isWord(cursor, 'else', 'or', 'and'))

/** Parses `is [not] name`, with arguments in parentheses or one without. */
const parseTest = (cursor: Cursor, operand: Expression): Expression => {
  cursor.expect('Identifier', 'is')
  const negate = cursor.skip('Identifier', 'not')
  const test = identifier(cursor.expect('Identifier'))
  if (cursor.is('OpenParen')) return { type: 'TestExpression', operand, negate, test, args: parseArguments(cursor) }
  if (isWord(cursor, 'is')) throw new SyntaxError("tests with 'is' cannot follow each other")
  const args = isTestArgument(cursor) ? [parsePostfix(cursor, parsePrimary(cursor))] : []
  return { type: 'TestExpression', operand, negate, test, args }
}

const parseFiltersAndTests = (cursor: Cursor, operand: Expression): Expression => {
  let node = operand
  for (;;) {
    if (cursor.skip('Pipe')) node = { type: 'FilterExpression', operand: node, filter: parseFilterName(cursor) }
    else if (isWord(cursor, 'is')) node = parseTest(cursor, node)
    else if (cursor.is('OpenParen')) node = parseCall(cursor, node)
    else return node
  }
}

const literal = (text: string): Expression =>
  text.includes('.') ? { type: 'FloatLiteral', value: Number(text) } : { type: 'IntegerLiteral', value: Number(text) }

/** Parses a literal, a name, or an expression in brackets. */
export const parsePrimary: Parse = (cursor) => {
  if (cursor.is('Identifier')) return identifier(cursor.expect('Identifier'))
  if (cursor.is('NumericLiteral')) return literal(cursor.expect('NumericLiteral'))
  if (cursor.is('StringLiteral')) {
    let value = ''
    while (cursor.is('StringLiteral')) value += cursor.expect('StringLiteral')
    return { type: 'StringLiteral', value }
  }
  if (cursor.skip('OpenSquareBracket')) {
    return {
      type: 'ArrayLiteral',
      value: commaSeparated(cursor, 'CloseSquareBracket', () => parseExpression(cursor)),
    }
  }
  if (cursor.skip('OpenCurlyBracket')) {
    const entries = commaSeparated(cursor, 'CloseCurlyBracket', () => {
      const key = parseExpression(cursor)
      cursor.expect('Colon')
      return [key, parseExpression(cursor)] as const
    })
    return { type: 'ObjectLiteral', value: entries }
  }
  if (cursor.skip('OpenParen')) {
    const inner: Expression = cursor.is('CloseParen')
      ? { type: 'TupleLiteral', value: [] }
      : parseTuple(cursor, parseExpression)
    cursor.expect('CloseParen')
    return inner
  }
  throw cursor.unexpected('a value')
}

const SIGNS = ['-', '+'] as const

/** Parses an operand without its filters: signs bind less than members and more than filters. */
const parseSigned: Parse = (cursor) => {
  const value = SIGNS.find((sign) => cursor.skip('UnaryOperator', sign) || cursor.skip('AdditiveBinaryOperator', sign))
  return value === undefined
    ? parsePostfix(cursor, parsePrimary(cursor))
    : { type: 'UnaryExpression', operator: { value }, argument: parseSigned(cursor) }
}

const parseUnary: Parse = (cursor) => parseFiltersAndTests(cursor, parseSigned(cursor))
const parsePower = leftToRight(parseUnary, reading('ExponentiationBinaryOperator', '**'))
const parseProduct = leftToRight(parsePower, reading('MultiplicativeBinaryOperator', '*', '/', '//', '%'))
const parseConcatenation = leftToRight(parseProduct, reading('AdditiveBinaryOperator', '~'))
const parseSum = leftToRight(parseConcatenation, reading('AdditiveBinaryOperator', '+', '-'))

const readComparison = (cursor: Cursor): string | undefined => {
  if (cursor.is('ComparisonBinaryOperator')) return cursor.expect('ComparisonBinaryOperator')
  if (cursor.skip('Identifier', 'in')) return 'in'
  if (!(isWord(cursor, 'not') && cursor.is('Identifier', 'in', 1))) return undefined
  cursor.expect('Identifier', 'not')
  cursor.expect('Identifier', 'in')
  return 'not in'
}

const parseComparison: Parse = (cursor) => {
  const operand = parseSum(cursor)
  const rest: { readonly operator: string; readonly right: Expression }[] = []
  for (let operator = readComparison(cursor); operator !== undefined; operator = readComparison(cursor)) {
    rest.push({ operator, right: parseSum(cursor) })
  }
  return rest.length === 0 ? operand : { type: 'Comparison', operand, rest }
}

const parseNot: Parse = (cursor) =>
  cursor.skip('Identifier', 'not')
    ? { type: 'UnaryExpression', operator: { value: 'not' }, argument: parseNot(cursor) }
    : parseComparison(cursor)

const parseAnd = leftToRight(parseNot, reading('Identifier', 'and'))

/** Parses an expression without `if else`, for conditions and iterables of loops. */
export const parseOr = leftToRight(parseAnd, reading('Identifier', 'or'))

/**
 * Parses an expression. Errors: throws SyntaxError for expressions that Python's Jinja does not
 * parse.
 */
export const parseExpression: Parse = (cursor) => {
  let node = parseOr(cursor)
  while (cursor.skip('Identifier', 'if')) {
    const condition = parseOr(cursor)
    const falseExpr = cursor.skip('Identifier', 'else') ? parseExpression(cursor) : undefined
    node = { type: 'Ternary', condition, trueExpr: node, falseExpr }
  }
  return node
}

const isTupleEnd = (cursor: Cursor): boolean =>
  cursor.is('CloseParen') || cursor.is('CloseStatement') || cursor.is('CloseExpression')

/** Parses one expression, or several between commas as a tuple. */
export const parseTuple = (cursor: Cursor, item: Parse): Expression => {
  const first = item(cursor)
  if (!cursor.is('Comma')) return first
  const value = [first]
  while (cursor.skip('Comma') && !isTupleEnd(cursor)) value.push(item(cursor))
  return { type: 'TupleLiteral', value }
}
