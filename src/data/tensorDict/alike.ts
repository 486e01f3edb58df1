/**
 * Joining of TensorDicts with the same structure: validation, and application of a plan to all
 * leaves.
 */
import type * as tf from '@tensorflow/tfjs-core'
import type { Data, Ragged } from './leaf.js'
import { emptyTensor, innerSize, type KnownRows, replaceAxes, rowsFor, scopeFor } from './plan.js'
import { appendData, appendRagged, type Rows, selectData, selectRagged } from './rows.js'
import { mapValues, namesOf, sameNames, valueAt } from './spine.js'
import {
  batchSize,
  type Entry,
  isTensorDict,
  nodeOver,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'
import { equalValues } from './values.js'

/** The treatment of parts with different meta values. */
export interface JoinOptions {
  /**
   * Returns the value of the result for different values of the parts. By default they are an
   * error.
   */
  readonly resolveMeta?: (values: readonly unknown[], path: readonly string[]) => unknown
}

/**
 * A plan for joining TensorDicts. It indexes the elements of all of them, one TensorDict after the
 * other.
 */
export interface JoinPlan {
  readonly to: readonly number[]
  /** The source element of each element of the result, -1 for none. */
  readonly rows: () => Rows
  /**
   * Creates the function that joins tensors. Called inside the scope, and never for a result
   * without elements.
   */
  readonly mover: () => (tensors: readonly tf.Tensor[]) => tf.Tensor
  /** The value of a data leaf for an element without source. */
  readonly filler?: unknown
}

const shown = (shape: readonly number[]): string => `[${shape.join(', ')}]`

const describeEntry = (entry: Entry | undefined, rank: number): string => {
  if (entry === undefined) return 'nothing'
  if (!('_tag' in entry)) return `${entry.dtype} tensor of features ${shown(entry.shape.slice(rank))}`
  switch (entry._tag) {
    case 'TensorDict':
      return entry.batchShape.length === rank
        ? 'TensorDict'
        : `TensorDict with further batch axes ${shown(entry.batchShape.slice(rank))}`
    case 'Ragged':
      return `ragged ${entry.type}`
    default:
      return entry._tag
  }
}

const sameFrom = (a: readonly number[], b: readonly number[], [i, j]: readonly [number, number]): boolean => {
  if (a.length - i !== b.length - j) return false
  for (let k = 0; i + k < a.length; k++) if (a[i + k] !== b[j + k]) return false
  return true
}

/**
 * Returns true if two entries agree in kind, type and the shape after the batch axes of their
 * roots.
 */
const alikeEntries = (a: Entry, b: Entry | undefined, ranks: readonly [number, number]): boolean => {
  if (b === undefined) return false
  if (!('_tag' in a) || !('_tag' in b)) {
    return !('_tag' in a) && !('_tag' in b) && a.dtype === b.dtype && sameFrom(a.shape, b.shape, ranks)
  }
  if (a._tag === 'Ragged') return b._tag === 'Ragged' && a.type === b.type
  if (a._tag === 'TensorDict') return b._tag === 'TensorDict' && sameFrom(a.batchShape, b.batchShape, ranks)
  return a._tag === b._tag
}

/** Returns the values of Meta leaves. */
const valuesOf = (entries: readonly (Entry | undefined)[]): readonly unknown[] =>
  entries.map((entry) => (entry !== undefined && 'value' in entry ? entry.value : undefined))

const agree = (values: readonly unknown[]): boolean => values.every((value) => equalValues(value, values[0]))

/**
 * The input of a comparison: the batch ranks of the first root and of each other one, and the
 * treatment of meta values.
 */
interface Comparison {
  readonly ranks: readonly (readonly [number, number])[]
  readonly options: JoinOptions
}

const allAlike = (nodes: readonly TensorDict[], key: string, { ranks }: Comparison): boolean => {
  const first = valueAt(nodes[0]!.spine, key)
  if (first === undefined) return false
  for (let i = 1; i < nodes.length; i++) {
    const other = valueAt(nodes[i]!.spine, key)
    if (other !== first && !alikeEntries(first, other, ranks[i]!)) return false
  }
  return true
}

/** Returns the keys of all nodes, each once. */
const keysOf = (nodes: readonly TensorDict[]): Iterable<string> => {
  const { spine } = nodes[0]!
  const names = namesOf(spine)
  return nodes.every((node) => sameNames(node.spine, spine))
    ? names
    : new Set(nodes.flatMap((node) => [...namesOf(node.spine)]))
}

/** The state of a comparison: every difference so far, and the current path. */
interface Findings {
  readonly problems: TensorDictProblem[]
  readonly path: string[]
}

const entriesAt = (nodes: readonly TensorDict[], key: string): readonly (Entry | undefined)[] =>
  nodes.map((node) => valueAt(node.spine, key))

/** Collects every difference between nodes that are to be joined, with its path. */
const compareNodes = (nodes: readonly TensorDict[], comparison: Comparison, { problems, path }: Findings): void => {
  for (const key of keysOf(nodes)) {
    path.push(key)
    const first = valueAt(nodes[0]!.spine, key)
    if (first === undefined || !allAlike(nodes, key, comparison)) {
      const reasons = entriesAt(nodes, key).map((entry, i) => describeEntry(entry, comparison.ranks[i]![1]))
      problems.push({ path: [...path], reason: [...new Set(reasons)].join(' and ') })
    } else if (isTensorDict(first)) {
      compareNodes(entriesAt(nodes, key) as TensorDict[], comparison, { problems, path }) // all alike the first
    } else if ('_tag' in first && first._tag === 'Meta' && comparison.options.resolveMeta === undefined) {
      if (!agree(valuesOf(entriesAt(nodes, key)))) problems.push({ path: [...path], reason: 'different meta values' })
    }
    path.pop()
  }
}

/**
 * Refuses TensorDicts that cannot be joined.
 *
 * Errors   throws TensorDictError, listing the problem of the batch shapes, if any, and every
 *          difference of keys, kinds, types, shapes after the batch axes and meta values.
 */
export const requireAlike = (
  operation: string,
  parts: readonly TensorDict[],
  { shapes, ...options }: JoinOptions & { readonly shapes: readonly string[] },
): void => {
  const rank = parts[0]!.batchShape.length
  const ranks = parts.map((part) => [rank, part.batchShape.length] as const)
  const problems: TensorDictProblem[] = shapes.map((reason) => ({ path: [], reason }))
  compareNodes(parts, { ranks, options }, { problems, path: [] })
  if (problems.length === 0) return
  throw new TensorDictError(operation, [], { problems, actual: parts.map((part) => part.batchShape) })
}

/** Returns the entry for the meta values of all parts. */
const joinedMeta = (entries: readonly Entry[], path: readonly string[], { resolveMeta }: JoinOptions): Entry => {
  const values = valuesOf(entries)
  return resolveMeta === undefined || agree(values) ? entries[0]! : { _tag: 'Meta', value: resolveMeta(values, path) }
}

/**
 * The application of a plan, with values that are computed once for all leaves: `join` is created
 * for the first tensors.
 */
interface Joining extends KnownRows {
  readonly plan: JoinPlan & JoinOptions
  readonly rank: number
  join: ((tensors: readonly tf.Tensor[]) => tf.Tensor) | undefined
}

const joinTensors = (tensors: readonly tf.Tensor[], joining: Joining): tf.Tensor => {
  const { plan, rank } = joining
  const shape = replaceAxes(tensors[0]!.shape, rank, plan.to)
  if (batchSize(shape) === 0) return emptyTensor(shape, tensors[0]!)
  joining.join ??= plan.mover()
  return joining.join(tensors)
}

const joinNodes = (nodes: readonly TensorDict[], path: readonly string[], joining: Joining): TensorDict => {
  const { plan, rank } = joining
  const [first] = nodes
  const inner = innerSize(first!.batchShape, rank)
  const spine = mapValues(first!.spine, (entry, key): Entry => {
    const parts = nodes.map((node) => valueAt(node.spine, key)!) // `requireAlike` has checked that all are of one kind
    if (!('_tag' in entry)) return joinTensors(parts as tf.Tensor[], joining)
    switch (entry._tag) {
      case 'TensorDict':
        return joinNodes(parts as TensorDict[], [...path, key], joining)
      case 'Data':
        return selectData(appendData(parts as Data[]), rowsFor(joining, inner), plan.filler)
      case 'Ragged':
        return selectRagged(appendRagged(parts as Ragged[]), rowsFor(joining, inner))
      case 'Meta':
        return joinedMeta(parts, [...path, key], plan)
    }
  })
  return nodeOver(spine, replaceAxes(first!.batchShape, rank, plan.to))
}

/**
 * Applies a plan to TensorDicts with the same structure (`requireAlike`). Keys are in the order of
 * the first one.
 *
 * Effects  creates tensors that belong to the enclosing scope.
 */
export const applyJoin = <S>(parts: readonly TensorDict<S>[], plan: JoinPlan & JoinOptions): TensorDict<S> => {
  const rank = parts[0]!.batchShape.length
  const joining: Joining = { plan, rank, rows: plan.rows, known: new Map(), join: undefined }
  return scopeFor(parts, () => joinNodes(parts, [], joining)) as TensorDict<S> // equal schemas: the parts are alike
}

/**
 * Describes batch shapes that differ, or returns an empty list. The size of the axis `skipped` is
 * ignored.
 */
export const shapeProblems = (parts: readonly TensorDict[], skipped?: number): readonly string[] => {
  const texts = new Set(
    parts.map(({ batchShape }) => shown(batchShape.map((size, axis) => (axis === skipped ? -1 : size)))),
  )
  if (texts.size < 2) return []
  return [`batch shapes ${[...new Set(parts.map((part) => shown(part.batchShape)))].join(' and ')}`]
}
