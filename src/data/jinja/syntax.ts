/**
 * Source to syntax tree: the lexer and the parser are those of `@huggingface/jinja`, the tree is described here as far as it is read.
 *
 * The parser lacks two things of Jinja, which are written in other words before and after the lexer: `generation` blocks become call
 * blocks, and tests with an argument (`x is sameas y`) become filters.
 */
import { parse, tokenize } from '@huggingface/jinja'

interface Operator {
  readonly value: string
}

export interface IdentifierNode {
  readonly type: 'Identifier'
  readonly value: string
}

export interface CallNode {
  readonly type: 'CallExpression'
  readonly callee: Expression
  readonly args: readonly Expression[]
}

interface TupleNode {
  readonly type: 'TupleLiteral'
  readonly value: readonly Expression[]
}

export interface MemberNode {
  readonly type: 'MemberExpression'
  readonly object: Expression
  readonly property: Expression
  readonly computed: boolean
}

interface SliceNode {
  readonly type: 'SliceExpression'
  readonly start: Expression | undefined
  readonly stop: Expression | undefined
  readonly step: Expression | undefined
}

export interface KeywordNode {
  readonly type: 'KeywordArgumentExpression'
  readonly key: IdentifierNode
  readonly value: Expression
}

interface SelectNode {
  readonly type: 'SelectExpression'
  readonly lhs: Expression
  readonly test: Expression
}

interface FilterNode {
  readonly type: 'FilterExpression'
  readonly operand: Expression
  readonly filter: IdentifierNode | CallNode
}

interface BinaryNode {
  readonly type: 'BinaryExpression'
  readonly operator: Operator
  readonly left: Expression
  readonly right: Expression
}

export type Expression =
  | IdentifierNode
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | { readonly type: 'StringLiteral'; readonly value: string }
  | { readonly type: 'ArrayLiteral'; readonly value: readonly Expression[] }
  | TupleNode
  | { readonly type: 'ObjectLiteral'; readonly value: ReadonlyMap<Expression, Expression> }
  | MemberNode
  | SliceNode
  | CallNode
  | KeywordNode
  | { readonly type: 'SpreadExpression' | 'KeywordSpreadExpression'; readonly argument: Expression }
  | { readonly type: 'UnaryExpression'; readonly operator: Operator; readonly argument: Expression }
  | BinaryNode
  | FilterNode
  | {
      readonly type: 'TestExpression'
      readonly operand: Expression
      readonly negate: boolean
      readonly test: IdentifierNode
    }
  | SelectNode
  | {
      readonly type: 'Ternary'
      readonly condition: Expression
      readonly trueExpr: Expression
      readonly falseExpr: Expression
    }

export interface ForNode {
  readonly type: 'For'
  readonly loopvar: IdentifierNode | TupleNode
  readonly iterable: Expression
  readonly body: readonly Statement[]
  readonly defaultBlock: readonly Statement[]
}

export interface SetNode {
  readonly type: 'Set'
  readonly assignee: Expression
  readonly value: Expression | null
  readonly body: readonly Statement[]
}

interface MacroNode {
  readonly type: 'Macro'
  readonly name: IdentifierNode
  readonly args: readonly (IdentifierNode | KeywordNode)[]
  readonly body: readonly Statement[]
}

export interface CallBlockNode {
  readonly type: 'CallStatement'
  readonly call: CallNode
  readonly callerArgs: readonly (IdentifierNode | KeywordNode)[] | null
  readonly body: readonly Statement[]
}

export type Statement =
  | Expression
  | {
      readonly type: 'If'
      readonly test: Expression
      readonly body: readonly Statement[]
      readonly alternate: readonly Statement[]
    }
  | ForNode
  | { readonly type: 'Break' | 'Continue' | 'Comment' }
  | SetNode
  | MacroNode
  | CallBlockNode
  | {
      readonly type: 'FilterStatement'
      readonly filter: IdentifierNode | CallNode
      readonly body: readonly Statement[]
    }

