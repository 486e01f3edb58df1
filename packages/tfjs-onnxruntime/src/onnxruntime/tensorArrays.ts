/** The arrays of tensors: who may have them, and when they are used again. */
import type * as tf from '@tensorflow/tfjs-core'
import { sameShape, sizeOf } from './graph.js'
import type { OnnxArray } from './library.js'
import type { Feed, Runtime } from './runtime.js'
import type { StorageSlot } from './storage.js'

/** Access to the arrays of tensors. */
export interface TensorArrays {
  /**
   * Returns the data of a tensor, computing or copying it from the device if necessary. The caller
   * does not keep it.
   */
  readonly arrayOf: (tensor: tf.TensorInfo) => OnnxArray
  /** Returns the data of a tensor that is there already. */
  readonly constantOf: (tensor: tf.TensorInfo) => OnnxArray | undefined
  /** Makes the array of a tensor one that others may keep. */
  readonly share: (tensor: tf.TensorInfo) => void
  /** Returns a tensor as a feed: left on the device if it is there. The caller does not keep it. */
  readonly feedOf: (tensor: tf.TensorInfo) => Feed
  /**
   * Creates a tensor over an array without copying it. The array must not change while the tensor
   * is alive.
   */
  readonly adopt: (data: OnnxArray, shape: readonly number[], dtype: tf.DataType) => tf.Tensor
  /** Creates a tensor over a new result of a run. */
  readonly adoptResult: TensorArrays['adopt']
  /** Frees a tensor, and gives its array to later results if no other tensor or reader has it. */
  readonly reclaim: (tensor: tf.Tensor) => void
}

/** The state that the arrays are found in. */
interface ArrayAccess {
  readonly runtime: Pick<Runtime, 'reuse'>
  readonly slotOf: (dataId: object) => StorageSlot
  readonly dataOf: (slot: StorageSlot) => OnnxArray
  readonly flush: () => void
  readonly tensorOf: TensorArrays['adopt']
}

/** Throws RangeError unless an array has as many elements as its shape. */
const checkSize = (data: OnnxArray, shape: readonly number[]): void => {
  if (data.length === sizeOf(shape)) return
  throw new RangeError(`adopt: ${data.length} elements given, shape [${shape.join()}] needs ${sizeOf(shape)}`)
}

/** Returns a slot as a feed of this shape. It stays on the device unless it must be reshaped. */
const feedFrom = (slot: StorageSlot, shape: readonly number[], dataOf: ArrayAccess['dataOf']): Feed => {
  const resident = slot.content._tag === 'Numeric' ? slot.content.value.resident : undefined
  return { data: resident !== undefined && sameShape(resident.dims, shape) ? resident : dataOf(slot), shape }
}

/** Makes the access to the arrays of a backend. */
export const tensorArrays = ({ runtime, slotOf, dataOf, flush, tensorOf }: ArrayAccess): TensorArrays => {
  const share: TensorArrays['share'] = ({ dataId }) => {
    slotOf(dataId).array = 'shared'
  }
  const adoptResult: TensorArrays['adopt'] = (data, shape, dtype) => {
    checkSize(data, shape)
    return tensorOf(data, shape, dtype)
  }
  return {
    arrayOf: ({ dataId }) => dataOf(slotOf(dataId)),
    constantOf: (tensor) => {
      share(tensor)
      const { content } = slotOf(tensor.dataId)
      return content._tag === 'Numeric' && content.value.data !== null ? content.value.data : undefined
    },
    share,
    feedOf: ({ dataId, shape }) => feedFrom(slotOf(dataId), shape, dataOf),
    adopt: (data, shape, dtype) => {
      const tensor = adoptResult(data, shape, dtype)
      share(tensor)
      return tensor
    },
    adoptResult,
    reclaim: (tensor) => {
      flush() // recorded operations may read it
      const { references, array, content } = slotOf(tensor.dataId)
      tensor.dispose()
      if (references > 1 || array === 'shared' || content._tag === 'Opaque' || content.value.data === null) return
      runtime.reuse(content.value.data)
    },
  }
}
