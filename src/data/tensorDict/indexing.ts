/** Selection of batch elements: by integer, range, list or mask. Feature axes are never changed. */
import * as tf from '@tensorflow/tfjs-core'
import { chosen, isMask, type Mask, maskShape, readMask } from './masks.js'
import { applyPlan, type MoveTensor, type Offsets, type Plan, reshaped, rowsOf, runOf, stridesOf } from './plan.js'
import { batchSize, type TensorDict, TensorDictError, type TensorDictProblem } from './tensorDict.js'

/**
 * Elements `start`, `start + step`, ... before `end` of an axis. Negative numbers count from the
 * end. Default: all elements, backwards if `step` is negative.
 */
export interface Range {
  readonly start?: number
  readonly end?: number
  readonly step?: number
}

/** An index part that inserts a new axis of size 1. */
export const newAxis = 'newAxis'

/** An index part for all remaining axes, unchanged. */
export const ellipsis = 'ellipsis'

/**
 * One part of an index. An integer removes its axis, a range or a list keeps it, and a mask covers
 * as many axes as it has.
 */
export type IndexPart = number | Range | typeof newAxis | typeof ellipsis | readonly number[] | Mask

/** An index part after validation. */
type Step =
  | { readonly kind: 'at'; readonly position: number }
  | { readonly kind: 'some'; readonly axes: number; readonly positions: readonly number[] }
  | { readonly kind: 'new' }

const isList = (part: IndexPart): part is readonly number[] =>
  Array.isArray(part) && part.every((item) => typeof item === 'number') // an empty list counts as one of numbers

const isNew = (part: IndexPart): boolean => part === newAxis

/** Returns the number of batch axes that a part covers. */
const axesOf = (part: IndexPart): number => {
  if (part === newAxis || part === ellipsis) return 0
  return part instanceof tf.Tensor ? part.rank : 1
}

const outOfRange = (position: number, axis: number, size: number): string =>
  `index ${position} is out of range for axis ${axis} of size ${size}`

/** Returns the positions of a range, or a description of the problem. */
const rangePositions = (range: Range, axis: number, size: number): readonly number[] | string => {
  const { step = 1 } = range
  const { start = step > 0 ? 0 : size - 1, end = step > 0 ? size : -size - 1 } = range
  if (![start, end, step].every(Number.isInteger) || step === 0) {
    return `a range has whole numbers and a step other than 0, got ${start} .. ${end} by ${step}`
  }
  const first = start < 0 && range.start !== undefined ? start + size : start
  const last = end < 0 ? end + size : end
  // A backward range begins at an element and ends before one; -1 is the position before the first.
  const [low, high] = step > 0 ? [0, size] : [-1, size - 1]
  if (first < low || first > high || last < low || last > high) {
    return `the range ${start} .. ${end} is not inside axis ${axis} of size ${size}`
  }
  const positions = new Array<number>(Math.max(0, Math.ceil((last - first) / step)))
  for (let i = 0; i < positions.length; i++) positions[i] = first + i * step
  return positions
}

const wrongAmong = (list: readonly number[], size: number): readonly number[] =>
  list.filter((i) => !Number.isInteger(i) || i < -size || i >= size)

const fromEnd = (position: number, size: number): number => (position < 0 ? position + size : position)

