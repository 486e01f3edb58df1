/**
 * Parses answers to mathematical problems into trees.
 *
 * Precedence, from lowest to highest: lists, relations, unions, ratios, sums, products (also
 * without a sign), signs, powers. A function applies to the factors after its name, up to the next
 * sign or function.
 */
import { type MathCursor, mathCursorOf, numberAt } from './cursor.js'
import { rationalOf } from './exact.js'
import { bareAnswer, LONGEST, mathTokensOf, type Token } from './tokens.js'
import { type MathTree, negated, numberTree, type Relation, type TreeOf } from './tree.js'
import { isMeasure, unitsOf } from './units.js'

const MOST_TOKENS = 600
const RELATIONS = ['=', '<', '>', '≤', '≥', '≠', '∈', '≈'] as const

const symbol = (name: string): MathTree => ({ _tag: 'Symbol', name, kind: 'variable' })

const listOf = (items: readonly MathTree[], of: TreeOf<'List'>['of']): MathTree =>
  items.length === 1 ? items[0]! : { _tag: 'List', items, of }

/**
 * Reads values separated by commas, up to one of these signs or the end. Repeated commas count
 * once.
 */
const readItems = (cursor: MathCursor, ...until: readonly string[]): readonly MathTree[] => {
  const items: MathTree[] = []
  while (cursor.peek() !== undefined && !cursor.isSign(...until)) {
    if (cursor.skip(',', ';', 'or') !== undefined) continue
    items.push(readRelation(cursor))
    if (cursor.peek() !== undefined && !cursor.isSign(...until, ',', ';', 'or'))
      throw new SyntaxError('expected a comma')
  }
  return items
}

const readRelation = (cursor: MathCursor): MathTree => {
  const sides = [readUnion(cursor)]
  const relations: Relation[] = []
  while (cursor.isSign(...RELATIONS)) {
    relations.push(cursor.take().text as Relation) // one of RELATIONS, by the line before
    sides.push(readUnion(cursor))
  }
  return relations.length === 0 ? sides[0]! : { _tag: 'Relation', relations, sides }
}

const readUnion = (cursor: MathCursor): MathTree => {
  let left = readRatio(cursor)
  while (cursor.isSign('∪', '∩', '∖')) {
    const operator = cursor.take().text as TreeOf<'SetOperation'>['operator'] // one of the three
    left = { _tag: 'SetOperation', operator, left, right: readRatio(cursor) }
  }
  return left
}

const readRatio = (cursor: MathCursor): MathTree => {
  const parts = [readSum(cursor)]
  while (cursor.skip(':') !== undefined) parts.push(readSum(cursor))
  if (parts.length === 1) return parts[0]!
  return parts.length === 2
    ? { _tag: 'Quotient', over: parts[0]!, under: parts[1]! }
    : { _tag: 'Call', name: 'ratio', of: parts }
}

const signed = (sign: string, of: MathTree): MathTree => {
  if (sign === '±' || sign === '∓') return { _tag: 'PlusMinus', sign: sign === '±' ? 1 : -1, of }
  return sign === '-' ? negated(of) : of
}

const readSum = (cursor: MathCursor): MathTree => {
  const terms = [readTerm(cursor)]
  while (cursor.isSign('+', '-', '±', '∓')) terms.push(signed(cursor.take().text, readTerm(cursor)))
  return terms.length === 1 ? terms[0]! : { _tag: 'Sum', terms }
}

/** Reads a product with the signs in front of it. */
const readTerm = (cursor: MathCursor): MathTree => {
  const signs: string[] = []
  for (let sign = cursor.skip('+', '-', '±', '∓'); sign !== undefined; sign = cursor.skip('+', '-', '±', '∓'))
    signs.push(sign)
  return signs.reduceRight((of, sign) => signed(sign, of), readProduct(cursor))
}

const STARTS: ReadonlySet<string> = new Set(['(', '[', '{', 'frac', 'binom', '⌊', '⌈', '⟨'])

