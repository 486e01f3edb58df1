/** Arithmetic on all numbers of a TensorDict, and casts of their dtypes. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { isValueOf, type Leaf, type Ragged, type RaggedType } from './leaf.js'
import { mapLeaves, zipped } from './leaves.js'
import { isTensorDict, type TensorDict, TensorDictError, type TensorDictProblem } from './tensorDict.js'
import { equalValues, sameNumbers } from './values.js'

/** An elementwise operation on tensors of one shape and dtype. */
export type ElementwiseOp = (left: tf.Tensor, right: tf.Tensor) => tf.Tensor

/** An operation lifted to TensorDicts. */
export type LiftedOp = <S>(left: TensorDict<S>, right: TensorDict<NoInfer<S>> | number) => TensorDict<S>

const tensorOf = ({ type, values }: Ragged): tf.Tensor => tf.tensor1d(Array.from(values), type)

/** Replaces the numbers of rows. */
const refilled = ({ offsets }: Ragged, numbers: tf.Tensor): Ragged => ({
  _tag: 'Ragged',
  type: numbers.dtype as RaggedType, // elementwise operations give no strings
  values: numbers.dataSync().slice(),
  offsets,
})

const numberType = (leaf: Leaf): tf.DataType | undefined => {
  if (leaf instanceof tf.Tensor) return leaf.dtype
  return leaf._tag === 'Ragged' ? leaf.type : undefined
}

/** Returns the reason why an operation cannot be applied to two leaves, or undefined. */
const pairProblem = (a: Leaf, b: Leaf): string | undefined => {
  const describe = (leaf: Leaf): string =>
    leaf instanceof tf.Tensor
      ? `${leaf.dtype} tensor [${leaf.shape.join(', ')}]`
      : `${leaf._tag} ${numberType(leaf) ?? ''}`.trim()
  if (describe(a) !== describe(b)) return `${describe(a)} and ${describe(b)}`
  if (a instanceof tf.Tensor || b instanceof tf.Tensor) return undefined
  if (a._tag === 'Ragged' && b._tag === 'Ragged') {
    return sameNumbers(a.offsets, b.offsets) ? undefined : 'ragged rows of other lengths'
  }
  const equal =
    (a._tag === 'Data' && b._tag === 'Data' && equalValues(a.items, b.items)) ||
    (a._tag === 'Meta' && b._tag === 'Meta' && equalValues(a.value, b.value))
  return equal ? undefined : `different ${a._tag.toLowerCase()} values`
}

const scalarProblem = (leaf: Leaf, x: number): string | undefined => {
  const type = numberType(leaf)
  return type === undefined || isValueOf(type, x) ? undefined : `${x} is not ${type}`
}

interface Lifting {
  readonly operation: string
  readonly op: ElementwiseOp
  /** Returns the reason why a leaf of this dtype is refused, or undefined. */
  readonly refusal: (dtype: tf.DataType | undefined) => string | undefined
}

const applyPair = (op: ElementwiseOp, a: Leaf, b: Leaf): Leaf => {
  if (a instanceof tf.Tensor) return op(a, b as tf.Tensor) // of one kind, as checked
  return a._tag === 'Ragged' ? refilled(a, op(tensorOf(a), tensorOf(b as Ragged))) : a
}

const applyScalar = (op: ElementwiseOp, leaf: Leaf, x: number): Leaf => {
  const other = (tensor: tf.Tensor): tf.Tensor => tf.scalar(x, tensor.dtype as RaggedType) // not a string
  if (leaf instanceof tf.Tensor) return op(leaf, other(leaf))
  if (leaf._tag !== 'Ragged') return leaf
  const numbers = tensorOf(leaf)
  return refilled(leaf, op(numbers, other(numbers)))
}

