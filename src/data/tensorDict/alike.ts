/** Joining TensorDicts that are alike: what keeps them from it, and how their leaves follow a plan together. */
import * as tf from '@tensorflow/tfjs'
import type { Data, Ragged } from './leaf.js'
import { emptyTensor, innerSize, replaceAxes, rowsByInner, scopeFor } from './plan.js'
import { appendData, appendRagged, type Rows, selectData, selectRagged } from './rows.js'
import {
  batchSize,
  type Entry,
  isTensorDict,
  nodeOf,
  type TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'
import { equalValues } from './values.js'

/** What to do where parts have different meta values. */
export interface JoinOptions {
  /** Gives the value of the result for different values of the parts. By default they are an error. */
  readonly resolveMeta?: (values: readonly unknown[], path: readonly string[]) => unknown
}

/** How alike TensorDicts become one: a plan over the elements of all of them, one TensorDict after the other. */
export interface JoinPlan {
  readonly to: readonly number[]
  /** For each element of the result the number of its source element, -1 for none. */
  readonly rows: () => Rows
  /** Makes what joins tensors. Called inside the scope; never given a result without elements. */
  readonly mover: () => (tensors: readonly tf.Tensor[]) => tf.Tensor
  /** What a data leaf has where an element comes from nowhere. */
  readonly filler?: unknown
}

const shown = (shape: readonly number[]): string => `[${shape.join(', ')}]`

const describeEntry = (entry: Entry | undefined, rank: number): string => {
  if (entry === undefined) return 'nothing'
  if (entry instanceof tf.Tensor) return `${entry.dtype} tensor of features ${shown(entry.shape.slice(rank))}`
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

/** Whether two entries are of one kind, type and shape behind the batch axes of their roots. */
const alikeEntries = (a: Entry, b: Entry | undefined, ranks: readonly [number, number]): boolean => {
  if (b === undefined) return false
  if (a instanceof tf.Tensor || b instanceof tf.Tensor) {
    return a instanceof tf.Tensor && b instanceof tf.Tensor && a.dtype === b.dtype && sameFrom(a.shape, b.shape, ranks)
  }
  if (a._tag === 'Ragged') return b._tag === 'Ragged' && a.type === b.type
  if (a._tag === 'TensorDict') return b._tag === 'TensorDict' && sameFrom(a.batchShape, b.batchShape, ranks)
  return a._tag === b._tag
}

/** The values of Meta leaves. */
const valuesOf = (entries: readonly (Entry | undefined)[]): readonly unknown[] =>
  entries.map((entry) => (entry !== undefined && 'value' in entry ? entry.value : undefined))

const agree = (values: readonly unknown[]): boolean => values.every((value) => equalValues(value, values[0]))

/** The keys of all nodes: those of the first one where they are the same. */
const keysOf = (nodes: readonly TensorDict[]): Iterable<string> => {
  const [first] = nodes
  const same = nodes.every(
    (node) =>
      node === first ||
      (node.entries.size === first!.entries.size && node.entries.every((_, key) => first!.entries.has(key))),
  )
  return same ? first!.entries.keys() : new Set(nodes.flatMap((node) => [...node.entries.keys()]))
}

/** Everything by which nodes differ that are to be joined, each with its path. */
const differences = (
  nodes: readonly TensorDict[],
  ranks: readonly number[],
  place: { readonly path: readonly string[]; readonly options: JoinOptions },
): readonly TensorDictProblem[] => {
  const found: TensorDictProblem[] = []
  for (const key of keysOf(nodes)) {
    const entries = nodes.map((node) => node.entries.get(key))
    const [first] = entries
    const report = (reasons: readonly string[]): void => {
      found.push({ path: [...place.path, key], reason: [...new Set(reasons)].join(' and ') })
    }
    if (
      first === undefined ||
      !entries.every((entry, i) => i === 0 || alikeEntries(first, entry, [ranks[0]!, ranks[i]!]))
    ) {
      report(entries.map((entry, i) => describeEntry(entry, ranks[i]!)))
    } else if (isTensorDict(first)) {
      found.push(...differences(entries as TensorDict[], ranks, { ...place, path: [...place.path, key] })) // alike the first
    } else if (!(first instanceof tf.Tensor) && first._tag === 'Meta' && place.options.resolveMeta === undefined) {
      if (!agree(valuesOf(entries))) report(['different meta values'])
    }
  }
  return found
}

/**
 * Refuses TensorDicts that cannot be joined.
 *
 * Errors   throws TensorDictError, listing the problem of the batch shapes, if there is one, and every difference of keys, kinds, types,
 *          shapes behind the batch axes and meta values.
 */
export const requireAlike = (
  operation: string,
  parts: readonly TensorDict[],
  { shapes, ...options }: JoinOptions & { readonly shapes: readonly string[] },
): void => {
  const ranks = parts.map((part) => part.batchShape.length)
  const problems = [
    ...shapes.map((reason) => ({ path: [], reason })),
    ...differences(parts, ranks, { path: [], options }),
  ]
  if (problems.length === 0) return
  throw new TensorDictError(operation, [], { problems, actual: parts.map((part) => part.batchShape) })
}

/** The entry for the meta values of all parts. */
const joinedMeta = (entries: readonly Entry[], path: readonly string[], { resolveMeta }: JoinOptions): Entry => {
  const values = valuesOf(entries)
  return resolveMeta === undefined || agree(values) ? entries[0]! : { _tag: 'Meta', value: resolveMeta(values, path) }
}

/**
 * Applies a plan to TensorDicts that are alike (`requireAlike`), whose batch rank is `rank`. Keys are in the order of the first one.
 *
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const applyJoin = <S>(parts: readonly TensorDict<S>[], plan: JoinPlan & JoinOptions): TensorDict<S> => {
  const { to, filler } = plan
  const rank = parts[0]!.batchShape.length
  const rowsFor = rowsByInner(plan.rows)
  let mover: ReturnType<JoinPlan['mover']> | undefined
  const joinTensors = (tensors: readonly tf.Tensor[]): tf.Tensor => {
    const [first] = tensors
    const shape = replaceAxes(first!.shape, rank, to)
    if (batchSize(shape) === 0) return emptyTensor(shape, first!)
    mover ??= plan.mover()
    return mover(tensors)
  }
  const join = (nodes: readonly TensorDict[], path: readonly string[]): TensorDict => {
    const [first] = nodes
    const inner = innerSize(first!.batchShape, rank)
    const joined = (entry: Entry, key: string): Entry => {
      const entries = nodes.map((node) => node.entries.get(key)!) // `requireAlike` has seen them, all of one kind
      if (entry instanceof tf.Tensor) return joinTensors(entries as tf.Tensor[])
      switch (entry._tag) {
        case 'TensorDict':
          return join(entries as TensorDict[], [...path, key])
        case 'Data':
          return selectData(appendData(entries as Data[]), rowsFor(inner), filler)
        case 'Ragged':
          return selectRagged(appendRagged(entries as Ragged[]), rowsFor(inner))
        case 'Meta':
          return joinedMeta(entries, [...path, key], plan)
      }
    }
    return nodeOf(first!.entries.map(joined), replaceAxes(first!.batchShape, rank, to))
  }
  return scopeFor(parts, () => join(parts, [])) as TensorDict<S> // equal schemas: the parts are alike
}

/** Batch shapes that differ, as a problem: none if they agree. `skipped` is an axis whose size does not matter. */
export const shapeProblems = (parts: readonly TensorDict[], skipped?: number): readonly string[] => {
  const texts = new Set(
    parts.map(({ batchShape }) => shown(batchShape.map((size, axis) => (axis === skipped ? -1 : size)))),
  )
  if (texts.size < 2) return []
  return [`batch shapes ${[...new Set(parts.map((part) => shown(part.batchShape)))].join(' and ')}`]
}
