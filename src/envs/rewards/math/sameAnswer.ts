/** Compares two answers to a mathematical problem. */
import { parseAnswer } from './parse.js'
import { isMultiple, sameValue } from './sameValue.js'
import { bareAnswer, LONGEST, mathTokensOf } from './tokens.js'
import { anyNode, type MathTree, mapTree, negated, type Relation, type TreeOf } from './tree.js'

/** Maximum number of items of a list or set that is compared with another. */
const MOST_ITEMS = 40

/**
 * Returns a form in which answers are equal if they differ only in spaces, sizes and the case of
 * their words.
 */
const plainForm = (text: string): string =>
  text.length > LONGEST
    ? text.trim()
    : mathTokensOf(bareAnswer(text))
        .map(({ kind, text: part }) =>
          kind === 'text' ? plainWords(part) : kind === 'sign' && part === 'or' ? ',' : part,
        )
        .join('\u0001')

const plainWords = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

/**
 * Returns both readings of an expression with plus-minus signs: the upper signs and the lower ones.
 */
const readings = (tree: MathTree): readonly MathTree[] => {
  if (!anyNode(tree, ({ _tag }) => _tag === 'PlusMinus')) return [tree]
  const reading = (upper: 1 | -1): MathTree =>
    mapTree(tree, (node) => (node._tag !== 'PlusMinus' ? node : node.sign * upper > 0 ? node.of : negated(node.of)))
  return [reading(1), reading(-1)]
}

/**
 * Normalizes an answer for comparison: plus-minus signs become lists, and degrees become a unit.
 */
const settled = (tree: MathTree): MathTree => {
  switch (tree._tag) {
    case 'List': {
      const items = tree.items.flatMap(readings)
      return { ...tree, items: items.map(settled), of: items.length > tree.items.length ? 'alternatives' : tree.of }
    }
    case 'Set':
      return { ...tree, items: tree.items.flatMap(readings).map(settled) }
    case 'Tuple':
      return { ...tree, items: tree.items.map(settled) }
    case 'Degrees':
      return { _tag: 'Product', factors: [tree.of, { _tag: 'Symbol', name: 'degree', kind: 'unit' }] }
    default: {
      const both = readings(tree)
      return both.length === 1 ? tree : { _tag: 'List', items: both.map(settled), of: 'alternatives' }
    }
  }
}

type Collection = TreeOf<'List'> | TreeOf<'Set'>

const isCollection = (tree: MathTree): tree is Collection => tree._tag === 'List' || tree._tag === 'Set'

/** Returns true if each item of one list is in the other, and vice versa. */
const sameItems = (a: readonly MathTree[], b: readonly MathTree[]): boolean => {
  if (a.length > MOST_ITEMS || b.length > MOST_ITEMS) return false
  const isIn = (item: MathTree, items: readonly MathTree[]): boolean => items.some((other) => same(item, other))
  return a.every((item) => isIn(item, b)) && b.every((item) => isIn(item, a))
}

const pairwise = (a: readonly MathTree[], b: readonly MathTree[]): boolean =>
  a.length === b.length && a.every((item, i) => same(item, b[i]!))

const isInequality = (relation: Relation): boolean => '<>≤≥'.includes(relation)

const isVariable = (tree: MathTree): tree is TreeOf<'Symbol'> => tree._tag === 'Symbol' && tree.kind === 'variable'

/** Returns `true` for a point of a figure: one capital letter. */
const isCorner = (tree: MathTree): boolean => isVariable(tree) && /^[A-Z]$/.test(tree.name)

/** Returns `true` for a tuple of distinct variables: `(p, q)`. */
const isNames = (tree: MathTree): tree is TreeOf<'Tuple'> =>
  tree._tag === 'Tuple' &&
  tree.items.every(isVariable) &&
  new Set(tree.items.map((item) => isVariable(item) && item.name)).size === tree.items.length