const lifted =
  ({ operation, op, refusal }: Lifting): LiftedOp =>
  (left, right) =>
    scope(() => {
      const problems: TensorDictProblem[] = []
      const checked = (reason: string | undefined, path: readonly string[], apply: () => Leaf, leaf: Leaf): Leaf => {
        if (reason === undefined) return apply()
        problems.push({ path, reason })
        return leaf
      }
      const result = isTensorDict(right)
        ? zipped(operation, [left, right], (a, b, path) =>
            checked(pairProblem(a, b) ?? refusal(numberType(a)), path, () => applyPair(op, a, b), a),
          )
        : mapLeaves(left, (a, path) =>
            checked(scalarProblem(a, right) ?? refusal(numberType(a)), path, () => applyScalar(op, a, right), a),
          )
      if (problems.length === 0) return result
      throw new TensorDictError(operation, problems[0]!.path, { problems, hint: 'select or cast first' })
    })

/**
 * Lifts an operation on tensors to TensorDicts: it is applied to each pair of tensors, and to the
 * numbers of each pair of ragged rows. Data and meta pass through, and must be equal on both sides.
 * A number on the right takes the dtype of each leaf.
 *
 * Errors   the result throws TensorDictError, naming every key that one side lacks, every pair with
 *          different kinds, dtypes, shapes, row lengths, data or meta, and every leaf whose dtype
 *          cannot hold the number.
 * Effects  the result creates tensors that belong to the enclosing scope; it reads ragged numbers,
 *          which computes them.
 * Source   law 33.
 *
 * @example
 * const rows = TensorDict({ x: ragged('float32', [[1, 5]]) }, [1])
 * toNested(lift((a, b) => tf.maximum(a, b))(rows, 2)) // { x: [[2, 5]] }
 */
export const lift = (op: ElementwiseOp): LiftedOp => lifted({ operation: 'lift', op, refusal: () => undefined })

const arithmetic = (operation: string, op: ElementwiseOp): LiftedOp =>
  lifted({
    operation,
    op,
    refusal: (dtype) => (dtype === 'bool' ? 'bool: arithmetic is for numbers' : undefined),
  })

/**
 * Adds two TensorDicts leaf by leaf: see `lift`. Bool leaves are refused.
 *
 * @example
 * toNested(add(TensorDict({ x: ragged('int32', [[1, 2]]) }, [1]), 10)) // { x: [[11, 12]] }
 */
export const add: LiftedOp = arithmetic('add', (a, b) => tf.add(a, b))

/** Subtracts leaf by leaf: see `lift`. Bool leaves are refused. */
export const sub: LiftedOp = arithmetic('sub', (a, b) => tf.sub(a, b))

/** Multiplies leaf by leaf: see `lift`. Bool leaves are refused. */
export const mul: LiftedOp = arithmetic('mul', (a, b) => tf.mul(a, b))

/**
 * Divides leaf by leaf: see `lift`. For int32 the quotient is rounded down. Bool leaves are
 * refused.
 */
export const div: LiftedOp = arithmetic('div', (a, b) => tf.div(a, b))

/** Options for `cast`. */
export interface CastOptions {
  /**
   * The dtypes that are cast. Default: only float32, so that token ids, counts and masks are not
   * changed.
   */
  readonly from?: readonly RaggedType[]
}

/**
 * Converts tensors and ragged rows of some dtypes to another dtype. From float32 to int32 decimals
 * are truncated; to bool, every number except 0 is true. Data and meta pass through.
 *
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * toNested(cast(TensorDict({ x: ragged('float32', [[1.5, -1.5]]) }, [1]), 'int32')) // { x: [[1, -1]] }
 */
export const cast = <S>(td: TensorDict<S>, dtype: RaggedType, options: CastOptions = {}): TensorDict<S> => {
  const { from = ['float32'] } = options
  return mapLeaves(td, (leaf) => {
    const type = numberType(leaf)
    if (type === dtype || !from.some((each) => each === type)) return leaf
    if (leaf instanceof tf.Tensor) return tf.cast(leaf, dtype)
    return leaf._tag === 'Ragged' ? refilled(leaf, tf.cast(tensorOf(leaf), dtype)) : leaf
  })
}
