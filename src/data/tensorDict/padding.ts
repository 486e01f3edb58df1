/** Padding of batch axes with new elements, and its inverse. Feature axes are never changed. */
import * as tf from '@tensorflow/tfjs-core'
import { applyJoin, requireAlike, shapeProblems } from './alike.js'
import { index } from './indexing.js'
import { firstOf } from './joining.js'
import { isValueOf } from './leaf.js'
import { leafEntries } from './leaves.js'
import { applyPlan, axisOf, requireCount, rowsOf, stridesOf } from './plan.js'
import { within } from './selecting.js'
import { batchSize, type TensorDict, TensorDictError, type TensorDictProblem } from './tensorDict.js'

/**
 * The values of new elements. New ragged rows are empty; meta values belong to the node and stay.
 */
export interface Filler {
  /**
   * The value in tensors. It must be a value of every tensor's dtype: an integer for int32, 0 or 1
   * for bool. Default 0.
   */
  readonly value?: number
  /** The value in data leaves. Without it, a TensorDict with data leaves cannot be padded. */
  readonly item?: unknown
}

/**
 * Refuses a filler that some leaf cannot hold. Errors: throws TensorDictError, listing every such
 * leaf.
 */
const requireFiller = (operation: string, td: TensorDict, filler: Filler): void => {
  const { value = 0 } = filler
  const problems = leafEntries(td).flatMap(([path, leaf]): readonly TensorDictProblem[] => {
    if (leaf instanceof tf.Tensor) {
      return isValueOf(leaf.dtype, value) ? [] : [{ path, reason: `${value} is not a value of ${leaf.dtype}` }]
    }
    return leaf._tag === 'Data' && !('item' in filler)
      ? [{ path, reason: 'data needs `item` as the value of new elements' }]
      : []
  })
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems, actual: filler })
}

/** The number of elements to add, or to remove, before and after. */
export type Width = readonly [before: number, behind: number]

const requireWidths = (operation: string, td: TensorDict, widths: readonly Width[]): void => {
  const rank = td.batchShape.length
  if (widths.length > rank) {
    throw new TensorDictError(operation, [], {
      reason: `${widths.length} widths for ${rank} batch axes`,
      expected: rank,
      actual: widths,
    })
  }
  const problems = widths.flatMap((pair, axis) =>
    pair
      .filter((width) => !Number.isSafeInteger(width) || width < 0)
      .map((width) => ({ path: [], reason: `width ${width} of axis ${axis} is not a natural number` })),
  )
  if (problems.length > 0) {
    throw new TensorDictError(operation, [], { problems, expected: 'natural numbers', actual: widths })
  }
}

const isNothing = (widths: readonly Width[]): boolean => widths.every(([before, behind]) => before + behind === 0)

/** Pads the first axes of a tensor. */
const padTensor = (tensor: tf.Tensor, widths: readonly Width[], value: number): tf.Tensor => {
  if (isNothing(widths)) return tensor
  const all = tensor.shape.map((_, axis): [number, number] => [...(widths[axis] ?? [0, 0])])
  if (tensor.size === 0) {
    return tf.fill(
      tensor.shape.map((size, axis) => size + all[axis]![0] + all[axis]![1]),
      value,
      tensor.dtype as 'float32', // the numeric dtypes, whichever it is: `requireFiller` refuses the others
    )
  }
  if (tensor.dtype === 'bool') return tf.cast(tf.pad(tf.cast(tensor, 'int32'), all, value), 'bool')
  return tf.pad(tensor, all, value)
}

/**
 * Adds new elements before and after on each batch axis.
 *
 * Shapes   `widths[i]` is for axis i; axes without widths stay.
 * Errors   throws TensorDictError if a width is not a natural number or has no axis, and, listing
 *          every such leaf, if the filler is not a value of a tensor's dtype, or if there are data
 *          leaves and no `item`.
 * Effects  creates tensors that belong to the enclosing scope; widths of 0 return the same object.
 * Source   law 60: `crop` with the same widths is the inverse.
 *
 * @example
 * pad(TensorDict({ x: data(['a']) }, [1]), [[0, 2]], { item: '' }).batchShape // [3]
 */
