/**
 * Batch operations as plans. A plan says, against the batch shape alone, where each element of the result comes from; it is
 * checked when it is made. Applying it cannot fail: every leaf of every node follows it, and axes behind the batch axes (a
 * leaf's features, a child's own batch axes) stay as they are.
 */
import * as tf from '@tensorflow/tfjs-core'
import { scope } from '../../engine/scope.js'
import { asRun, type Rows, selectData, selectRagged, spreadRows } from './rows.js'
import { mapValues, someValue } from './spine.js'
import { batchSize, type Entry, nodeOver, type TensorDict, TensorDictError } from './tensorDict.js'

/** What happens to one tensor. */
export type MoveTensor = (tensor: tf.Tensor) => tf.Tensor

/** Where the elements of a result come from. */
export interface Plan {
  /** How many leading axes are replaced: the batch rank. */
  readonly rank: number
  /** What they become. */
  readonly to: readonly number[]
  /** For each element of the result, in order, the number of its source element. Asked for where a leaf lives on the host. */
  readonly rows: () => Rows
  /** Makes what moves tensors: called once for each application, inside its scope. Never given a result without elements. */
  readonly mover: () => MoveTensor
  /** What a data leaf has where an element comes from nowhere. */
  readonly filler?: unknown
}

const holdsTensor = (td: TensorDict): boolean =>
  someValue(td.spine, (entry) => !('_tag' in entry) || (entry._tag === 'TensorDict' && holdsTensor(entry)))

/** Runs `f` in a scope if one of the TensorDicts has tensors: elsewhere there is nothing to free. */
export const scopeFor = <T extends TensorDict | Readonly<Record<string, unknown>>>(
  tds: readonly TensorDict[],
  f: () => T,
): T => (tds.some(holdsTensor) ? scope(f as () => never) : f()) // a record is no promise, which is what `scope` refuses

/** The rows of a plan by the number of elements that a node has behind each element of the batch. */
export interface KnownRows {
  readonly rows: () => Rows
  readonly known: Map<number, Rows>
}

/** The rows for nodes with `inner` elements behind each element of the batch; each is computed once. */
export const rowsFor = (from: KnownRows, inner: number): Rows => {
  const present = from.known.get(inner)
  if (present !== undefined) return present
  const found = inner === 1 ? from.rows() : spreadRows(rowsFor(from, 1), inner)
  const rows = found instanceof Int32Array ? asRun(found) : found
  from.known.set(inner, rows)
  return rows
}

/** The product of the sizes behind the first `rank` axes. */
export const innerSize = (shape: readonly number[], rank: number): number => {
  let size = 1
  for (let i = rank; i < shape.length; i++) size *= shape[i]!
  return size
}

/** A shape with its first `rank` axes replaced. */
export const replaceAxes = (shape: readonly number[], rank: number, to: readonly number[]): readonly number[] =>
  shape.length === rank ? to : [...to, ...shape.slice(rank)]

/** A tensor of this shape, which has no elements, of the dtype of another one, whose buffer it shares if that has none either. */
export const emptyTensor = (shape: readonly number[], like: tf.Tensor): tf.Tensor =>
  like.size === 0 ? tf.reshape(like, [...shape]) : tf.tensor([], [...shape], like.dtype)

/** A plan that is being applied, with what is computed once for all leaves: `move` is made for the first tensor. */
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
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const applyPlan = <S>(td: TensorDict<S>, plan: Plan): TensorDict<S> => {
  const application: Application = { plan, rows: plan.rows, known: new Map(), move: undefined }
  return scopeFor([td], () => applyToNode(td, application)) as TensorDict<S> // leaves are replaced, keys are kept
}

/** For each result axis, how far each of its places is from the first source element; -Infinity for a place without source. */
export type Offsets = readonly (readonly number[])[]

/** The rows that the sums of one offset from each axis point to, in the order of the result. */
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

/** How far neighbors along each axis are from one another. */
export const stridesOf = (shape: readonly number[]): readonly number[] => {
  const strides = new Array<number>(shape.length)
  let stride = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride
    stride *= shape[axis]!
  }
  return strides
}

/** The numbers 0 .. size - 1. */
export const upTo = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i)

/** The axes of a shape as they are, for the axes that an operation leaves alone. */
export const ownOffsets = (shape: readonly number[]): readonly (readonly number[])[] => {
  const strides = stridesOf(shape)
  return shape.map((size, axis) => upTo(size).map((i) => i * strides[axis]!))
}

/** A list with one element replaced by others. */
const splice = <T>(list: readonly T[], at: number, ...others: readonly T[]): readonly T[] => [
  ...list.slice(0, at),
  ...others,
  ...list.slice(at + 1),
]

/** The elements of a tensor in another shape; the same tensor if it has that shape. */
export const reshaped = (tensor: tf.Tensor, shape: readonly number[]): tf.Tensor =>
  tensor.shape.length === shape.length && tensor.shape.every((size, i) => size === shape[i])
    ? tensor
    : tf.reshape(tensor, [...shape])

/** A plan by which one axis gets the elements at `positions` of itself. */
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

/** The run that positions are, if they are one. */
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

/** A batch axis by its number, counted from the end if it is negative. Errors: throws TensorDictError if there is no such axis. */
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

/** Batch axes by their numbers. Errors: throws TensorDictError if one does not exist, or if one is named twice. */
export const axesOf = (
  operation: string,
  shape: readonly number[],
  axes: number | readonly number[],
): readonly number[] => {
  const list = (typeof axes === 'number' ? [axes] : axes).map((axis) => axisOf(operation, shape, axis))
  if (new Set(list).size === list.length) return list
  throw new TensorDictError(operation, [], { reason: `axes ${list.join(', ')} name one twice`, actual: axes })
}

/** A number of things that a caller asks for. */
interface Count {
  readonly name: string
  readonly count: number
  readonly least?: number
}

/** Checks a count. Errors: throws TensorDictError if it is no natural number of at least `least`. */
export const requireCount = (operation: string, { name, count, least = 0 }: Count): void => {
  if (Number.isSafeInteger(count) && count >= least) return
  const kind = least === 0 ? 'a natural number' : `a whole number of at least ${least}`
  throw new TensorDictError(operation, [], {
    reason: `${name} must be ${kind}, got ${count}`,
    expected: kind,
    actual: count,
  })
}