/** Returns true if the next token starts a factor without a multiplication sign. */
const beginsFactor = (cursor: MathCursor): boolean => {
  const next = cursor.peek()
  if (next === undefined) return false
  if (next.kind !== 'sign') return true
  return STARTS.has(next.text) || (next.text === '|' && !cursor.barCloses())
}

const isInteger = (tree: MathTree): tree is TreeOf<'Number'> => tree._tag === 'Number' && tree.value.denominator === 1n

/** Reads a mixed number, `1\frac{1}{2}` or `1 1/2`, which is a sum. */
const readMixed = (cursor: MathCursor, whole: MathTree): MathTree | undefined => {
  if (!isInteger(whole)) return undefined
  if (cursor.isSign('frac')) {
    const fraction = readPower(cursor)
    const isMixed = fraction._tag === 'Quotient' && isInteger(fraction.over) && isInteger(fraction.under)
    return isMixed ? { _tag: 'Sum', terms: [whole, fraction] } : { _tag: 'Product', factors: [whole, fraction] }
  }
  if (cursor.peek()?.kind !== 'number') return undefined
  const over = numberAt(cursor.take().text)
  cursor.expect('/')
  const under = numberAt(cursor.take().text)
  if (!isInteger(over) || !isInteger(under)) throw new SyntaxError('a number behind a number')
  return { _tag: 'Sum', terms: [whole, { _tag: 'Quotient', over, under }] }
}

/** Returns the product of factors, in which words are units. */
const productOf = (factors: readonly MathTree[]): MathTree => {
  if (factors.length === 1) return factors[0]!
  return { _tag: 'Product', factors: factors.map(measure) }
}

const readProduct = (cursor: MathCursor): MathTree => {
  const first = readPower(cursor)
  const factors: MathTree[] = [readMixed(cursor, first) ?? first]
  for (;;) {
    const operator = cursor.skip('*', '/')
    if (operator === undefined && !beginsFactor(cursor)) return productOf(factors)
    if (operator === undefined && cursor.peek()?.kind === 'number' && factors.at(-1)?._tag === 'Number')
      throw new SyntaxError('a number behind a number')
    const next = operator === undefined ? readPower(cursor) : readFactor(cursor)
    if (operator !== '/') factors.push(next)
    else {
      const isPer = factors.at(-1)?._tag === 'Text' && next._tag === 'Symbol' // km/h
      const under = isPer ? unitsOf(next.name) : measure(next)
      factors.splice(0, factors.length, { _tag: 'Quotient', over: productOf(factors), under })
    }
  }
}

const measure = (tree: MathTree): MathTree => (tree._tag === 'Text' && isMeasure(tree.text) ? unitsOf(tree.text) : tree)

/** Reads the factor after a multiplication sign, which may have its own sign. */
const readFactor = (cursor: MathCursor): MathTree => {
  const sign = cursor.skip('+', '-')
  return sign === undefined
    ? readPower(cursor)
    : signed(
        sign,
        cursor.inside(() => readFactor(cursor)),
      )
}

const isDegree = (tree: MathTree): boolean => tree._tag === 'Symbol' && tree.name === '°'

/** Reads an exponent: a group, or one token with an optional sign. */
const readExponent = (cursor: MathCursor): MathTree =>
  cursor.inside(() => {
    if (cursor.skip('°') !== undefined) return symbol('°')
    if (cursor.isSign('{')) return readGroup(cursor)
    return readFactor(cursor)
  })

const readPower = (cursor: MathCursor): MathTree => {
  let base = readPrimary(cursor)
  for (;;) {
    if (cursor.skip('^') !== undefined) {
      const exponent = readExponent(cursor)
      base = isDegree(exponent) ? { _tag: 'Degrees', of: base } : { _tag: 'Power', base: measure(base), exponent }
    } else if (cursor.skip('!') !== undefined) base = { _tag: 'Call', name: 'factorial', of: [base] }
    else if (cursor.skip('%') !== undefined) base = { _tag: 'Percent', of: base }
    else if (cursor.skip('°') !== undefined) base = { _tag: 'Degrees', of: base }
    else if (cursor.skip("'") !== undefined && base._tag === 'Symbol') base = symbol(`${base.name}'`)
    else return base
  }
}