export const pad = <S>(td: TensorDict<S>, widths: readonly Width[], filler: Filler = {}): TensorDict<S> => {
  requireWidths('pad', td, widths)
  if (isNothing(widths)) return td
  requireFiller('pad', td, filler)
  const strides = stridesOf(td.batchShape)
  const positions = td.batchShape.map((size, axis) => {
    const [before, behind] = widths[axis] ?? [0, 0]
    return Array.from({ length: before + size + behind }, (_, i) =>
      i < before || i >= before + size ? Number.NEGATIVE_INFINITY : (i - before) * strides[axis]!,
    )
  })
  const { value = 0, item } = filler
  return applyPlan(td, {
    rank: td.batchShape.length,
    to: positions.map((axis) => axis.length),
    rows: () => rowsOf(positions),
    mover: () => (tensor) => padTensor(tensor, widths, value),
    filler: item,
  })
}

/**
 * Removes elements before and after on each batch axis.
 *
 * Errors   throws TensorDictError if a width is not a natural number, has no axis, or exceeds the
 *          size of its axis.
 * Effects  creates tensors that belong to the enclosing scope; widths of 0 return the same object.
 *
 * @example
 * crop(TensorDict({ x: data(['', 'a', '']) }, [3]), [[1, 1]]).batchShape // [1]
 */
export const crop = <S>(td: TensorDict<S>, widths: readonly Width[]): TensorDict<S> => {
  requireWidths('crop', td, widths)
  const ranges = widths.map(([before, behind], axis) => ({ start: before, end: td.batchShape[axis]! - behind }))
  const problems = ranges.flatMap(({ start, end }, axis) =>
    end < start
      ? [
          {
            path: [],
            reason: `axis ${axis} of size ${td.batchShape[axis]} has no ${widths[axis]!.join(' + ')} to take`,
          },
        ]
      : [],
  )
  if (problems.length > 0) throw new TensorDictError('crop', [], { problems, expected: td.batchShape, actual: widths })
  return isNothing(widths) ? td : index(td, ...ranges)
}

/** Sequences of different lengths as rows of one TensorDict. */
export interface PaddedSequences<S> {
  /** Batch shape `[N, T, ..]`: N sequences, padded to the longest one's length T. */
  readonly td: TensorDict<S>
  readonly lengths: readonly number[]
  readonly side: 'left' | 'right'
  /** bool `[N, T]`: true for elements of a sequence, false for padding. */
  readonly mask: tf.Tensor
}

/** The side and the value of padding. */
export interface PadSequenceOptions extends Filler {
  readonly side: 'left' | 'right'
}

/**
 * Stacks sequences, whose first batch axis is time, padded to one length.
 *
 * Shapes   N TensorDicts `[T_i, ..]` to one of `[N, T, ..]` with T the largest T_i, whatever the
 *          lengths are: also for one sequence, and for equal lengths.
 * Errors   throws TensorDictError, listing every difference between the sequences except their
 *          lengths, as `stack` does; for a filler that a leaf cannot hold, as `pad` does; for an
 *          empty list.
 * Effects  creates tensors, including the mask, that belong to the enclosing scope.
 * Source   law 61: `unpadSequence` is the inverse.
 *
 * @example
 * padSequence([TensorDict({ r: data([1]) }, [1]), TensorDict({ r: data([2, 3]) }, [2])], { side: 'left', item: 0 }).lengths // [1, 2]
 */