/** Validates one part against its axes. Problems are added to `problems`. */
const stepOf = (
  part: IndexPart,
  place: { readonly operation: string; readonly shape: readonly number[]; readonly axis: number },
  problems: TensorDictProblem[],
): Step => {
  const { operation, shape, axis } = place
  const size = shape[axis]!
  const refuse = (reason: string): Step => {
    problems.push({ path: [], reason })
    return { kind: 'some', axes: axesOf(part), positions: [] }
  }
  if (isNew(part)) return { kind: 'new' }
  if (typeof part === 'number') {
    return wrongAmong([part], size).length > 0
      ? refuse(outOfRange(part, axis, size))
      : { kind: 'at', position: fromEnd(part, size) }
  }
  if (isList(part)) {
    const wrong = wrongAmong(part, size)
    for (const position of wrong) refuse(outOfRange(position, axis, size))
    return { kind: 'some', axes: 1, positions: wrong.length > 0 ? [] : part.map((i) => fromEnd(i, size)) }
  }
  if (isMask(part)) {
    const mask = readMask(operation, shape.slice(axis), part)
    return { kind: 'some', axes: mask.shape.length, positions: chosen(mask) }
  }
  if (typeof part !== 'object' || part === null || Array.isArray(part)) {
    return refuse(`a part is an integer, a range, newAxis, ellipsis, a list of integers or a mask, got ${String(part)}`)
  }
  const positions = rangePositions(part as Range, axis, size) // the remaining case of the union
  return typeof positions === 'string' ? refuse(positions) : { kind: 'some', axes: 1, positions }
}

/** Replaces the ellipsis by whole axes, and appends whole axes after the last part. */
const completed = (operation: string, parts: readonly IndexPart[], rank: number): readonly IndexPart[] => {
  const ellipses = parts.filter((part) => part === ellipsis).length
  const lists = parts.filter((part) => isList(part) || isMask(part)).length
  const taken = parts.reduce((sum: number, part) => sum + axesOf(part), 0)
  const problems = [
    ...(ellipses > 1 ? [`${ellipses} ellipses: at most one is possible`] : []),
    ...(lists > 1 ? [`${lists} lists or masks: at most one is possible; index once for each`] : []),
    ...(taken > rank ? [`too many indices: ${taken} axes are taken, and the batch shape has ${rank}`] : []),
  ]
  if (problems.length > 0) {
    throw new TensorDictError(operation, [], {
      problems: problems.map((reason) => ({ path: [], reason })),
      expected: rank,
      actual: taken,
    })
  }
  const whole = new Array<Range>(rank - taken).fill({})
  const at = parts.indexOf(ellipsis)
  return at < 0 ? [...parts, ...whole] : [...parts.slice(0, at), ...whole, ...parts.slice(at + 1)]
}

const stepsOf = (operation: string, shape: readonly number[], parts: readonly IndexPart[]): readonly Step[] => {
  const problems: TensorDictProblem[] = []
  let axis = 0
  const steps = completed(operation, parts, shape.length).map((part) => {
    const step = stepOf(part, { operation, shape, axis }, problems)
    axis += axesOf(part)
    return step
  })
  if (problems.length > 0) throw new TensorDictError(operation, [], { problems, expected: shape, actual: parts })
  return steps
}

/** Returns the rows that the steps choose. */
const chosenRows = (shape: readonly number[], steps: readonly Step[]): Int32Array => {
  const strides = stridesOf(shape)
  let [axis, base] = [0, 0]
  const offsets: (readonly number[])[] = []
  for (const step of steps) {
    if (step.kind === 'new') offsets.push([0])
    else if (step.kind === 'at') base += step.position * strides[axis++]!
    else {
      axis += step.axes
      const stride = strides[axis - 1]!
      offsets.push(step.positions.map((i) => i * stride))
    }
  }
  return rowsOf(offsets satisfies Offsets, base)
}

/**
 * Creates the function that moves tensors: one slice for all integers and contiguous ranges, one
 * gather for each other part, one reshape.
 */
