/**
 * TensorDicts as nested arrays, and batch operations on them by definition: each element of a
 * result is looked up by its coordinates. Slow and obvious, to compare with.
 */
import * as tf from '@tensorflow/tfjs-core'
import { type Leaf, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { isTensorDict, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'

/** A value, or an array of arrays ... of values, one level for each axis. */
type Nest = unknown

export type LeafModel =
  | { readonly kind: 'Tensor'; readonly dtype: string; readonly features: readonly number[]; readonly nest: Nest }
  | { readonly kind: 'Ragged'; readonly type: string; readonly nest: Nest }
  | { readonly kind: 'Data'; readonly nest: Nest }
  | { readonly kind: 'Meta'; readonly value: unknown }

export interface NodeModel {
  readonly kind: 'Node'
  readonly batch: readonly number[]
  readonly entries: ReadonlyMap<string, LeafModel | NodeModel>
}

export type Coordinates = readonly number[]

/** An array of arrays ... whose element at each coordinates is what `f` says. */
const build = (shape: readonly number[], f: (at: Coordinates) => Nest, at: Coordinates = []): Nest => {
  const [size, ...inner] = shape
  if (size === undefined) return f(at)
  return Array.from({ length: size }, (_, i) => build(inner, f, [...at, i]))
}

/** The element at coordinates, which may itself be an array. */
const lookUp = (nest: Nest, at: Coordinates): Nest =>
  at.reduce((found, i) => {
    if (!Array.isArray(found) || !(i in found)) throw new Error(`there is no element at ${at.join(', ')}`)
    return found[i] as unknown
  }, nest)

/** All coordinates of a shape in row-major order. */
export const coordinates = (shape: readonly number[]): readonly Coordinates[] =>
  shape.reduce<readonly Coordinates[]>(
    (all, size) => all.flatMap((at) => Array.from({ length: size }, (_, i) => [...at, i])),
    [[]],
  )

/** A list as an array of arrays, in row-major order. */
const nested = (list: readonly unknown[], shape: readonly number[]): Nest => {
  const order = new Map(coordinates(shape).map((at, i) => [at.join(), i]))
  return build(shape, (at) => list[order.get(at.join())!])
}

const leafModel = (leaf: Leaf, batch: readonly number[]): LeafModel => {
  if (leaf instanceof tf.Tensor) {
    const features = leaf.shape.slice(batch.length)
    return { kind: 'Tensor', dtype: leaf.dtype, features, nest: nested([...leaf.dataSync()], leaf.shape) }
  }
  switch (leaf._tag) {
    case 'Ragged':
      return { kind: 'Ragged', type: leaf.type, nest: nested(raggedRows(leaf), batch) }
    case 'Data':
      return { kind: 'Data', nest: nested(leaf.items.toArray(), batch) }
    case 'Meta':
      return { kind: 'Meta', value: leaf.value }
  }
}

/** A TensorDict as nested arrays. Reads its tensors. */
export const modelOf = (td: TensorDict): NodeModel => ({
  kind: 'Node',
  batch: td.batchShape,
  entries: new Map(
    [...td.entries].map(([key, entry]) => [
      key,
      isTensorDict(entry) ? modelOf(entry) : leafModel(entry, td.batchShape),
    ]),
  ),
})

/** Where an element comes from: which part, and where in it. Undefined: from nowhere. */
export type Source = { readonly part: number; readonly at: Coordinates } | undefined

/** The value of elements without a source. */
export interface Filling {
  readonly value: number
  readonly item: unknown
}

const fillingOf = (leaf: LeafModel, tail: readonly number[], { value, item }: Filling): Nest => {
  switch (leaf.kind) {
    case 'Tensor':
      return build([...tail, ...leaf.features], () => value)
    case 'Ragged':
      return build(tail, () => [])
    default:
      return build(tail, () => item)
  }
}

/**
 * The elements of one or several alike TensorDicts in new places: `to` replaces the batch axes of
 * the roots.
 */
export const rearranged = (
  parts: readonly NodeModel[],
  to: readonly number[],
  { source, filling }: { readonly source: (at: Coordinates) => Source; readonly filling?: Filling },
): NodeModel => {
  const rank = parts[0]!.batch.length
  const walk = (nodes: readonly NodeModel[]): NodeModel => {
    const [first] = nodes
    const tail = first!.batch.slice(rank)
    const entries = [...first!.entries].map(([key, entry]): [string, LeafModel | NodeModel] => {
      if (entry.kind === 'Node') return [key, walk(nodes.map((node) => node.entries.get(key) as NodeModel))] // alike
      if (entry.kind === 'Meta') return [key, entry]
      const element = (at: Coordinates): Nest => {
        const from = source(at)
        if (from === undefined) return fillingOf(entry, tail, filling!)
        return lookUp((nodes[from.part]!.entries.get(key) as typeof entry).nest, from.at) // alike
      }
      return [key, { ...entry, nest: build(to, element) }]
    })
    return { kind: 'Node', batch: [...to, ...tail], entries: new Map(entries) }
  }
  return walk(parts)
}
