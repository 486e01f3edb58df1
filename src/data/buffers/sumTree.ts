/** Weights of slots in a tree of sums: a slot by its share of the whole, and new weights, in logarithmic time. Immutable; versions share what is equal. */

/** How many parts a node has at most. */
const WIDTH = 32

interface Inner {
  readonly sum: number
  readonly min: number
  /** How many slots each part has; the last one may have fewer. */
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

/** Weights of slots 0 .. size - 1. Equal weights give equal trees, bit for bit, whatever was there before. */
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
 * The tree of weights.
 *
 * @example
 * sumTree([1, 2, 3]).sum // 6
 */
export const sumTree = (weights: readonly number[]): SumTree =>
  weights.length === 0 ? leaf([]) : grow(inRuns(weights).map(leaf), WIDTH)

/** The weights, by slot. */
export const weightsOf = (tree: SumTree): readonly number[] =>
  'weights' in tree ? tree.weights : tree.parts.flatMap(weightsOf)

/** The weight of a slot. */
export const weightAt = (tree: SumTree, slot: number): number =>
  'weights' in tree ? tree.weights[slot]! : weightAt(tree.parts[Math.floor(slot / tree.span)]!, slot % tree.span)

/** The tree with another weight for a slot that it has. */
export const setWeight = (tree: SumTree, slot: number, weight: number): SumTree => {
  if ('weights' in tree) return leaf(tree.weights.with(slot, weight))
  const i = Math.floor(slot / tree.span)
  return inner(tree.parts.with(i, setWeight(tree.parts[i]!, slot % tree.span, weight)), tree.span)
}

/** The part in which a mass falls, and how much of it is left there. Rounding never leads to a part that weighs nothing. */
const fall = (sums: readonly number[], mass: number): readonly [part: number, rest: number] => {
  const last = sums.findLastIndex((sum) => sum > 0)
  let rest = mass
  for (let i = 0; i < last; i++) {
    if (rest < sums[i]!) return [i, rest]
    rest -= sums[i]!
  }
  return [last, rest]
}

/** The slot in which a mass falls: the first whose weight, with all before it, is more than the mass. Never one of weight 0. */
export const slotAt = (tree: SumTree, mass: number): number => {
  if ('weights' in tree) return fall(tree.weights, mass)[0]
  const [i, rest] = fall(
    tree.parts.map(({ sum }) => sum),
    mass,
  )
  return i * tree.span + slotAt(tree.parts[i]!, rest)
}
