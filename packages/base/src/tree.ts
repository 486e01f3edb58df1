/**
 * Trees of leaves in nested readonly records and arrays: arguments and results of compiled tensor
 * functions.
 */

/** A leaf, or a record or an array of trees. */
export type Tree<L> = L | readonly Tree<L>[] | { readonly [key: string]: Tree<L> }

/** The shape of a tree without its leaves, in the order of the leaves. */
export type TreeShape =
  | { readonly _tag: 'Leaf' }
  | { readonly _tag: 'List'; readonly children: readonly TreeShape[] }
  | { readonly _tag: 'Record'; readonly keys: readonly string[]; readonly children: readonly TreeShape[] }

const LEAF: TreeShape = { _tag: 'Leaf' }

/**
 * Returns true for a plain record: not a Map, a promise, a typed array or another object whose
 * content is not in its own fields.
 */
const isRecord = (value: unknown): value is object => {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const kindOf = (value: unknown): string => (value === null ? 'null' : (value?.constructor?.name ?? typeof value))

/**
 * Splits a tree into its shape and its leaves. `unflatten` rebuilds it. Records are traversed in
 *          insertion order of their keys.
 *
 * Errors   throws TypeError, with the path, for a value that is neither a leaf nor a record nor an
 *          array.
 */
export const flatten = <L>(
  tree: Tree<L>,
  isLeaf: (value: unknown) => value is L,
): { readonly shape: TreeShape; readonly leaves: readonly L[] } => {
  const leaves: L[] = []
  const walk = (value: unknown, path: string): TreeShape => {
    if (isLeaf(value)) {
      leaves.push(value)
      return LEAF
    }
    if (Array.isArray(value)) return { _tag: 'List', children: value.map((item, i) => walk(item, `${path}[${i}]`)) }
    if (isRecord(value)) {
      const entries = Object.entries(value)
      return {
        _tag: 'Record',
        keys: entries.map(([key]) => key),
        children: entries.map(([key, item]) => walk(item, `${path}.${key}`)),
      }
    }
    throw new TypeError(`flatten: ${path} is ${kindOf(value)}, expected a leaf, record or array`)
  }
  return { shape: walk(tree, 'tree'), leaves }
}

/**
 * Rebuilds a tree from its shape and leaves: the inverse of `flatten`. Errors: throws RangeError
 * unless there is one leaf for each place.
 */
export const unflatten = <L>(shape: TreeShape, leaves: readonly L[]): Tree<L> => {
  let next = 0
  const build = (node: TreeShape): Tree<L> => {
    switch (node._tag) {
      case 'Leaf': {
        const leaf = leaves[next++]
        if (leaf === undefined)
          throw new RangeError(`unflatten: only ${leaves.length} leaves given, one more is needed`)
        return leaf
      }
      case 'List':
        return node.children.map(build)
      case 'Record':
        return Object.fromEntries(node.children.map((item, i) => [node.keys[i]!, build(item)]))
    }
  }
  const tree = build(shape)
  if (next !== leaves.length) throw new RangeError(`unflatten: ${leaves.length} leaves given, ${next} needed`)
  return tree
}

/** Formats a shape as text. Equal texts mean equal shapes. */
export const formatShape = (shape: TreeShape): string => {
  switch (shape._tag) {
    case 'Leaf':
      return '*'
    case 'List':
      return `[${shape.children.map(formatShape).join()}]`
    case 'Record':
      return `{${shape.children.map((item, i) => `${JSON.stringify(shape.keys[i])}:${formatShape(item)}`).join()}}`
  }
}
