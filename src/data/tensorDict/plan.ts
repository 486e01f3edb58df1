/**
 * Batch operations as plans. A plan locates the source of each element of the result, based on the
 * batch shape alone; it is validated when it is created. Applying it cannot fail: every leaf of
 * every node follows it, and axes after the batch axes (a leaf's features, a child's own batch
 * axes) are not changed.
 */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { asRun, type Rows, selectData, selectRagged, spreadRows } from './rows.js'
import { mapValues, someValue } from './spine.js'
import { batchSize, type Entry, nodeOver, type TensorDict, TensorDictError } from './tensorDict.js'

/** Moves the elements of one tensor. */
export type MoveTensor = (tensor: tf.Tensor) => tf.Tensor

/** The sources of the elements of a result. */
export interface Plan {
  /** The number of leading axes that are replaced: the batch rank. */
  readonly rank: number
  /** The sizes of the new axes. */
  readonly to: readonly number[]
  /**
   * Returns the source element of each element of the result, in order. Called if a leaf lives on
   * the host.
   */
  readonly rows: () => Rows
  /**
   * Creates the function that moves tensors. Called once for each application, inside its scope,
   * and never for a result without elements.
   */
  readonly mover: () => MoveTensor
  /** The value of a data leaf for an element without source. */
  readonly filler?: unknown
}

const holdsTensor = (td: TensorDict): boolean =>
  someValue(td.spine, (entry) => !('_tag' in entry) || (entry._tag === 'TensorDict' && holdsTensor(entry)))

/**
 * Runs `f` in a scope if one of the TensorDicts has tensors. Otherwise there is nothing to free.
 */
export const scopeFor = <T extends TensorDict | Readonly<Record<string, unknown>>>(
  tds: readonly TensorDict[],
  f: () => T,
): T => (tds.some(holdsTensor) ? scope(f as () => never) : f()) // a record is not a promise, which `scope` refuses

/** The rows of a plan, by the number of elements of a node for each element of the batch. */
export interface KnownRows {
  readonly rows: () => Rows
  readonly known: Map<number, Rows>
}

/**
 * Returns the rows for nodes with `inner` elements for each element of the batch. Each is computed
 * once.
 */
export const rowsFor = (from: KnownRows, inner: number): Rows => {
  const present = from.known.get(inner)
  if (present !== undefined) return present
  const found = inner === 1 ? from.rows() : spreadRows(rowsFor(from, 1), inner)
  const rows = found instanceof Int32Array ? asRun(found) : found
  from.known.set(inner, rows)
  return rows
}

/** Returns the product of the sizes after the first `rank` axes. */
export const innerSize = (shape: readonly number[], rank: number): number => {
  let size = 1
  for (let i = rank; i < shape.length; i++) size *= shape[i]!
  return size
}

/** Replaces the first `rank` axes of a shape. */
export const replaceAxes = (shape: readonly number[], rank: number, to: readonly number[]): readonly number[] =>
  shape.length === rank ? to : [...to, ...shape.slice(rank)]

/**
 * Creates a tensor without elements, of this shape and the dtype of another tensor. It shares that
 * tensor's buffer if that is empty too.
 */
export const emptyTensor = (shape: readonly number[], like: tf.Tensor): tf.Tensor =>
  like.size === 0 ? tf.reshape(like, [...shape]) : tf.tensor([], [...shape], like.dtype)

/**
 * The application of a plan, with values that are computed once for all leaves: `move` is created
 * for the first tensor.
 */
interface Application extends KnownRows {
  readonly plan: Plan
  move: MoveTensor | undefined
}

const applyToTensor = (tensor: tf.Tensor, application: Application): tf.Tensor => {
  const { plan } = application
  const shape = replaceAxes(tensor.shape, plan.rank, plan.to)
  if (batchSize(shape) === 0) return emptyTensor(shape, tensor)
  application.move ??= plan.mover()
  return application.move(tensor)
}

const applyToNode = (node: TensorDict, application: Application): TensorDict => {
  const { plan } = application
  const inner = innerSize(node.batchShape, plan.rank)
  const spine = mapValues(node.spine, (entry): Entry => {
    if (!('_tag' in entry)) return applyToTensor(entry, application)
    switch (entry._tag) {
      case 'TensorDict':
        return applyToNode(entry, application)
      case 'Data':
        return selectData(entry, rowsFor(application, inner), plan.filler)
      case 'Ragged':
        return selectRagged(entry, rowsFor(application, inner))
      case 'Meta':
        return entry
    }
  })
  return nodeOver(spine, replaceAxes(node.batchShape, plan.rank, plan.to))
}

/**
 * Applies a plan to every leaf of every node.
 *
 * Effects  creates tensors that belong to the enclosing scope.
 */
export const applyPlan = <S>(td: TensorDict<S>, plan: Plan): TensorDict<S> => {
  const application: Application = { plan, rows: plan.rows, known: new Map(), move: undefined }
  return scopeFor([td], () => applyToNode(td, application)) as TensorDict<S> // leaves are replaced, keys are kept
}

/**
 * For each result axis, the distance of each index from the first source element; -Infinity for an
 * index without source.
 */
