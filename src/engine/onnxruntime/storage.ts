/** What the backend knows of each tfjs data id, and the conversions between tfjs and ONNX types. */
import type { DataType, TypedArray } from '@tensorflow/tfjs-core'
import type { OnnxArray, OnnxType } from './binding.js'
import type { Value } from './graph.js'

/** Numbers live in a `Value`; strings and complex numbers, which ONNX kernels here do not take, stay as tfjs has them. */
type Content =
  | { readonly _tag: 'Numeric'; readonly value: Value }
  | { readonly _tag: 'Opaque'; readonly values: TypedArray | Uint8Array[] }

export interface StorageSlot {
  readonly content: Content
  readonly dtype: DataType
  references: number
}

/** The ONNX type of a tfjs dtype; undefined for string and complex64. */
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

/** The array class that holds a dtype, filled with a copy of `values`. */
export const copyArray = (values: ArrayLike<number>, type: OnnxType): OnnxArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(values)
    case 'int32':
      return new Int32Array(values)
    case 'bool':
      return new Uint8Array(values)
    case 'int64':
      return copyBigInts(values)
  }
}

/** A value that is fed, made from an array which nobody may write to from now on. */
export const leaf = (
  data: OnnxArray,
  shape: readonly number[],
  type: OnnxType,
  origin: { readonly isConstant: boolean; readonly trace: number },
): Value => ({ shape, type, isConstant: origin.isConstant, trace: origin.trace, operation: null, data })