export const padSequence = <S>(parts: readonly TensorDict<S>[], options: PadSequenceOptions): PaddedSequences<S> => {
  const first = firstOf('padSequence', parts)
  axisOf('padSequence', first.batchShape, 0)
  requireAlike('padSequence', parts, { shapes: shapeProblems(parts, 0) })
  const { side, value = 0, item } = options
  requireFiller('padSequence', first, options)
  const lengths = parts.map((part) => part.batchShape[0]!)
  const longest = lengths.reduce((a, b) => Math.max(a, b))
  const block = batchSize(first.batchShape.slice(1))
  const begin = (length: number): number => (side === 'left' ? longest - length : 0)
  const rows = (): Int32Array => {
    const found = new Int32Array(parts.length * longest * block).fill(-1)
    let row = 0
    for (const [i, length] of lengths.entries()) {
      const from = (i * longest + begin(length)) * block
      for (let j = 0; j < length * block; j++) found[from + j] = row++
    }
    return found
  }
  const widths = lengths.map((length): Width => [begin(length), longest - length - begin(length)])
  const inside = lengths.flatMap((length) =>
    Array.from({ length: longest }, (_, t) => t >= begin(length) && t < begin(length) + length),
  )
  const plan = {
    to: [parts.length, longest, ...first.batchShape.slice(1)],
    rows,
    mover: () => (tensors: readonly tf.Tensor[]) =>
      tf.stack(tensors.map((tensor, i) => padTensor(tensor, [widths[i]!], value))),
    filler: item,
  }
  return {
    td: applyJoin(parts, plan),
    lengths,
    side,
    mask: tf.tensor2d(inside, [parts.length, longest], 'bool'),
  }
}

/**
 * Returns the sequences of a padded TensorDict, without the padding.
 *
 * Shapes   `[N, T, ..]` to N TensorDicts `[lengths[i], ..]`.
 * Errors   throws TensorDictError, listing every length that is not in 0 .. T, and if there are not
 *          N lengths.
 * Effects  creates tensors that belong to the enclosing scope.
 */
export const unpadSequence = <S>({
  td,
  lengths,
  side,
}: Pick<PaddedSequences<S>, 'td' | 'lengths' | 'side'>): readonly TensorDict<S>[] => {
  const [count, longest] = td.batchShape
  if (count !== lengths.length || longest === undefined) {
    throw new TensorDictError('unpadSequence', [], {
      reason: `${lengths.length} lengths for the batch shape [${td.batchShape.join(', ')}]`,
      expected: lengths.length,
      actual: td.batchShape,
    })
  }
  const wrong = lengths.filter((length) => !Number.isInteger(length) || length < 0 || length > longest)
  if (wrong.length > 0) {
    throw new TensorDictError('unpadSequence', [], {
      problems: wrong.map((length) => ({ path: [], reason: `length ${length} is not in 0 .. ${longest}` })),
      expected: longest,
      actual: lengths,
    })
  }
  return lengths.map((length, i) => {
    const start = side === 'left' ? longest - length : 0
    return index(td, i, { start, end: start + length })
  })
}

/** A batch that was padded to a multiple. */
export interface PaddedBatch<S> {
  readonly td: TensorDict<S>
  /** The size of its first axis before padding. */
  readonly size: number
}

/**
 * Pads the first batch axis at the end to a multiple of a size, to share a batch evenly.
 *
 * Errors   throws TensorDictError if `multiple` is not at least 1; as `pad` does.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   law 62: `unpadBatch` is the inverse.
 *
 * @example
 * padToMultiple(TensorDict({ x: data(['a']) }, [1]), 4, { item: '' }).td.batchShape // [4]
 */
export const padToMultiple = <S>(td: TensorDict<S>, multiple: number, filler: Filler = {}): PaddedBatch<S> => {
  axisOf('padToMultiple', td.batchShape, 0)
  requireCount('padToMultiple', { name: 'the multiple', count: multiple, least: 1 })
  const size = td.batchShape[0]!
  return { td: pad(td, [[0, (multiple - (size % multiple)) % multiple]], filler), size }
}

/**
 * Restores the batch from before `padToMultiple`. Errors: throws TensorDictError if it has fewer
 * elements.
 */
export const unpadBatch = <S>({ td, size }: PaddedBatch<S>): TensorDict<S> =>
  within('unpadBatch', td, { axis: 0, start: 0, end: size })