const spelled = (cursor: MathCursor): string => {
  if (cursor.skip('{') === undefined) return cursor.take().text
  const parts: string[] = []
  while (cursor.skip('}') === undefined) parts.push(cursor.take().text)
  return parts.join('')
}

/** Reads the content of braces: one value, a set, or a degree sign. */
const readGroup = (cursor: MathCursor): MathTree =>
  cursor.inside(() => {
    cursor.expect('{')
    if (cursor.skip('°') !== undefined) {
      cursor.expect('}')
      return symbol('°')
    }
    const items = readItems(cursor, '}')
    cursor.expect('}')
    if (items.length === 0) throw new SyntaxError('an empty group')
    return items.length === 1 ? items[0]! : { _tag: 'Set', items }
  })

/** Reads an argument as LaTeX does: a group, or one token. */
const readArgument = (cursor: MathCursor): MathTree =>
  cursor.inside(() => {
    if (cursor.isSign('{')) return readGroup(cursor)
    const next = cursor.peek()
    return next?.kind === 'number' || next?.kind === 'letter' ? atomOf(cursor.takeOne(), cursor) : readPrimary(cursor)
  })

const CONSTANTS: ReadonlySet<string> = new Set(['pi', 'e', 'i', 'infinity'])

/** Converts a token to a number, a letter with its index, or words. */
const atomOf = (token: Token, cursor: MathCursor): MathTree => {
  if (token.kind === 'text') return { _tag: 'Text', text: token.text }
  if (cursor.skip('_') !== undefined) return symbol(`${token.text}_${spelled(cursor)}`)
  if (token.kind === 'number') return numberAt(token.text)
  if (token.text === '∅') return { _tag: 'Set', items: [] }
  return CONSTANTS.has(token.text)
    ? ({ _tag: 'Constant', name: token.text } as MathTree) // one of the four names
    : symbol(token.text)
}

const readRoot = (cursor: MathCursor, call: string): MathTree =>
  cursor.inside(() => {
    const index = cursor.skip('[') === undefined ? undefined : readRelation(cursor)
    if (index !== undefined) cursor.expect(']')
    const of = call === 'sqrt' ? readArgument(cursor) : readPrimary(cursor)
    return { _tag: 'Call', name: 'root', of: [of, index ?? numberTree(2n)] }
  })

const ARCS: ReadonlyMap<string, string> = new Map([
  ['sin', 'arcsin'],
  ['cos', 'arccos'],
  ['tan', 'arctan'],
])

/** Returns true for an exponent of -1, which turns a function into its inverse. */
const isMinusOne = (tree: MathTree): boolean => {
  const value = rationalOf(tree)
  return value?.numerator === -1n && value.denominator === 1n
}

/**
 * Reads the operand of a function: the content of brackets, or the factors up to the next function,
 * sign or word.
 */
const readOperand = (cursor: MathCursor): readonly MathTree[] => {
  if (cursor.skip('(') !== undefined) {
    const items = readItems(cursor, ')')
    cursor.expect(')')
    return items
  }
  if (cursor.isSign('{')) return [readGroup(cursor)]
  const factors = [readFactor(cursor)]
  while (beginsFactor(cursor) && !['call', 'text'].includes(cursor.peek()!.kind) && !cursor.isSign('('))
    factors.push(readPower(cursor))
  return [productOf(factors)]
}

const readCall = (cursor: MathCursor, name: string): MathTree =>
  cursor.inside(() => {
    if (name === 'sqrt' || name === '√') return readRoot(cursor, name)
    const base = cursor.skip('_') === undefined ? [] : [readArgument(cursor)]
    const exponent = cursor.skip('^') === undefined ? undefined : readExponent(cursor)
    const arc = exponent !== undefined && isMinusOne(exponent) ? ARCS.get(name) : undefined
    const call: MathTree = { _tag: 'Call', name: arc ?? name, of: [...readOperand(cursor), ...base] }
    return exponent === undefined || arc !== undefined ? call : { _tag: 'Power', base: call, exponent }
  })