/** Returns `true` for a part of a figure: `|AB|`, `\angle ABC`, `m\angle A`. */
const isFigure = (tree: MathTree): boolean => {
  const [of] = tree._tag === 'Call' && tree.name === 'abs' ? tree.of : []
  if (of !== undefined) return of._tag === 'Product' && of.factors.length === 2 && of.factors.every(isCorner)
  const factors = tree._tag === 'Product' ? tree.factors.filter(isVariable) : []
  const start = factors[0]?.name === 'm' ? 1 : 0
  const corners = factors.slice(start + 1)
  return (
    tree._tag === 'Product' &&
    factors.length === tree.factors.length &&
    factors[start]?.name === 'angle' &&
    [1, 3].includes(corners.length) &&
    corners.every(isCorner)
  )
}

/**
 * Returns `true` if a side of an equation is only a name: `x`, `f(x)`, `y'`, `(p, q)`,
 * `\angle ABC`.
 */
const isName = (tree: MathTree): boolean =>
  isVariable(tree) ||
  isNames(tree) ||
  isFigure(tree) ||
  tree._tag === 'Text' ||
  (tree._tag === 'Product' &&
    tree.factors.length === 2 &&
    tree.factors.every(({ _tag }) => _tag === 'Symbol' || _tag === 'Tuple'))

/**
 * Returns the value of an equation: 3 of `x = 3`, S of `x ∈ S`, 1024 of `2^10 = 1024`, whose sides
 * are equal, and the exact side of `3/7 ≈ 0.43`. Ambiguous equations have no value.
 */
const assignedValue = ({ relations, sides }: TreeOf<'Relation'>): MathTree | undefined => {
  const [first, last] = [sides[0]!, sides.at(-1)!] // a relation has two sides or more
  if (!relations.every((relation) => relation === '=' || relation === '≈' || relation === '∈')) return undefined
  if (isName(first)) return sides.length === 2 || sides.slice(1).every((side) => same(side, last)) ? last : undefined
  if (relations.length === 1 && relations[0] === '≈') return first
  if (!relations.every((relation) => relation === '=')) return undefined
  if (sides.length === 2 && isName(last)) return first
  return sides.every((side) => same(side, last)) ? last : undefined
}

const INFINITY: MathTree = { _tag: 'Constant', name: 'infinity' }

/** The interval of an inequality of one name: `x < 3`, `1 ≤ x < 3`. */
const intervalOf = ({ relations, sides }: TreeOf<'Relation'>): TreeOf<'Tuple'> | undefined => {
  if (!relations.every(isInequality)) return undefined
  const isUp = relations.every((relation) => '<≤'.includes(relation))
  if (!isUp && !relations.every((relation) => '>≥'.includes(relation))) return undefined
  const ordered = isUp ? sides : [...sides].reverse()
  const closed = (isUp ? relations : [...relations].reverse()).map((relation) => '≤≥'.includes(relation))
  const [low, middle, high] = ordered
  const open = (isClosed: boolean | undefined) => (isClosed ? '[' : '(')
  const close = (isClosed: boolean | undefined) => (isClosed ? ']' : ')')
  if (ordered.length === 3 && isName(middle!))
    return { _tag: 'Tuple', open: open(closed[0]), close: close(closed[1]), items: [low!, high!] }
  if (ordered.length !== 2) return undefined
  if (isName(low!)) return { _tag: 'Tuple', open: '(', close: close(closed[0]), items: [negated(INFINITY), middle!] }
  return isName(middle!) ? { _tag: 'Tuple', open: open(closed[0]), close: ')', items: [low!, INFINITY] } : undefined
}

/**
 * Returns the parts of a union of intervals, points and inequalities; undefined if it is no region.
 */