const moverOf = (shape: readonly number[], steps: readonly Step[], to: readonly number[]): MoveTensor => {
  const begin: number[] = []
  const size: number[] = []
  const merged: number[] = []
  const gathers: { readonly axis: number; readonly index: tf.Tensor1D }[] = []
  for (const step of steps) {
    if (step.kind === 'new') continue
    const axis = begin.length
    if (step.kind === 'at' || (step.axes === 1 && runOf(step.positions) !== undefined)) {
      begin.push(step.kind === 'at' ? step.position : (step.positions[0] ?? 0))
      size.push(step.kind === 'at' ? 1 : step.positions.length)
      merged.push(size[axis]!)
      continue
    }
    const taken = shape.slice(axis, axis + step.axes)
    begin.push(...taken.map(() => 0))
    size.push(...taken)
    gathers.push({ axis: merged.length, index: tf.tensor1d([...step.positions], 'int32') })
    merged.push(batchSize(taken))
  }
  return (tensor) => {
    const rest = tensor.shape.slice(shape.length)
    const whole = size.every((n, axis) => n === shape[axis])
    const sliced = whole ? tensor : tf.slice(tensor, [...begin, ...rest.map(() => 0)], [...size, ...rest])
    const picked = gathers.reduce(
      (found, { axis, index }) => tf.gather(found, index, axis),
      reshaped(sliced, gathers.length > 0 ? [...merged, ...rest] : sliced.shape),
    )
    return reshaped(picked, [...to, ...rest])
  }
}

/** A plan whose rows are always a list. `choice` reports whether an element is chosen twice. */
interface IndexPlan extends Plan {
  readonly choice: () => 'distinct' | 'repeated'
  readonly rows: () => Int32Array
}

/**
 * Returns the plan of the elements that `parts` choose. Errors: throws TensorDictError, listing
 * every invalid part.
 */
export const indexPlan = (operation: string, shape: readonly number[], parts: readonly IndexPart[]): IndexPlan => {
  const steps = stepsOf(operation, shape, parts)
  const to = steps.flatMap((step) => (step.kind === 'new' ? [1] : step.kind === 'at' ? [] : [step.positions.length]))
  return {
    rank: shape.length,
    to,
    rows: () => chosenRows(shape, steps),
    mover: () => moverOf(shape, steps, to),
    choice: () =>
      steps.every((step) => step.kind !== 'some' || new Set(step.positions).size === step.positions.length)
        ? 'distinct'
        : 'repeated',
  }
}

const isWhole = (part: IndexPart): boolean =>
  part === ellipsis ||
  (typeof part === 'object' &&
    !Array.isArray(part) &&
    !(part instanceof tf.Tensor) &&
    Object.values(part).every((value) => value === undefined))

/**
 * Selects batch elements, with one part for each batch axis; axes without a part stay whole.
 *
 * Shapes   an integer removes its axis, a range or a list of L integers keeps it with the chosen
 *          elements, `newAxis` adds an axis of size 1, `ellipsis` covers the remaining axes, a mask
 *          of k axes becomes one axis with the elements that it chooses. Each result axis stays in
 *          its place. At most one part is a list or a mask. Negative numbers count from the end.
 * Errors   throws TensorDictError, listing every part that is out of range, and for more parts than
 *          batch axes, whatever the ranks of the leaves.
 * Effects  creates tensors that belong to the enclosing scope; reads a mask that is a tensor.
 *          Selecting only whole axes returns the same object.
 * Source   laws 34 to 38. Unlike in NumPy, an integer beside a list does not move axes, and a range
 *          beyond the axis is an error.
 *
 * @example
 * index(TensorDict({ x: data(['a', 'b', 'c', 'd']) }, [2, 2]), 1, -1).batchShape // []
 */
export const index = <S>(td: TensorDict<S>, ...parts: readonly IndexPart[]): TensorDict<S> => {
  const plan = indexPlan('index', td.batchShape, parts)
  return parts.every(isWhole) ? td : applyPlan(td, plan)
}

/**
 * Selects the elements for which the mask is true, in order.
 *
 * Shapes   a mask over the first k batch axes turns them into one, whose size is the number of
 *          chosen elements.
 * Errors   throws TensorDictError if the mask is not boolean, or does not match the first batch
 *          axes.
 * Effects  creates tensors that belong to the enclosing scope; reads a mask that is a tensor, which
 *          computes it.
 *
 * @example
 * mask(TensorDict({ x: data(['a', 'b']) }, [2]), [false, true]).batchShape // [1]
 */
export const mask = <S>(td: TensorDict<S>, condition: Mask): TensorDict<S> => {
  maskShape('mask', td.batchShape, condition)
  return applyPlan(td, indexPlan('mask', td.batchShape, [condition]))
}