/** Reads the content of round or square brackets: one value, or a tuple. */
const readBrackets = (cursor: MathCursor, open: '(' | '['): MathTree =>
  cursor.inside(() => {
    const items = readItems(cursor, ')', ']')
    const close = cursor.take().text as ')' | ']' // the items end at one of the two, or `take` throws
    if (items.length === 0) throw new SyntaxError('empty brackets')
    const isGroup = items.length === 1 && (open === '(') === (close === ')')
    if (items.length === 1 && !isGroup) throw new SyntaxError('brackets that do not match')
    return isGroup ? items[0]! : { _tag: 'Tuple', open, close, items }
  })

const CLOSED_BY: ReadonlyMap<string, readonly [close: string, name: string]> = new Map([
  ['|', ['|', 'abs']],
  ['⌊', ['⌋', 'floor']],
  ['⌈', ['⌉', 'ceil']],
])

const MATRICES: ReadonlySet<string> = new Set(['pmatrix', 'bmatrix', 'matrix', 'Bmatrix', 'smallmatrix', 'array'])

const readMatrix = (cursor: MathCursor, name: string): MathTree =>
  cursor.inside(() => {
    if (!MATRICES.has(name)) throw new SyntaxError(`the environment ${name}`)
    if (name === 'array' && cursor.isSign('{')) spelled(cursor)
    const rows: MathTree[][] = [[]]
    while (!cursor.isSign(`end ${name}`)) {
      if (cursor.skip('row') !== undefined) rows.push([])
      else if (cursor.skip('&') === undefined) rows.at(-1)!.push(readRelation(cursor))
    }
    cursor.expect(`end ${name}`)
    return { _tag: 'Matrix', rows: rows.filter((row) => row.length > 0) }
  })

const readPrimary = (cursor: MathCursor): MathTree => {
  const next = cursor.peek()
  if (next === undefined) throw new SyntaxError('the answer ends too early')
  if (next.kind === 'sign' && next.text === '{') return readGroup(cursor)
  cursor.take()
  if (next.kind === 'call') return readCall(cursor, next.text)
  if (next.kind !== 'sign') return atomOf(next, cursor)
  if (next.text === '(' || next.text === '[') return readBrackets(cursor, next.text)
  if (next.text === 'frac') return { _tag: 'Quotient', over: readArgument(cursor), under: readArgument(cursor) }
  if (next.text === 'binom') return { _tag: 'Call', name: 'binom', of: [readArgument(cursor), readArgument(cursor)] }
  if (next.text === 'set{' || next.text === '⟨') {
    const close = next.text === '⟨' ? '⟩' : '}set'
    const items = cursor.inside(() => readItems(cursor, close))
    cursor.expect(close)
    return next.text === '⟨' ? { _tag: 'Tuple', open: '(', close: ')', items } : { _tag: 'Set', items }
  }
  if (next.text.startsWith('begin ')) return readMatrix(cursor, next.text.slice('begin '.length))
  const [close, name] = CLOSED_BY.get(next.text) ?? []
  if (close === undefined || name === undefined) throw new SyntaxError(`${next.text} begins nothing`)
  const of = cursor.inside(() => readSum(cursor), 'close')
  cursor.expect(close)
  return { _tag: 'Call', name, of: [of] }
}

/**
 * Parses an answer in LaTeX or plain text. Returns undefined if it is not mathematics, or exceeds
 * the size limits.
 *
 * Errors   none, for any text: length, number of tokens, depth and digits are limited.
 * Cost     O(length).
 */
export const parseAnswer = (text: string): MathTree | undefined => {
  const bare = bareAnswer(text)
  if (bare === '' || bare.length > LONGEST) return undefined
  const tokens = mathTokensOf(bare)
  if (tokens.length > MOST_TOKENS) return undefined
  const cursor = mathCursorOf(tokens)
  try {
    const items = readItems(cursor)
    const hasOr = tokens.some(({ kind, text: sign }) => kind === 'sign' && sign === 'or')
    return items.length === 0 ? undefined : listOf(items, hasOr ? 'alternatives' : 'values')
  } catch (error) {
    if (error instanceof SyntaxError) return undefined // not mathematics: only its text can be compared
    throw error
  }
}
