/** Compares the values of two expressions. */
import { child, type Key, keyFromSeed, uniform } from '@tandem-rl/base'
import { close, evaluateTree, type Point } from './evaluate.js'
import { exactOf, rationalOf, sameExact } from './exact.js'
import { anyNode, type MathTree, mapTree, ONE } from './tree.js'

/** Fixed: another key would draw different sample points. */
const POINTS_KEY: Key = keyFromSeed(20_210_303)
const POINTS = 12
const ENOUGH = 3

const symbolsOf = (tree: MathTree): ReadonlySet<string> => {
  const names = new Set<string>()
  anyNode(tree, (node) => {
    if (node._tag === 'Symbol') names.add(node.name)
    return false
  })
  return names
}

/** The first half of the points has positive coordinates only. */
const pointOf = (names: readonly string[], index: number): Point =>
  new Map(
    names.map((name) => {
      const drawn = uniform(child(POINTS_KEY, name), index)
      return [name, index < POINTS / 2 ? 0.4 + 2.4 * drawn : 5 * drawn - 2.5]
    }),
  )

/**
 * Returns true if the values agree at all sample points where both exist; undefined if there are
 * too few such points.
 */
const agree = (a: MathTree, b: MathTree): boolean | undefined => {
  const names = [...new Set([...symbolsOf(a), ...symbolsOf(b)])]
  const count = names.length === 0 ? 1 : POINTS
  const domain = names.length === 0 ? 'complex' : 'real'
  const pairs = Array.from({ length: count }, (_, i) => pointOf(names, i)).flatMap((point) => {
    const [x, y] = [evaluateTree(a, { point, domain }), evaluateTree(b, { point, domain })]
    return x === undefined || y === undefined ? [] : [close(x, y)]
  })
  if (pairs.includes(false)) return false
  return pairs.length >= Math.min(count, ENOUGH) ? true : undefined
}

/** Returns true if the exact form assumes a positive variable, under a root or in a function. */
const takesPositive = (tree: MathTree): boolean =>
  anyNode(tree, (node) => {
    const isRoot = node._tag === 'Call' || (node._tag === 'Power' && rationalOf(node.exponent)?.denominator !== 1n)
    return isRoot && symbolsOf(node).size > 0
  })

/** Functions that are undefined at some numbers: at a pole, or outside their domain. */
const PARTIAL: ReadonlySet<string> = new Set('tan cot sec csc ln lg log arcsin arccos'.split(' '))

/** Values above this are poles that rounding has moved. */
const POLE = 1e15

/** Returns `true` if a function is evaluated outside its domain: `\ln 0`, `\tan 90^\circ`. */
const hasNoValue = (tree: MathTree): boolean =>
  anyNode(tree, (node) => {
    if (node._tag !== 'Call' || !PARTIAL.has(node.name)) return false
    const where = { point: new Map<string, number>(), domain: 'complex' } as const
    if (node.of.some((part) => evaluateTree(part, where) === undefined)) return false
    const value = evaluateTree(node, where)
    return value === undefined || Math.hypot(value.re, value.im) > POLE
  })

/**
 * Returns `true` if the exact forms are equal and, if these assume positive variables, the values
 * are equal at all sample points. If an exact form is incomplete (functions, roots of sums), only
 * the points are compared. An expression without an exact form equals nothing.
 */
const sameExpression = (a: MathTree, b: MathTree): boolean => {
  const [x, y] = [exactOf(a), exactOf(b)]
  const exact = x === undefined || y === undefined ? undefined : sameExact(x, y)
  if (x === undefined || y === undefined || exact === undefined) return false
  if (hasNoValue(a) || hasNoValue(b)) return false
  const isProof = x.isComplete && y.isComplete
  if (isProof && (!exact || !(takesPositive(a) || takesPositive(b)))) return exact
  return exact ? agree(a, b) !== false : agree(a, b) === true
}

const isUnit = (tree: MathTree): boolean => tree._tag === 'Symbol' && tree.kind === 'unit'
const isPercent = (tree: MathTree): boolean => tree._tag === 'Percent'

const withoutUnits = (tree: MathTree): MathTree => mapTree(tree, (node) => (isUnit(node) ? ONE : node))
const withoutPercent = (tree: MathTree): MathTree => mapTree(tree, (node) => (node._tag === 'Percent' ? node.of : node))

/**
 * Returns `true` if two expressions have the same value. A unit or a percent sign in only one of
 * them is ignored: 5 equals 5 cm, and 50% equals both 50 and 0.5. If both have units, they must be
 * equal.
 */
export const sameValue = (a: MathTree, b: MathTree): boolean => {
  if (sameExpression(a, b)) return true
  if (anyNode(a, isUnit) !== anyNode(b, isUnit)) return sameValue(withoutUnits(a), withoutUnits(b))
  return anyNode(a, isPercent) !== anyNode(b, isPercent) && sameExpression(withoutPercent(a), withoutPercent(b))
}

/** Returns true if one expression is a constant multiple of the other: non-zero, or positive. */
export const isMultiple = (a: MathTree, b: MathTree, factor: 'positive' | 'any'): boolean => {
  const points = [...new Set([...symbolsOf(a), ...symbolsOf(b)])]
  for (let i = 0; i < POINTS; i++) {
    const point = pointOf(points, i)
    const [x, y] = [evaluateTree(a, { point, domain: 'real' }), evaluateTree(b, { point, domain: 'real' })]
    if (x === undefined || y === undefined || x.im !== 0 || y.im !== 0 || y.re === 0 || x.re === 0) continue
    if (factor === 'positive' && x.re / y.re < 0) return false
    // a y(point) = b x(point): the quotient of the two at this point is their quotient everywhere.
    return sameScaled(a, b, x.re / y.re)
  }
  return false
}

/** Returns true if `a = factor b`, for a factor that is a fraction of small integers. */
const sameScaled = (a: MathTree, b: MathTree, factor: number): boolean => {
  for (let under = 1; under <= 60; under++) {
    const over = Math.round(factor * under)
    if (over === 0 || Math.abs(factor - over / under) > 1e-9 * Math.abs(factor)) continue
    const number = (n: number): MathTree => ({ _tag: 'Number', value: { numerator: BigInt(n), denominator: 1n } })
    return sameExpression(
      { _tag: 'Product', factors: [number(under), a] },
      { _tag: 'Product', factors: [number(over), b] },
    )
  }
  return false
}
