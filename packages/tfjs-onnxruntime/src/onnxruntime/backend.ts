/**
 * The `onnxruntime` backend of TensorFlow.js.
 *
 * Kernel calls record operations; reading a value compiles and runs all recorded operations whose
 * results are still needed (see `graph.ts` and `runtime.ts`). Kernels without an ONNX form run on
 * tfjs's cpu backend. Inside a trace (see `jit.ts`) nothing runs at all: the recorded graph becomes
 * a function of its parameters.
 */
import * as tf from '@tensorflow/tfjs-core'
import { folded } from './folding.js'
import { collect, type Graph, isUncomputed, makeOperation, sameShape, type Value } from './graph.js'
import type { DeviceTensor, OnnxArray, OnnxType } from './library.js'
import { type Origin, originOf } from './origin.js'
import { makeResidents } from './residents.js'
import type { EmitOptions, Emitter, GraphSizes, KernelInputs } from './rule.js'
import type { EngineStats, Runtime } from './runtime.js'
import { copyArray, leaf, onnxType, type StorageSlot } from './storage.js'
import { type TensorArrays, tensorArrays } from './tensorArrays.js'

export const BACKEND_NAME = 'onnxruntime'

/**
 * The number of recorded operations that triggers a run even without a read, so that a loop without
 * reads stays bounded.
 */
const MAX_PENDING = 8192

/** A recorded function: its graph, the parameter of each feed, and the source of each output. */
export interface Traced {
  readonly graph: Graph
  readonly feedParameters: readonly number[]
  readonly outputs: readonly TracedOutput[]
}

type TracedOutput = { readonly shape: readonly number[]; readonly dtype: tf.DataType } & (
  | { readonly _tag: 'Computed'; readonly index: number }
  | { readonly _tag: 'Parameter'; readonly index: number }
  | { readonly _tag: 'Constant'; readonly data: OnnxArray }
)

/** The interface of the backend for the rest of the engine, beyond tfjs's own. */
export interface RecordingBackend extends TensorArrays {
  readonly kernelBackend: tf.KernelBackend
  /** The version of onnxruntime. */
  readonly version: string
  readonly emitter: Emitter
  readonly runtime: Runtime
  /** Computes all recorded values that are alive. */
  readonly flush: () => void
  readonly stats: () => EngineStats
  readonly isTracing: () => boolean
  /**
   * Records `f` on parameters of the given shapes without running anything. With sizes that `vary`,
   * kernels emit the same operations for all shapes of a rank.
   */
  readonly trace: (
    parameters: readonly Pick<tf.TensorInfo, 'shape' | 'dtype'>[],
    f: (inputs: readonly tf.Tensor[]) => readonly tf.Tensor[],
    sizes: GraphSizes,
  ) => Traced
  readonly compile: Runtime['compile']
  /** Creates a tensor of a result on the device. The last tensor that uses the result frees it. */
  readonly adoptResident: (resident: DeviceTensor, dtype: tf.DataType) => tf.Tensor
  readonly makeInfo: (value: Value, dtype?: tf.DataType) => tf.TensorInfo
  /** Creates another handle on the same data, for tfjs's Identity and Reshape. */
  readonly shareData: (info: tf.TensorInfo, shape: readonly number[]) => tf.TensorInfo
  /** Runs `f`, attributing its operations to a kernel call: errors name it. */
  readonly recordAs: <T>(kernel: string, inputs: KernelInputs, f: () => T) => T
}

const requireOnnxType = (dtype: tf.DataType): OnnxType => {
  const type = onnxType(dtype)
  if (type === undefined) throw new TypeError(`onnxruntime backend: no numeric storage for dtype ${dtype}`)
  return type
}

const residentValue = (
  resident: DeviceTensor,
  { type, trace }: { readonly type: OnnxType; readonly trace: number },
): Value => ({ shape: resident.dims, type, isConstant: false, trace, operation: null, data: null, resident })

/** The parts of tfjs's interface that do not depend on the state. */
const FIXED_PARTS = {
  timerAvailable: () => true,
  memory: () => ({ unreliable: false }),
  floatPrecision: () => 32,
  epsilon: () => 1e-7,
  readToGPU: () => {
    throw new Error('onnxruntime backend: tensors are in main memory; readToGPU is not available')
  },
  createTensorFromGPUData: () => {
    throw new Error('onnxruntime backend: tensors are in main memory; createTensorFromGPUData is not available')
  },
} as const satisfies Partial<tf.KernelBackend>

/**
 * Creates the backend over a runtime. `breathe` lets the event loop turn once. Register
 * `kernelBackend` with tfjs under `BACKEND_NAME`.
 */
