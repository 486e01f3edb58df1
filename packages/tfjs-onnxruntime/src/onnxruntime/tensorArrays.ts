/** The arrays of tensors: who may have them, and when they are used again. */
import type * as tf from '@tensorflow/tfjs-core'
import { sameShape, sizeOf, type Value } from './graph.js'
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

/** The arrays of a backend. */
interface BackendArrays {
  readonly ofTensors: TensorArrays
  /** Returns the array of a slot to a reader, who may keep it. */
  readonly read: (slot: StorageSlot) => OnnxArray
  /** Takes note of a new slot: a value with two of them is shared. */
  readonly added: (slot: StorageSlot) => void
  /** Takes note of a result that may be the array of an input. */
  readonly passed: (data: OnnxArray, inputs: readonly (Value | null)[]) => void
}

/**
 * Makes the access to the arrays of a backend. An array is used again only if it has one tensor,
 * and no reader.
 */
export const tensorArrays = ({ runtime, slotOf, dataOf, flush, tensorOf }: ArrayAccess): BackendArrays => {
  const known = new WeakSet<object>() // values with a slot, and results
  const shared = new WeakSet<object>() // values and arrays that others may have
  const note = (item: object): void => {
    if (known.has(item)) shared.add(item)
    else known.add(item)
  }
  const shareSlot = ({ content }: StorageSlot): void => {
    if (content._tag === 'Opaque') return
    shared.add(content.value)
    if (content.value.data !== null) shared.add(content.value.data)
  }
  const read = (slot: StorageSlot): OnnxArray => {
    const data = dataOf(slot)
    shareSlot(slot)
    return data
  }
  const adoptResult: TensorArrays['adopt'] = (data, shape, dtype) => {
    checkSize(data, shape)
    note(data)
    return tensorOf(data, shape, dtype)
  }
  const ofTensors: TensorArrays = {
    arrayOf: ({ dataId }) => dataOf(slotOf(dataId)),
    constantOf: ({ dataId }) => {
      const slot = slotOf(dataId)
      shareSlot(slot)
      const { content } = slot
      return content._tag === 'Numeric' && content.value.data !== null ? content.value.data : undefined
    },
    share: ({ dataId }) => shareSlot(slotOf(dataId)),
    feedOf: ({ dataId, shape }) => feedFrom(slotOf(dataId), shape, dataOf),
    adopt: (data, shape, dtype) => {
      const tensor = adoptResult(data, shape, dtype)
      shared.add(data)
      return tensor
    },
    adoptResult,
    reclaim: (tensor) => {
      flush() // recorded operations may read it
      const { references, content } = slotOf(tensor.dataId)
      tensor.dispose()
      if (references > 1 || content._tag === 'Opaque') return
      const { value } = content
      if (value.data !== null && !shared.has(value) && !shared.has(value.data)) runtime.reuse(value.data)
    },
  }
  return {
    ofTensors,
    read,
    added: ({ content }) => {
      if (content._tag === 'Numeric') note(content.value)
    },
    passed: (data, inputs) => {
      if (inputs.some((input) => input?.data === data)) shared.add(data)
    },
  }
}