const regionsOf = (tree: MathTree): readonly MathTree[] | undefined => {
  if (tree._tag === 'SetOperation' && tree.operator === '∪') {
    const [left, right] = [regionsOf(tree.left), regionsOf(tree.right)]
    return left === undefined || right === undefined ? undefined : [...left, ...right]
  }
  if (tree._tag === 'Relation') {
    const interval = intervalOf(tree)
    const assigned = assignedValue(tree)
    return interval === undefined ? assigned && regionsOf(assigned) : [interval]
  }
  if (tree._tag === 'List') {
    const parts = tree.items.map(regionsOf)
    return parts.includes(undefined) ? undefined : parts.flatMap((part) => part ?? [])
  }
  return tree._tag === 'Tuple' || tree._tag === 'Set' ? [tree] : undefined
}

const isRegion = (tree: MathTree): boolean =>
  tree._tag === 'SetOperation' ||
  (tree._tag === 'Relation' && tree.relations.every(isInequality)) ||
  (tree._tag === 'List' && tree.items.some(isRegion))

const difference = ([left, right]: readonly MathTree[]): MathTree => ({ _tag: 'Sum', terms: [left!, negated(right!)] })

/** Compares two equations, or two inequalities of several names. */
const sameRelation = (a: TreeOf<'Relation'>, b: TreeOf<'Relation'>): boolean => {
  const turned = (tree: TreeOf<'Relation'>): TreeOf<'Relation'> => ({
    ...tree,
    relations: tree.relations.map((each) => TURNED[each] ?? each).reverse(),
    sides: [...tree.sides].reverse(),
  })
  const alike = (x: TreeOf<'Relation'>): boolean =>
    x.relations.join() === b.relations.join() && pairwise(x.sides, b.sides)
  if (alike(a) || alike(turned(a))) return true
  if (a.sides.length !== 2 || b.sides.length !== 2) return false
  const [x, y] = [a, b].map((each) => ('>≥'.includes(each.relations[0]!) ? turned(each) : each))
  if (x!.relations[0] !== y!.relations[0]) return false
  return isMultiple(difference(x!.sides), difference(y!.sides), isInequality(x!.relations[0]!) ? 'positive' : 'any')
}

const TURNED: Readonly<Partial<Record<Relation, Relation>>> = { '<': '>', '>': '<', '≤': '≥', '≥': '≤' }

const sameTuple = (a: TreeOf<'Tuple'>, b: TreeOf<'Tuple'>): boolean =>
  (a.items.length > 2 || (a.open === b.open && a.close === b.close)) && pairwise(a.items, b.items)

/** Returns the entries of a matrix with one column or one row. */
const vectorOf = (tree: MathTree): readonly MathTree[] | undefined => {
  if (tree._tag === 'Tuple') return tree.items
  if (tree._tag !== 'Matrix') return undefined
  if (tree.rows.length === 1) return tree.rows[0]
  return tree.rows.every((row) => row.length === 1) ? tree.rows.flat() : undefined
}

const isStructure = ({ _tag }: MathTree): boolean =>
  ['Tuple', 'Matrix', 'SetOperation', 'Text', 'Relation'].includes(_tag)

/** Compares two answers of which at least one is not an expression. */
const sameStructure = (a: MathTree, b: MathTree): boolean => {
  if (a._tag === 'Tuple' && b._tag === 'Tuple') return sameTuple(a, b)
  if (a._tag === 'Matrix' && b._tag === 'Matrix') {
    const sameRow = (row: readonly MathTree[], i: number): boolean => pairwise(row, b.rows[i]!)
    return a.rows.length === b.rows.length && a.rows.every(sameRow)
  }
  if (a._tag === 'Matrix' || b._tag === 'Matrix') {
    const [x, y] = [vectorOf(a), vectorOf(b)]
    return x !== undefined && y !== undefined && pairwise(x, y)
  }
  if (a._tag === 'SetOperation' && b._tag === 'SetOperation')
    return a.operator === b.operator && same(a.left, b.left) && same(a.right, b.right)
  return (
    a._tag === 'Text' && b._tag === 'Text' && plainWords(a.text) === plainWords(b.text) && plainWords(a.text) !== ''
  )
}