export const makeRecordingBackend = (runtime: Runtime, breathe: () => Promise<void>): RecordingBackend => {
  let [currentTrace, currentSizes]: [number, GraphSizes] = [0, 'fixed']
  let traceCount = 0
  let recorded = 0
  let origin: (() => Origin) | null = null
  const pending = new Set<StorageSlot>()
  const residents = makeResidents()

  const slotOf = (dataId: object): StorageSlot => storage.get(dataId)

  const numeric = (slot: StorageSlot): Value => {
    if (slot.content._tag === 'Numeric') return slot.content.value
    throw new TypeError(`onnxruntime backend: ${slot.dtype} tensors have no numeric value`)
  }

  const makeLeaf = (data: OnnxArray, shape: readonly number[], type: OnnxType): Value =>
    leaf(data, shape, type, { isConstant: currentTrace !== 0, trace: currentTrace })

  const addSlot = (slot: StorageSlot): tf.DataId => {
    const dataId = {}
    storage.set(dataId, slot)
    arrays.added(slot)
    if (currentTrace === 0 && slot.content._tag === 'Numeric' && isUncomputed(slot.content.value)) pending.add(slot)
    residents.add(slot)
    return dataId
  }

  const flush = (): void => {
    const slots = [...pending]
    pending.clear()
    recorded = 0
    runtime.compute(slots.map(numeric))
    residents.free()
  }

  const dataOf = (slot: StorageSlot): OnnxArray => {
    const value = numeric(slot)
    if (value.data === null && value.resident !== undefined) value.data = runtime.download(value.resident, value.type)
    if (value.data === null) {
      if (value.trace !== 0) {
        throw new Error('a value was read inside a compiled function; read the results of the call instead')
      }
      flush()
      if (value.data === null) runtime.compute([value]) // an earlier run failed, because of this value or another one
    }
    return value.data!
  }

  const put = (
    values: tf.backend_util.BackendValues,
    dtype: tf.DataType,
    shape: readonly number[],
  ): StorageSlot['content'] => {
    const type = onnxType(dtype)
    if (type === undefined) {
      return { _tag: 'Opaque', values: (values ?? []) as tf.TypedArray | Uint8Array[] } // strings: bytes; complex: interleaved
    }
    return { _tag: 'Numeric', value: makeLeaf(copyArray((values ?? []) as tf.TypedArray, type), shape, type) }
  }

  const readSync = (dataId: object): tf.backend_util.BackendValues => {
    const slot = slotOf(dataId)
    return slot.content._tag === 'Opaque' ? slot.content.values : (arrays.read(slot) as tf.TypedArray) // int64 never gets a slot
  }

  const disposeData = (dataId: object, force = false): boolean => {
    if (!storage.has(dataId)) return true
    const slot = slotOf(dataId)
    slot.references--
    if (!force && slot.references > 0) return false
    pending.delete(slot)
    storage.delete(dataId)
    residents.drop(slot)
    if (pending.size === 0) residents.free()
    return true
  }

  const kernelBackend: tf.KernelBackend = {
    ...FIXED_PARTS,
    refCount: (dataId) => (storage.has(dataId) ? slotOf(dataId).references : 0),
    incRef: (dataId) => {
      slotOf(dataId).references++
    },
    time: async (f) => {
      flush()
      const start = performance.now()
      f()
      flush()
      return { kernelMs: performance.now() - start }
    },
    // The native call blocks, so timers and input are handled before it. The slot survives a
    // disposal in between.
    read: async (dataId) => {
      const slot = slotOf(dataId)
      if (slot.content._tag === 'Opaque') return slot.content.values
      if (isUncomputed(slot.content.value) && slot.content.value.trace === 0) await breathe()
      return arrays.read(slot) as tf.TypedArray // int64 never gets a slot
    },
    readSync,
    numDataIds: () => storage.numDataIds(),
    disposeData,
    write: (values, shape, dtype) => addSlot({ content: put(values, dtype, shape), dtype, references: 1 }),
    move: (dataId, values, shape, dtype, references) => {
      storage.set(dataId, { content: put(values, dtype, shape), dtype, references })
    },
    dispose: () => {
      pending.clear()
      recorded = 0
      residents.release()
      storage = makeStorage() // tfjs uses the same backend again when it restarts: no earlier data may be visible
      runtime.release()
    },
  }
  const makeStorage = (): tf.DataStorage<StorageSlot> => new tf.DataStorage(kernelBackend, tf.engine())
  let storage = makeStorage()

  const emitMany: Emitter['emitMany'] = (name, inputs, outputs, options: EmitOptions = {}) => {
    const [output] = outputs
    if (currentTrace === 0 && outputs.length === 1) {
      const data = folded(name, inputs, { output: output!, attributes: options.attributes ?? {} })
      if (data !== undefined) arrays.passed(data, inputs)
      if (data !== undefined) return [leaf(data, output!.shape, output!.type, { isConstant: false, trace: 0 })]
    }
    recorded++
    return makeOperation(name, inputs, outputs, { ...options, trace: currentTrace, origin: origin?.() ?? null }).outputs
  }
  const emit: Emitter['emit'] = (name, inputs, output, options) => emitMany(name, inputs, [output], options)[0]!
  const integers = (values: readonly number[]): Value =>
    leaf(copyArray(values, 'int64'), [values.length], 'int64', { isConstant: true, trace: currentTrace })

  const emitter: Emitter = {
    emit,
    emitMany,
    sizes: () => currentSizes,
    integers,
    scalar: (value, type) => makeLeaf(copyArray([value], type), [], type),
    fixed: (value, type) => leaf(copyArray([value], type), [], type, { isConstant: true, trace: currentTrace }),
    valueOf: (info) => {
      const { content } = slotOf(info.dataId)
      if (content._tag === 'Opaque') return undefined
      const { value } = content
      return sameShape(value.shape, info.shape)
        ? value
        : emit('Reshape', [value, integers(info.shape)], { shape: info.shape, type: value.type })
    },
  }

  const makeInfo = (value: Value, dtype?: tf.DataType): tf.TensorInfo => {
    if (value.type === 'int64' || value.type === 'float64')
      throw new TypeError(`onnxruntime backend: a value of type ${value.type} may not leave a kernel`)
    const tensorType = dtype ?? value.type
    const info = {
      dataId: addSlot({ content: { _tag: 'Numeric', value }, dtype: tensorType, references: 1 }),
      shape: [...value.shape],
      dtype: tensorType,
    }
    if (recorded > MAX_PENDING && currentTrace === 0) flush()
    return info
  }

  const tensorOf = (value: Value, dtype: tf.DataType): tf.Tensor =>
    tf.engine().makeTensorFromDataId(makeInfo(value, dtype).dataId, [...value.shape], dtype)

  const trace: RecordingBackend['trace'] = (parameters, f, sizes) => {
    if (currentTrace !== 0) throw new Error('onnxruntime backend: traces do not nest')
    const types = parameters.map(({ dtype }) => requireOnnxType(dtype)) // may throw: before the trace begins
    ;[currentTrace, currentSizes] = [++traceCount, sizes]
    const values = parameters.map(
      ({ shape }, i): Value => ({
        shape,
        type: types[i]!,
        isConstant: false,
        trace: currentTrace,
        operation: null,
        data: null,
      }),
    )
    const inputs = values.map((value, i) => tensorOf(value, parameters[i]!.dtype))
    try {
      let traced: Traced | undefined
      tf.tidy(() => {
        traced = describeTrace(values, f(inputs))
      })
      return traced!
    } finally {
      tf.dispose(inputs)
      ;[currentTrace, currentSizes] = [0, 'fixed']
    }
  }

  const describeTrace = (parameters: readonly Value[], results: readonly tf.Tensor[]): Traced => {
    const roots: Value[] = []
    const outputs = results.map((result): TracedOutput => {
      const { shape, dtype } = result
      const { content } = slotOf(result.dataId)
      if (content._tag === 'Opaque') throw new TypeError(`jit: a result has dtype ${dtype}, which cannot be compiled`)
      // Includes values that a kernel returns unchanged, such as a sum over no axis.
      const direct = parameters.indexOf(content.value)
      if (direct >= 0) return { _tag: 'Parameter', index: direct, shape, dtype }
      const value = emitter.valueOf(result)!
      if (value.trace !== currentTrace) throw new Error(CAPTURED)
      if (value.data !== null) return { _tag: 'Constant', data: value.data, shape, dtype }
      const known = roots.indexOf(value)
      return { _tag: 'Computed', index: known >= 0 ? known : roots.push(value) - 1, shape, dtype }
    })
    const graph = collect(roots)
    const feedParameters = graph.feeds.map((feed) => {
      const index = parameters.indexOf(feed)
      if (index < 0) throw new Error(CAPTURED)
      return index
    })
    return { graph, feedParameters, outputs }
  }

  const arrays = tensorArrays({
    runtime,
    slotOf,
    dataOf,
    flush,
    tensorOf: (data, shape, dtype) => tensorOf(makeLeaf(data, shape, requireOnnxType(dtype)), dtype),
  })

  return {
    kernelBackend,
    version: runtime.version,
    emitter,
    runtime,
    flush,
    stats: runtime.stats,
    isTracing: () => currentTrace !== 0,
    trace,
    compile: runtime.compile,
    ...arrays.ofTensors,
    adoptResident: (resident, dtype) => {
      const value = residentValue(resident, { type: requireOnnxType(dtype), trace: currentTrace })
      return tensorOf(value, dtype)
    },
    makeInfo,
    shareData: (info, shape) => {
      kernelBackend.incRef(info.dataId)
      return { dataId: info.dataId, shape: [...shape], dtype: info.dtype }
    },
    recordAs: (kernel, inputs, f) => {
      const outer = origin
      let known: Origin | undefined
      origin = () => (known ??= originOf(kernel, inputs, runtime.stacks)) // a stack is captured only if an operation is recorded
      try {
        return f()
      } finally {
        origin = outer
      }
    },
  }
}

const CAPTURED =
  'jit: the function uses a tensor that is not among its arguments; pass every tensor that it needs as an argument'
