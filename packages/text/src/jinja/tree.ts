/** The nodes of a template's syntax tree. */

export interface IdentifierNode {
  readonly type: 'Identifier'
  readonly value: string
}

export interface CallNode {
  readonly type: 'CallExpression'
  readonly callee: Expression
  readonly args: readonly Expression[]
}

/** A filter by its name, or with arguments. */
export type FilterName = IdentifierNode | CallNode

export interface MemberNode {
  readonly type: 'MemberExpression'
  readonly object: Expression
  readonly property: Expression
  readonly computed: boolean
}

export interface KeywordNode {
  readonly type: 'KeywordArgumentExpression'
  readonly key: IdentifierNode
  readonly value: Expression
}

/** A chain of comparisons, each operand with the next: `a < b < c` holds if both do. */
export interface ComparisonNode {
  readonly type: 'Comparison'
  readonly operand: Expression
  readonly rest: readonly { readonly operator: string; readonly right: Expression }[]
}

/** A test `is [not] name`, with or without arguments. */
export interface TestNode {
  readonly type: 'TestExpression'
  readonly operand: Expression
  readonly negate: boolean
  readonly test: IdentifierNode
  readonly args: readonly Expression[]
}

interface Operator {
  readonly value: string
}

export interface BinaryNode {
  readonly type: 'BinaryExpression'
  readonly operator: Operator
  readonly left: Expression
  readonly right: Expression
}

export type Expression =
  | IdentifierNode
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | { readonly type: 'StringLiteral'; readonly value: string }
  | { readonly type: 'ArrayLiteral' | 'TupleLiteral'; readonly value: readonly Expression[] }
  | { readonly type: 'ObjectLiteral'; readonly value: readonly (readonly [Expression, Expression])[] }
  | MemberNode
  | {
      readonly type: 'SliceExpression'
      readonly start: Expression | undefined
      readonly stop: Expression | undefined
      readonly step: Expression | undefined
    }
  | CallNode
  | KeywordNode
  | { readonly type: 'SpreadExpression' | 'KeywordSpreadExpression'; readonly argument: Expression }
  | { readonly type: 'UnaryExpression'; readonly operator: Operator; readonly argument: Expression }
  | BinaryNode
  | ComparisonNode
  | { readonly type: 'FilterExpression'; readonly operand: Expression; readonly filter: FilterName }
  | TestNode
  | {
      readonly type: 'Ternary'
      readonly condition: Expression
      readonly trueExpr: Expression
      readonly falseExpr: Expression | undefined
    }

export interface ForNode {
  readonly type: 'For'
  readonly loopvar: Expression
  readonly iterable: Expression
  /** The condition that selects items; undefined for all. */
  readonly condition: Expression | undefined
  readonly body: readonly Statement[]
  readonly defaultBlock: readonly Statement[]
}

export type Parameters = readonly (IdentifierNode | KeywordNode)[]

export interface CallBlockNode {
  readonly type: 'CallStatement'
  readonly call: CallNode
  readonly callerArgs: Parameters
  readonly body: readonly Statement[]
}

export type Statement =
  | { readonly type: 'Text'; readonly value: string }
  | { readonly type: 'Output'; readonly value: Expression }
  | {
      readonly type: 'If'
      readonly test: Expression
      readonly body: readonly Statement[]
      readonly alternate: readonly Statement[]
    }
  | ForNode
  | { readonly type: 'Break' | 'Continue' | 'Comment' }
  | { readonly type: 'Set'; readonly assignee: Expression; readonly value: Expression }
  | {
      readonly type: 'SetBlock'
      readonly assignee: Expression
      readonly filters: readonly FilterName[]
      readonly body: readonly Statement[]
    }
  | { readonly type: 'Macro'; readonly name: string; readonly args: Parameters; readonly body: readonly Statement[] }
  | CallBlockNode
  | { readonly type: 'FilterStatement'; readonly filters: readonly FilterName[]; readonly body: readonly Statement[] }
  | { readonly type: 'Generation'; readonly body: readonly Statement[] }
