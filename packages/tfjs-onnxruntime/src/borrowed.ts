/**
 * Kernels that the wasm backend lacks or computes incorrectly, borrowed from tfjs's cpu backend.
 */
import * as tf from '@tensorflow/tfjs-core'
import { cpuBackend } from './onnxruntime/fallback.js'
import { copyArray, onnxType } from './onnxruntime/storage.js'

const calls = new Map<string, number>()

/** Kernels that choose between wasm's own and a borrowed one. */
const completed = new WeakSet<tf.KernelFunc>()

/** Returns the number of calls of each borrowed kernel. */
export const borrowedCalls = (): Readonly<Record<string, number>> => Object.fromEntries(calls)

/**
 * Converts values to the array class of their dtype. wasm copies bytes and trusts the class; the
 * cpu backend may use another one.
 */
const exactArray = (values: tf.TypedArray, dtype: tf.DataType): tf.TypedArray => {
  const type = onnxType(dtype)
  return type === undefined ? values : (copyArray(values, type) as tf.TypedArray) // no dtype of tfjs becomes int64
}

/**
 * Wraps the cpu kernel `name` for the values of another backend. Strings and complex numbers are
 * not supported.
 */
const borrowed = (name: string, kernel: tf.KernelFunc): tf.KernelFunc => {
  return ({ inputs, attrs, backend }) => {
    const own = backend as tf.KernelBackend // tfjs passes every kernel the backend that it is registered for
    const cpu = cpuBackend()
    calls.set(name, (calls.get(name) ?? 0) + 1)
    const move = ({ dataId, shape, dtype }: tf.TensorInfo): tf.TensorInfo => ({
      dataId: cpu.write(own.readSync(dataId), shape, dtype),
      shape,
      dtype,
    })
    // A cast: the kernels of ragged tensors have lists of tensors among their inputs, against
    // tfjs's own types.
    const given = Object.entries(inputs) as unknown as readonly [string, tf.TensorInfo | tf.TensorInfo[] | undefined][]
    const moved = given.flatMap(([key, input]) =>
      input === undefined ? [] : [[key, Array.isArray(input) ? input.map(move) : move(input)] as const],
    )
    const infos = moved.flatMap(([, input]) => input)
    const results = kernel({
      // A cast: tfjs passes a list of tensors as an array, against its own types.
      inputs: Array.isArray(inputs)
        ? (infos as unknown as tf.NamedTensorInfoMap)
        : (Object.fromEntries(moved) as tf.NamedTensorInfoMap),
      attrs: attrs ?? {},
      backend: cpu,
    })
    const list = Array.isArray(results) ? results : [results]
    const returned = list.map(({ dataId, shape, dtype }) => {
      const values = cpu.readSync(dataId) as tf.TypedArray // strings are not supported
      return { dataId: own.write(exactArray(values, dtype), shape, dtype), shape, dtype }
    })
    for (const info of new Set([...list, ...infos])) {
      if (cpu.refCount(info.dataId) > 0) cpu.disposeIntermediateTensorInfo(info)
    }
    return Array.isArray(results) ? returned : returned[0]!
  }
}

type Arguments = Parameters<tf.KernelFunc>[0]

/**
 * Calls that kernels of wasm 4.22 compute incorrectly: gathers within a batch take from other rows,
 * gathers of empty operands have a wrong shape, and one-hot rows have ones in wrong places.
 */
const WRONG_ON_WASM: Readonly<Record<string, (call: Arguments) => boolean>> = {
  GatherV2: ({ inputs, attrs }) => {
    const isBatched = attrs !== undefined && attrs.batchDims !== 0 && attrs.batchDims !== undefined
    return isBatched || Object.values(inputs).some((info) => info?.shape.includes(0))
  },
  OneHot: () => true,
}

/**
 * Completes the kernels of the wasm backend with those of the cpu backend: missing kernels, and
 * calls that it computes incorrectly. Such a call reads its operands, which is slow but correct:
 * without them there is no gradient of `gather`.
 *
 * Effects  registers kernels with tfjs. A second call changes nothing more.
 */
export const completeWasm = (): void => {
  const known = new Map(tf.getKernelsForBackend('wasm').map((config) => [config.kernelName, config]))
  for (const { kernelName, kernelFunc } of tf.getKernelsForBackend('cpu')) {
    const own = known.get(kernelName)
    const isWrong = WRONG_ON_WASM[kernelName]
    const ours = borrowed(kernelName, kernelFunc)
    if (own === undefined) tf.registerKernel({ kernelName, backendName: 'wasm', kernelFunc: ours })
    else if (isWrong !== undefined && !completed.has(own.kernelFunc)) {
      const chosen: tf.KernelFunc = (call) => (isWrong(call) ? ours : own.kernelFunc)(call)
      completed.add(chosen)
      tf.unregisterKernel(kernelName, 'wasm')
      tf.registerKernel({ ...own, kernelFunc: chosen }) // keeps wasm's own setup function
    }
  }
}
