/** The backend's data for each tfjs data id, and the conversions between tfjs and ONNX types. */
import type { DataType, TypedArray } from '@tensorflow/tfjs-core'
import type { Value } from './graph.js'
import type { OnnxArray, OnnxType } from './library.js'

/**
 * The content of a slot. Numbers are in a `Value`; strings and complex numbers, which the ONNX
 * kernels do not support, stay in tfjs's format.
 */
type Content =
  | { readonly _tag: 'Numeric'; readonly value: Value }
  | { readonly _tag: 'Opaque'; readonly values: TypedArray | Uint8Array[] }

export interface StorageSlot {
  readonly content: Content
  readonly dtype: DataType
  references: number
}

/** Returns the ONNX type of a tfjs dtype; undefined for string and complex64. */
export const onnxType = (dtype: DataType): OnnxType | undefined => {
  switch (dtype) {
    case 'float32':
    case 'int32':
    case 'bool':
      return dtype
    default:
      return undefined
  }
}

const copyBigInts = (values: ArrayLike<number>): BigInt64Array => {
  const copy = new BigInt64Array(values.length)
  for (let i = 0; i < values.length; i++) copy[i] = BigInt(values[i]!)
  return copy
}

/** Copies values to the array class of a type. */
export const copyArray = (values: ArrayLike<number>, type: OnnxType): OnnxArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(values)
    case 'float64':
      return new Float64Array(values)
    case 'int32':
      return new Int32Array(values)
    case 'bool':
      return new Uint8Array(values)
    case 'int64':
      return copyBigInts(values)
  }
}

/** Creates a value that is fed from an array. The array must not change afterwards. */
export const leaf = (
  data: OnnxArray,
  shape: readonly number[],
  type: OnnxType,
  origin: { readonly isConstant: boolean; readonly trace: number },
): Value => ({ shape, type, isConstant: origin.isConstant, trace: origin.trace, operation: null, data })
