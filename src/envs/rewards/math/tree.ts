/** Trees of answers to mathematical problems: numbers, expressions, and structures of them. */
import { type Rational, rational } from '@tandem-rl/base'

/** The constants with a fixed value. */
type ConstantName = 'pi' | 'e' | 'i' | 'infinity'

export type MathTree =
  | { readonly _tag: 'Number'; readonly value: Rational }
  /** A variable, a letter with an index, or a name. `unit`: a unit of measure, such as cm. */
  | { readonly _tag: 'Symbol'; readonly name: string; readonly kind: 'variable' | 'unit' }
  | { readonly _tag: 'Constant'; readonly name: ConstantName }
  | { readonly _tag: 'Sum'; readonly terms: readonly MathTree[] }
  | { readonly _tag: 'Product'; readonly factors: readonly MathTree[] }
  | { readonly _tag: 'Quotient'; readonly over: MathTree; readonly under: MathTree }
  | { readonly _tag: 'Power'; readonly base: MathTree; readonly exponent: MathTree }
  /** A function by its name; `log` has its base as a second argument. */
  | { readonly _tag: 'Call'; readonly name: string; readonly of: readonly MathTree[] }
  /** Both the term and its negative. `sign` is 1 if the term itself belongs to the upper signs. */
  | { readonly _tag: 'PlusMinus'; readonly sign: 1 | -1; readonly of: MathTree }
  | { readonly _tag: 'Percent'; readonly of: MathTree }
  | { readonly _tag: 'Degrees'; readonly of: MathTree }
  | { readonly _tag: 'Text'; readonly text: string }
  /** Values in order. Two of them in these brackets are a point or an interval. */
  | {
      readonly _tag: 'Tuple'
      readonly open: '(' | '['
      readonly close: ')' | ']'
      readonly items: readonly MathTree[]
    }
  | { readonly _tag: 'Set'; readonly items: readonly MathTree[] }
  /**
   * Values without brackets: `1, 2`. With `alternatives`, `x = 1 or x = 2` and `\pm 1`, which are
   * never a tuple.
   */
  | { readonly _tag: 'List'; readonly items: readonly MathTree[]; readonly of: 'values' | 'alternatives' }
  | { readonly _tag: 'Matrix'; readonly rows: readonly (readonly MathTree[])[] }
  /** `sides` with a relation between adjacent ones: `1 < x <= 2`. */
  | { readonly _tag: 'Relation'; readonly relations: readonly Relation[]; readonly sides: readonly MathTree[] }
  | {
      readonly _tag: 'SetOperation'
      readonly operator: '∪' | '∩' | '∖'
      readonly left: MathTree
      readonly right: MathTree
    }

export type Relation = '=' | '<' | '>' | '≤' | '≥' | '≠' | '∈' | '≈'

export type TreeOf<Tag extends MathTree['_tag']> = Extract<MathTree, { readonly _tag: Tag }>

export const numberTree = (numerator: bigint, denominator = 1n): TreeOf<'Number'> => ({
  _tag: 'Number',
  value: rational(numerator, denominator),
})

export const ONE = numberTree(1n)

export const negated = (of: MathTree): MathTree => ({ _tag: 'Product', factors: [numberTree(-1n), of] })

/** Returns the children of a node, in order. */
const childrenOf = (tree: MathTree): readonly MathTree[] => {
  switch (tree._tag) {
    case 'Number':
    case 'Symbol':
    case 'Constant':
    case 'Text':
      return []
    case 'Sum':
      return tree.terms
    case 'Product':
      return tree.factors
    case 'Quotient':
      return [tree.over, tree.under]
    case 'Power':
      return [tree.base, tree.exponent]
    case 'Call':
      return tree.of
    case 'PlusMinus':
    case 'Percent':
    case 'Degrees':
      return [tree.of]
    case 'Tuple':
    case 'Set':
    case 'List':
      return tree.items
    case 'Matrix':
      return tree.rows.flat()
    case 'Relation':
      return tree.sides
    case 'SetOperation':
      return [tree.left, tree.right]
  }
}

/** Returns the node with other children, of the same number. */
const withChildren = (tree: MathTree, parts: readonly MathTree[]): MathTree => {
  const [first, second] = parts
  switch (tree._tag) {
    case 'Sum':
      return { ...tree, terms: parts }
    case 'Product':
      return { ...tree, factors: parts }
    case 'Quotient':
      return { ...tree, over: first!, under: second! }
    case 'Power':
      return { ...tree, base: first!, exponent: second! }
    case 'Call':
      return { ...tree, of: parts }
    case 'PlusMinus':
    case 'Percent':
    case 'Degrees':
      return { ...tree, of: first! }
    case 'Tuple':
    case 'Set':
    case 'List':
      return { ...tree, items: parts }
    case 'Matrix': {
      const ends = tree.rows.map((_, i) => tree.rows.slice(0, i + 1).reduce((sum, row) => sum + row.length, 0))
      return { ...tree, rows: tree.rows.map((row, i) => parts.slice(ends[i]! - row.length, ends[i])) }
    }
    case 'Relation':
      return { ...tree, sides: parts }
    case 'SetOperation':
      return { ...tree, left: first!, right: second! }
    default:
      return tree
  }
}

/** Applies `f` to every node, from the leaves up. */
export const mapTree = (tree: MathTree, f: (tree: MathTree) => MathTree): MathTree => {
  const parts = childrenOf(tree)
  return f(
    parts.length === 0
      ? tree
      : withChildren(
          tree,
          parts.map((part) => mapTree(part, f)),
        ),
  )
}

/** Returns true if the predicate holds for a node of the tree. */
export const anyNode = (tree: MathTree, is: (tree: MathTree) => boolean): boolean =>
  is(tree) || childrenOf(tree).some((part) => anyNode(part, is))