export type Offsets = readonly (readonly number[])[]

/** Returns the rows given by the sums of one offset from each axis, in the order of the result. */
export const rowsOf = (offsets: Offsets, base = 0): Int32Array => {
  let sums: readonly number[] = [base]
  for (const axis of offsets) {
    const next = new Array<number>(sums.length * axis.length)
    let at = 0
    for (const sum of sums) for (const offset of axis) next[at++] = sum + offset
    sums = next
  }
  const rows = new Int32Array(sums.length)
  for (let i = 0; i < rows.length; i++) rows[i] = Math.max(sums[i]!, -1)
  return rows
}

/** Returns the distance between neighbors along each axis. */
export const stridesOf = (shape: readonly number[]): readonly number[] => {
  const strides = new Array<number>(shape.length)
  let stride = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride
    stride *= shape[axis]!
  }
  return strides
}

/** Returns the numbers 0 .. size - 1. */
export const upTo = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i)

/** Returns the offsets of axes that an operation does not change. */
export const ownOffsets = (shape: readonly number[]): readonly (readonly number[])[] => {
  const strides = stridesOf(shape)
  return shape.map((size, axis) => upTo(size).map((i) => i * strides[axis]!))
}

/** Replaces one element of a list by others. */
const splice = <T>(list: readonly T[], at: number, ...others: readonly T[]): readonly T[] => [
  ...list.slice(0, at),
  ...others,
  ...list.slice(at + 1),
]

/** Reshapes a tensor, or returns it if it has that shape. */
export const reshaped = (tensor: tf.Tensor, shape: readonly number[]): tf.Tensor =>
  tensor.shape.length === shape.length && tensor.shape.every((size, i) => size === shape[i])
    ? tensor
    : tf.reshape(tensor, [...shape])

/** Returns the plan that selects the elements at `positions` along one axis. */
export const alongAxis = (shape: readonly number[], axis: number, positions: readonly number[]): Plan => {
  const stride = stridesOf(shape)[axis]!
  return {
    rank: shape.length,
    to: splice(shape, axis, positions.length),
    rows: () => {
      const run = shape.length === 1 ? runOf(positions) : undefined
      if (run !== undefined) return run
      return rowsOf(
        splice(
          ownOffsets(shape),
          axis,
          positions.map((i) => i * stride),
        ),
      )
    },
    mover: () => {
      const run = runOf(positions)
      if (run === undefined) {
        const index = tf.tensor1d([...positions], 'int32')
        return (tensor) => tf.gather(tensor, index, axis)
      }
      return (tensor) => sliceAxis(tensor, axis, run.start, run.end)
    },
  }
}

/** Returns the run that positions form, or undefined. */
export const runOf = (positions: readonly number[]): { readonly start: number; readonly end: number } | undefined => {
  const start = positions[0] ?? 0
  for (let i = 1; i < positions.length; i++) if (positions[i] !== start + i) return undefined
  return { start, end: start + positions.length }
}

const sliceAxis = (tensor: tf.Tensor, axis: number, start: number, end: number): tf.Tensor => {
  if (start === 0 && end === tensor.shape[axis]) return tensor
  const begin = tensor.shape.map((_, i) => (i === axis ? start : 0))
  const size = tensor.shape.map((n, i) => (i === axis ? end - start : n))
  return tf.slice(tensor, begin, size)
}

/**
 * Resolves a batch axis by its number; a negative number counts from the end. Errors: throws
 * TensorDictError for an unknown axis.
 */
export const axisOf = (operation: string, shape: readonly number[], axis: number): number => {
  const rank = shape.length
  if (rank === 0) {
    throw new TensorDictError(operation, [], { reason: 'the TensorDict has no batch axis', axis, actual: shape })
  }
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
    throw new TensorDictError(operation, [], {
      reason: `axis ${axis} is not in ${-rank} .. ${rank - 1}`,
      axis,
      expected: [-rank, rank - 1],
      actual: axis,
    })
  }
  return axis < 0 ? axis + rank : axis
}

/**
 * Resolves batch axes by their numbers. Errors: throws TensorDictError for an unknown axis, or one
 * that is named twice.
 */
export const axesOf = (
  operation: string,
  shape: readonly number[],
  axes: number | readonly number[],
): readonly number[] => {
  const list = (typeof axes === 'number' ? [axes] : axes).map((axis) => axisOf(operation, shape, axis))
  if (new Set(list).size === list.length) return list
  throw new TensorDictError(operation, [], { reason: `axes ${list.join(', ')} name an axis twice`, actual: axes })
}

/** A count that a caller passes. */
interface Count {
  readonly name: string
  readonly count: number
  readonly least?: number
}

/** Checks a count. Errors: throws TensorDictError unless it is an integer of at least `least`. */
export const requireCount = (operation: string, { name, count, least = 0 }: Count): void => {
  if (Number.isSafeInteger(count) && count >= least) return
  const kind = least === 0 ? 'a natural number' : `a whole number of at least ${least}`
  throw new TensorDictError(operation, [], {
    reason: `${name} must be ${kind}, got ${count}`,
    expected: kind,
    actual: count,
  })
}