/** The name that stands for the `generation` block in the tree. */
export const GENERATION = '__generation'

/** Prefixes of the filters that stand for tests with an argument. */
export const TEST = '__is_'
export const NEGATED_TEST = '__is_not_'

/** Tests of Jinja that take an argument. */
const TESTS_WITH_ARGUMENT: ReadonlySet<string> = new Set([
  ...['sameas', 'divisibleby', 'eq', 'equalto', 'ne', 'gt', 'greaterthan', 'ge', 'lt', 'lessthan', 'le', 'in'],
])

type Token = ReturnType<typeof tokenize>[number]

/** A token like another, with other contents. */
const like = (token: Token, type: Token['type'], value: string): Token =>
  Object.assign(Object.create(Object.getPrototypeOf(token) as object) as Token, { type, value }) // the library's own class

const CLOSING: Readonly<Record<string, string>> = { OpenParen: 'CloseParen', OpenSquareBracket: 'CloseSquareBracket' }

/** The index after the operand that begins at `start`: a name or a literal with its members, or brackets. */
const endOfOperand = (tokens: readonly Token[], start: number): number => {
  let at = start
  const skipBrackets = (): void => {
    const open = tokens[at]!.type
    const close = CLOSING[open]
    let depth = 0
    do {
      if (tokens[at]!.type === open) depth += 1
      else if (tokens[at]!.type === close) depth -= 1
      at += 1
    } while (depth > 0 && at < tokens.length)
  }
  if (tokens[at]!.type in CLOSING) skipBrackets()
  else at += 1
  while (at < tokens.length) {
    if (tokens[at]!.type === 'Dot') at += 2
    else if (tokens[at]!.type in CLOSING) skipBrackets()
    else break
  }
  return at
}

const isName = (token: Token | undefined, value: string): boolean =>
  token?.type === 'Identifier' && token.value === value

/** `x is [not] test y` written as `x | __is_[not_]test(y)`, which the parser knows. */
const testsAsFilters = (tokens: readonly Token[]): readonly Token[] => {
  const result: Token[] = []
  let at = 0
  while (at < tokens.length) {
    const token = tokens[at]!
    const isNegated = isName(tokens[at + 1], 'not')
    const test = tokens[at + (isNegated ? 2 : 1)]
    const argument = at + (isNegated ? 3 : 2)
    const hasArgument = tokens[argument] !== undefined && tokens[argument].type !== 'CloseStatement'
    if (isName(token, 'is') && test?.type === 'Identifier' && TESTS_WITH_ARGUMENT.has(test.value) && hasArgument) {
      const end = endOfOperand(tokens, argument)
      result.push(
        like(token, 'Pipe', '|'),
        like(token, 'Identifier', `${isNegated ? NEGATED_TEST : TEST}${test.value}`),
        like(token, 'OpenParen', '('),
        ...testsAsFilters(tokens.slice(argument, end)),
        like(token, 'CloseParen', ')'),
      )
      at = end
    } else {
      result.push(token)
      at += 1
    }
  }
  return result
}

/**
 * The syntax tree of a template.
 *
 * Errors   throws what the parser throws if the source is not valid Jinja.
 */
export const parseTemplate = (source: string): readonly Statement[] => {
  const rewritten = source
    .replace(/\r\n?/g, '\n') // as Python's Jinja does when it reads a template
    .replace(/\{%(-?)\s*generation\s*(-?)%\}/g, `{%$1 call ${GENERATION}() $2%}`)
    .replace(/\{%(-?)\s*endgeneration\s*(-?)%\}/g, '{%$1 endcall $2%}')
  const tokens = tokenize(rewritten, { trim_blocks: true, lstrip_blocks: true })
  return parse([...testsAsFilters(tokens)]).body as unknown as readonly Statement[] // the library types its nodes by their class only
}
