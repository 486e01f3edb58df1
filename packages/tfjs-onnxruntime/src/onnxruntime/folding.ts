/**
 * Immediate evaluation of small operations on known values: compiling a graph for them would take a
 * hundred times as long, and every number of rows is another graph. Only operations whose results
 * are the same to the bit on every backend are folded.
 */
import { type Attribute, type OutputSpec, sameShape, sizeOf, type Value } from './graph.js'
import { makeArray, type OnnxArray } from './library.js'

/**
 * The maximum number of elements of a result that is computed number by number, and of one that is
 * composed of pieces.
 */
const MOST = { numbers: 256, pieces: 16_384 } as const

/** A value with its data. */
type Known = Value & { readonly data: OnnxArray }

interface Call {
  readonly inputs: readonly Known[]
  readonly output: OutputSpec
  readonly attributes: Readonly<Record<string, Attribute>>
}

/** Evaluates an operation. Returns undefined if it must be recorded. */
type Fold = (call: Call) => OnnxArray | undefined

/** Returns a part of an array. Only arrays of the same type are copied into one another. */
const part = (from: OnnxArray, start: number, end: number): Float32Array => from.subarray(start, end) as Float32Array // whichever it is, it goes into an array of the same type

/**
 * Combines two numbers at a time: of equal shapes, or one number with each of the other side. The
 * result array rounds floats.
 */
const elementwise =
  (f: (a: number, b: number) => number): Fold =>
  ({ inputs: [a, b], output }) => {
    const size = sizeOf(output.shape)
    const fits = ({ shape, data, type }: Known): boolean =>
      type !== 'int64' && (data.length === 1 || sameShape(shape, output.shape))
    if (size > MOST.numbers || !fits(a!) || !fits(b!)) return undefined
    const result = makeArray(size, output.type)
    const [left, right] = [a!.data as Float32Array, b!.data as Float32Array] // numbers, as just checked
    const [i, j] = [left.length === 1 ? 0 : 1, right.length === 1 ? 0 : 1]
    for (let k = 0; k < size; k++) result[k] = f(left[i * k]!, right[j * k]!)
    return result
  }

/** Arithmetic on floats only: int32 wraps around, which doubles do not. */
const arithmetic = (f: (a: number, b: number) => number): Fold => {
  const fold = elementwise(f)
  return (call) => (call.output.type === 'float32' ? fold(call) : undefined)
}

const comparison = (f: (a: number, b: number) => boolean): Fold => elementwise((a, b) => (f(a, b) ? 1 : 0))

const not: Fold = ({ inputs: [x], output }) =>
  x!.data.length > MOST.numbers || output.type !== 'bool'
    ? undefined
    : Uint8Array.from(x!.data as Uint8Array, (n) => 1 - n) // a bool is 0 or 1

/**
 * Fills all elements with one number. A new array is zeros, of any size, and takes memory only
 * where it is written.
 */
const expand: Fold = ({ inputs: [x], output }) => {
  const size = sizeOf(output.shape)
  if (x!.data.length !== 1 || x!.type === 'int64') return undefined
  const number = Number(x!.data[0]) // no int64, as just checked
  if (Object.is(number, 0)) return makeArray(size, output.type)
  return size > MOST.numbers ? undefined : (makeArray(size, output.type) as Float32Array).fill(number)
}

const reshape: Fold = ({ inputs: [x] }) => x!.data

const concat: Fold = ({ inputs, output, attributes }) => {
  const size = sizeOf(output.shape)
  const axis = attributes.axis as number // always given
  if (size > MOST.pieces) return undefined
  const result = makeArray(size, output.type) as Float32Array // of the type of all inputs
  const outer = sizeOf(output.shape.slice(0, axis))
  let at = 0
  for (let block = 0; block < outer; block++) {
    for (const { data } of inputs) {
      const width = data.length / outer
      result.set(part(data, block * width, (block + 1) * width), at)
      at += width
    }
  }
  return result
}

/** Copies whole pieces along an axis, by their indices. */
const pieces = (value: Known, axis: number, places: ArrayLike<number>): OnnxArray => {
  const width = sizeOf(value.shape.slice(axis + 1))
  const block = value.shape[axis]! * width
  const outer = sizeOf(value.shape.slice(0, axis))
  const result = makeArray(outer * places.length * width, value.type) as Float32Array // of the type of the value
  let at = 0
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < places.length; i++) {
      const start = o * block + places[i]! * width
      result.set(part(value.data, start, start + width), at)
      at += width
    }
  }
  return result
}

/** Looks up elements. Indices outside the axis are left to onnxruntime. */
const gather: Fold = ({ inputs: [x, indices], output, attributes }) => {
  const axis = attributes.axis as number // always given
  const places = Array.from(indices!.data as ArrayLike<number | bigint>, Number)
  const size = x!.shape[axis]!
  if (sizeOf(output.shape) > MOST.pieces || places.some((place) => place < 0 || place >= size)) return undefined
  return pieces(x!, axis, places)
}

/** Copies a run along one axis, without steps or negative bounds. */
const slice: Fold = ({ inputs, output }) => {
  const [x, starts, ends, axes] = inputs
  if (sizeOf(output.shape) > MOST.pieces || inputs.length !== 4 || axes!.data.length !== 1) return undefined
  const [start, end, axis] = [starts!, ends!, axes!].map(({ data }) => Number(data[0]))
  if (start! < 0 || start! > end! || end! > x!.shape[axis!]!) return undefined
  return pieces(
    x!,
    axis!,
    Array.from({ length: end! - start! }, (_, i) => start! + i),
  )
}

/** The operations that are folded, by their names in ONNX. */
export const FOLDS: Readonly<Record<string, Fold>> = {
  Add: arithmetic((a, b) => a + b),
  And: elementwise((a, b) => a & b),
  Concat: concat,
  Equal: comparison((a, b) => a === b),
  Expand: expand,
  Gather: gather,
  Greater: comparison((a, b) => a > b),
  GreaterOrEqual: comparison((a, b) => a >= b),
  Less: comparison((a, b) => a < b),
  LessOrEqual: comparison((a, b) => a <= b),
  Mul: arithmetic((a, b) => a * b),
  Not: not,
  Or: elementwise((a, b) => a | b),
  Reshape: reshape,
  Slice: slice,
  Sub: arithmetic((a, b) => a - b),
}

/**
 * Evaluates an operation on known values. Returns undefined if a value is unknown, or the operation
 * is large or not exact.
 *
 * Cost     O(elements of the result), at most 16384.
 */
export const folded = (
  name: string,
  inputs: readonly (Value | null)[],
  { output, attributes }: Pick<Call, 'output' | 'attributes'>,
): OnnxArray | undefined => {
  const fold = FOLDS[name]
  if (fold === undefined) return undefined
  return inputs.every((input): input is Known => input?.data != null) ? fold({ inputs, output, attributes }) : undefined
}
