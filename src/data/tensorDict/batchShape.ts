/** The batch shape as a choice: the same leaves under more or fewer batch axes. */
import * as tf from '@tensorflow/tfjs-core'
import { isLeaf, raggedLength } from './leaf.js'
import {
  type Entries,
  type Entry,
  isRecord,
  isTensorDict,
  misfit,
  nodeOf,
  requireShape,
  type SchemaOf,
  sourceProblems,
  TensorDict,
  TensorDictError,
  type TensorDictProblem,
} from './tensorDict.js'

const startsWithShape = (shape: readonly number[], prefix: readonly number[]): boolean =>
  prefix.length <= shape.length && prefix.every((n, i) => shape[i] === n)

/**
 * Returns the batch shape of a node under a root with another batch shape: its own if that begins
 * with the new one, otherwise the new one.
 */
const shapeUnder = (node: TensorDict, batchShape: readonly number[]): readonly number[] =>
  startsWithShape(node.batchShape, batchShape) ? node.batchShape : batchShape

const reshapeProblems = (
  node: TensorDict,
  batchShape: readonly number[],
  path: readonly string[],
): readonly TensorDictProblem[] =>
  [...node.entries].flatMap(([name, entry]): readonly TensorDictProblem[] => {
    const place = [...path, name]
    if (isTensorDict(entry)) {
      const shape = shapeUnder(entry, batchShape)
      return shape === entry.batchShape ? [] : reshapeProblems(entry, shape, place)
    }
    const reason = misfit(entry, batchShape)
    return reason === undefined ? [] : [{ path: place, reason }]
  })

const reshaped = (node: TensorDict, batchShape: readonly number[]): TensorDict =>
  nodeOf(
    node.entries.map((entry): Entry => {
      if (!isTensorDict(entry)) return entry
      const shape = shapeUnder(entry, batchShape)
      return shape === entry.batchShape ? entry : reshaped(entry, shape)
    }),
    batchShape,
  )

/**
 * Changes the batch shape without changing the leaves: fewer axes, or more if all leaves agree on
 * them. A node that has more batch axes than the new root keeps its own; a node that has fewer gets
 * those of the root.
 *
 * Shapes   `[]` always fits tensors and meta; ragged rows and data fit only if the number of batch
 *          elements stays the same.
 * Errors   throws TensorDictError, naming every leaf that does not fit.
 * Cost     no tensor, no copy; the current batch shape returns the same object.
 * Source   law 5.
 *
 * @example
 * withBatchShape(TensorDict({ m: meta(1), d: data(['a', 'b']) }, [2]), [2, 1]).batchShape // [2, 1]
 */
export const withBatchShape = <S>(td: TensorDict<S>, batchShape: readonly number[]): TensorDict<S> => {
  requireShape('withBatchShape', batchShape)
  if (td.batchShape.join() === batchShape.join()) return td
  const problems = reshapeProblems(td, batchShape, [])
  if (problems.length === 0) return reshaped(td, [...batchShape]) as TensorDict<S> // the same leaves under the same keys
  throw new TensorDictError('withBatchShape', problems[0]!.path, {
    problems,
    expected: batchShape,
    actual: td.batchShape,
  })
}

/** The shapes that a batch shape must be a prefix of, and the numbers of rows that it must have. */
interface Demands {
  readonly shapes: readonly (readonly number[])[]
  readonly rows: readonly number[]
}

const demandsOf = (source: Entries | TensorDict): Demands => {
  const parts = (isTensorDict(source) ? [...source.entries.values()] : Object.values(source)).map(
    (value: Entry | Entries): Demands => {
      if (value instanceof tf.Tensor) return { shapes: [value.shape], rows: [] }
      if (isRecord(value)) return demandsOf(value)
      if (isTensorDict(value)) return isTensorDict(source) ? demandsOf(value) : { shapes: [value.batchShape], rows: [] }
      if (!isLeaf(value) || value._tag === 'Meta') return { shapes: [], rows: [] }
      return { shapes: [], rows: [value._tag === 'Data' ? value.items.size : raggedLength(value)] }
    },
  )
  return { shapes: parts.flatMap(({ shapes }) => shapes), rows: parts.flatMap(({ rows }) => rows) }
}

const commonPrefix = (shapes: readonly (readonly number[])[]): readonly number[] => {
  const [first = [], ...others] = shapes
  const end = first.findIndex((n, i) => others.some((shape) => shape[i] !== n))
  return end < 0 ? first : first.slice(0, end)
}

/**
 * Creates a TensorDict of entries, or of another TensorDict, with the longest batch shape that fits
 * all leaves, of at most `maxAxes` axes. Without tensors, the batch has one axis, as long as the
 * data and the ragged rows; with only meta, none.
 *
 * Errors   throws TensorDictError if no batch shape fits, because the numbers of data, of ragged
 *          rows and of tensor rows disagree.
 * Source   law 4. (TensorDict 0.14 clamps the requested number of axes, and gives nodes longer
 *          batch shapes than the root; here nodes get the root's.)
 *
 * @example
 * autoBatch({ x: tf.zeros([2, 3, 4]), y: tf.zeros([2, 3]), text: data(['a', 'b']) }).batchShape // [2]
 */
export function autoBatch<S>(source: TensorDict<S>, maxAxes?: number): TensorDict<S>
export function autoBatch<const E extends Entries>(source: E, maxAxes?: number): TensorDict<SchemaOf<E>>
export function autoBatch(source: Entries | TensorDict, maxAxes: number = Number.POSITIVE_INFINITY): TensorDict {
  if (!(maxAxes >= 0) || (Number.isFinite(maxAxes) && !Number.isInteger(maxAxes))) {
    throw new TensorDictError('autoBatch', [], {
      reason: `maxAxes must be a natural number, got ${maxAxes}`,
      actual: maxAxes,
    })
  }
  const problemsFor = (shape: readonly number[]): readonly TensorDictProblem[] =>
    isTensorDict(source) ? reshapeProblems(source, shape, []) : sourceProblems(source, shape)
  const { shapes, rows } = demandsOf(source)
  const longest = shapes.length > 0 ? commonPrefix(shapes) : rows.slice(0, 1)
  const fitting = Array.from({ length: Math.min(maxAxes, longest.length) + 1 }, (_, i) => longest.slice(0, i))
    .reverse()
    .find((shape) => problemsFor(shape).length === 0)
  if (fitting !== undefined) return isTensorDict(source) ? withBatchShape(source, fitting) : TensorDict(source, fitting)
  const problems = problemsFor(longest.slice(0, maxAxes))
  throw new TensorDictError('autoBatch', problems[0]!.path, { problems, hint: 'no batch shape fits all entries' })
}
