/**
 * A persistent tree of sums over the weights of slots: sampling in proportion and new weights take
 * logarithmic time. Versions share equal parts.
 */

/** The maximum number of children of a node. */
const WIDTH = 32

interface Inner {
  readonly sum: number
  readonly min: number
  /** The number of slots in each child; the last one may have fewer. */
  readonly span: number
  readonly size: number
  readonly parts: readonly SumTree[]
}

interface Leaf {
  readonly sum: number
  readonly min: number
  readonly size: number
  readonly weights: readonly number[]
}

/**
 * The weights of slots 0 .. size - 1. Equal weights give equal trees, bit for bit, regardless of
 * history.
 */
export type SumTree = Inner | Leaf

const leaf = (weights: readonly number[]): Leaf => ({
  sum: weights.reduce((a, b) => a + b, 0),
  min: weights.reduce((a, b) => Math.min(a, b), Infinity),
  size: weights.length,
  weights,
})

const inner = (parts: readonly SumTree[], span: number): Inner => ({
  sum: parts.reduce((total, { sum }) => total + sum, 0),
  min: parts.reduce((least, { min }) => Math.min(least, min), Infinity),
  span,
  size: parts.reduce((total, { size }) => total + size, 0),
  parts,
})

const inRuns = <X>(items: readonly X[]): readonly (readonly X[])[] =>
  Array.from({ length: Math.ceil(items.length / WIDTH) }, (_, i) => items.slice(i * WIDTH, (i + 1) * WIDTH))

const grow = (nodes: readonly SumTree[], span: number): SumTree =>
  nodes.length === 1
    ? nodes[0]!
    : grow(
        inRuns(nodes).map((parts) => inner(parts, span)),
        span * WIDTH,
      )

/**
 * Builds the tree of weights.
 *
 * @example
 * sumTree([1, 2, 3]).sum // 6
 */
export const sumTree = (weights: readonly number[]): SumTree =>
  weights.length === 0 ? leaf([]) : grow(inRuns(weights).map(leaf), WIDTH)

/** Returns the weights by slot. */
export const weightsOf = (tree: SumTree): readonly number[] =>
  'weights' in tree ? tree.weights : tree.parts.flatMap(weightsOf)

/** Returns the weight of a slot. */
export const weightAt = (tree: SumTree, slot: number): number =>
  'weights' in tree ? tree.weights[slot]! : weightAt(tree.parts[Math.floor(slot / tree.span)]!, slot % tree.span)

/** Replaces the weight of an existing slot. */
export const setWeight = (tree: SumTree, slot: number, weight: number): SumTree => {
  if ('weights' in tree) return leaf(tree.weights.with(slot, weight))
  const i = Math.floor(slot / tree.span)
  return inner(tree.parts.with(i, setWeight(tree.parts[i]!, slot % tree.span, weight)), tree.span)
}

/**
 * Returns the child that contains a mass, and the remaining mass in it. Rounding never leads to a
 * child of weight 0.
 */
const fall = (sums: readonly number[], mass: number): readonly [part: number, rest: number] => {
  const last = sums.findLastIndex((sum) => sum > 0)
  let rest = mass
  for (let i = 0; i < last; i++) {
    if (rest < sums[i]!) return [i, rest]
    rest -= sums[i]!
  }
  return [last, rest]
}

/**
 * Returns the slot that contains a mass: the first whose cumulative weight exceeds it. Never one of
 * weight 0.
 */
export const slotAt = (tree: SumTree, mass: number): number => {
  if ('weights' in tree) return fall(tree.weights, mass)[0]
  const [i, rest] = fall(
    tree.parts.map(({ sum }) => sum),
    mass,
  )
  return i * tree.span + slotAt(tree.parts[i]!, rest)
}