const sameRegions = (a: MathTree, b: MathTree): boolean => {
  const [x, y] = [regionsOf(a), regionsOf(b)]
  return x !== undefined && y !== undefined && sameItems(x, y)
}

/** Compares a list with a tuple: `2, 3` equals `(2, 3)`, but not `2 or 3`, and not an interval. */
const sameAsTuple = (list: TreeOf<'List'>, { open, close, items }: TreeOf<'Tuple'>): boolean =>
  list.of === 'values' && open === '(' && close === ')' && pairwise(list.items, items)

/** The equations of `(x, y) = (1, 2)`, one for each name. */
const equationsOf = (tree: MathTree): readonly MathTree[] | undefined => {
  const [names, values] = tree._tag === 'Relation' && tree.relations.join() === '=' ? tree.sides : []
  if (names === undefined || values?._tag !== 'Tuple' || !isNames(names)) return undefined
  if (names.items.length !== values.items.length) return undefined
  return names.items.map((name, i) => ({ _tag: 'Relation', relations: ['='], sides: [name, values.items[i]!] }))
}

const isEquations = (tree: MathTree): tree is TreeOf<'List'> =>
  tree._tag === 'List' &&
  tree.items.every(({ _tag }) => _tag === 'Relation') &&
  tree.items.every((item) => equationsOf(item) === undefined)

const same = (a: MathTree, b: MathTree): boolean => {
  if (isEquations(a) && equationsOf(b) !== undefined) return a.of === 'values' && sameItems(a.items, equationsOf(b)!)
  if (isEquations(b) && equationsOf(a) !== undefined) return same(b, a)
  if ((isRegion(a) || isRegion(b)) && sameRegions(a, b)) return true
  if (a._tag === 'Relation' && b._tag === 'Relation') return sameRelation(a, b)
  if (isCollection(a) && isCollection(b)) return sameItems(a.items, b.items)
  if (a._tag === 'List' && b._tag === 'Tuple') return sameAsTuple(a, b)
  if (a._tag === 'Tuple' && b._tag === 'List') return sameAsTuple(b, a)
  if (a._tag === 'Relation' || b._tag === 'Relation') {
    const [x, y] = [a, b].map((each) => (each._tag === 'Relation' ? assignedValue(each) : each))
    return x !== undefined && y !== undefined && same(settled(x), settled(y))
  }
  if (isCollection(a) || isCollection(b))
    return sameItems(isCollection(a) ? a.items : [a], isCollection(b) ? b.items : [b])
  return isStructure(a) || isStructure(b) ? sameStructure(a, b) : sameValue(a, b)
}

/**
 * Returns true if two answers to a mathematical problem, in LaTeX or in plain text, are the same.
 *
 * Numbers and expressions are compared by exact value: a decimal differs from a fraction that it
 * only approximates. Lists and sets are compared in any order, tuples in order. Intervals equal the
 * inequalities that they solve, and `x = 3` equals 3. A unit, a currency sign or a percent sign in
 * only one of the answers is ignored. Words are compared without case and punctuation. Answers that
 * cannot be parsed as mathematics are compared as text.
 *
 * Errors   none, for any text.
 * Cost     bounded: texts of more than 1,000 characters are compared only as texts.
 * Source   the cases are those of MATH's `is_equiv` (Hendrycks et al. 2021) and of Hugging Face's
 *          math-verify; the method is our own.
 *
 * @example
 * sameAnswer('\\frac{\\sqrt{2}}{2}', '1/\\sqrt2') // true
 */
export const sameAnswer = (a: string, b: string): boolean => {
  const [x, y] = [plainForm(a), plainForm(b)]
  if (x === '' || y === '') return false
  if (x === y) return true
  const [left, right] = [parseAnswer(a), parseAnswer(b)]
  return left !== undefined && right !== undefined && same(settled(left), settled(right))
}
