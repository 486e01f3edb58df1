/**
 * Search for stop strings in a text that arrives in pieces (Aho and Corasick 1975).
 *
 * The state is the longest suffix of the text that is a prefix of a stop string. It determines both
 * the match and the text to hold back.
 */

/** A prefix of a stop string. */
interface Node {
  /** Length in UTF-16 units. */
  readonly depth: number
  /** For each unit, the index of the node extended by it. */
  readonly next: ReadonlyMap<number, number>
  /** The longest proper suffix of this text that is also a prefix of a stop string. */
  readonly shorter: number
  /** Index of the first stop string that ends here, or -1. */
  readonly ends: number
}

/** Prepared stop strings. Node 0 is the empty text. */
export interface StopMatcher {
  readonly stops: readonly string[]
  readonly nodes: readonly Node[]
}

/** A node while the tree is built. */
interface Growing {
  readonly depth: number
  readonly next: Map<number, number>
  shorter: number
  ends: number
}

const growing = (depth: number): Growing => ({ depth, next: new Map(), shorter: 0, ends: -1 })

/** Builds the tree of all prefixes. */
const treeOf = (stops: readonly string[]): Growing[] => {
  const nodes = [growing(0)]
  for (const [index, stop] of stops.entries()) {
    let at = 0
    for (let i = 0; i < stop.length; i++) {
      const unit = stop.charCodeAt(i)
      const { next, depth } = nodes[at]!
      const known = next.get(unit)
      at = known ?? nodes.length
      if (known === undefined) {
        next.set(unit, at)
        nodes.push(growing(depth + 1))
      }
    }
    if (nodes[at]!.ends < 0) nodes[at]!.ends = index
  }
  return nodes
}

/** Returns the node after one more unit. */
const step = (nodes: readonly Node[], from: number, unit: number): number => {
  let at = from
  for (;;) {
    const longer = nodes[at]!.next.get(unit)
    if (longer !== undefined) return longer
    if (at === 0) return 0
    at = nodes[at]!.shorter
  }
}

/** Returns the first listed of two stop strings that end at the same position. */
const earlier = (a: number, b: number): number => (a < 0 ? b : b < 0 ? a : Math.min(a, b))

/**
 * Prepares stop strings for `findStop`.
 *
 * Shapes   `stops` must not be empty texts.
 * Cost     O(length of all)
 *
 * @example
 * stopMatcher(['ab', 'a']).nodes.length // 3
 */
export const stopMatcher = (stops: readonly string[]): StopMatcher => {
  const nodes = treeOf(stops)
  const order = [0] // by depth, so that shorter nodes are finished first
  for (let i = 0; i < order.length; i++) {
    const parent = order[i]!
    for (const [unit, index] of nodes[parent]!.next) {
      const node = nodes[index]!
      node.shorter = parent === 0 ? 0 : step(nodes, nodes[parent]!.shorter, unit)
      node.ends = earlier(node.ends, nodes[node.shorter]!.ends)
      order.push(index)
    }
  }
  return { stops, nodes }
}

/** A stop string in a piece of text, and the position in the piece after its last unit. */
export interface StopMatch {
  readonly stop: string
  readonly end: number
}

/**
 * Use of matches in a piece. `skip` ignores stop strings that end before the minimum length of a
 * completion.
 */
export type StopSearch = 'find' | 'skip'

/**
 * Reads one more piece of text. Returns the new state, and the stop string that ends first, if any.
 * Of those that end at the same position, the first listed one is returned. The search ends there.
 *
 * Laws     the first match is the same however the text is divided.
 * Cost     O(length of the piece)
 *
 * @example
 * const matcher = stopMatcher(['bc'])
 * findStop(matcher, { node: 0, text: 'ab', search: 'find' }) // { node: 1, match: null }
 * findStop(matcher, { node: 1, text: 'cd', search: 'find' }) // { node: 2, match: { stop: 'bc', end: 1 } }
 */
export const findStop = (
  { stops, nodes }: StopMatcher,
  { node, text, search }: { readonly node: number; readonly text: string; readonly search: StopSearch },
): { readonly node: number; readonly match: StopMatch | null } => {
  let at = node
  for (let i = 0; i < text.length; i++) {
    at = step(nodes, at, text.charCodeAt(i))
    const { ends } = nodes[at]!
    if (ends >= 0 && search === 'find') return { node: at, match: { stop: stops[ends]!, end: i + 1 } }
  }
  return { node: at, match: null }
}

/**
 * Returns the number of units at the end of the text that could still become a stop string.
 *
 * @example
 * openLength(stopMatcher(['ab']), 1) // 1
 * openLength(stopMatcher(['ab']), 2) // 0
 */
export const openLength = ({ nodes }: StopMatcher, node: number): number => {
  let at = node
  while (at !== 0 && nodes[at]!.next.size === 0) at = nodes[at]!.shorter
  return nodes[at]!.depth
}
