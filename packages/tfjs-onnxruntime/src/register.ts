/** Registers the backend and its kernels with tfjs. */
import { defaultThreads, environmentVariable, machineMemory, nextTurn } from '@tandem-rl/base/host'
import * as tf from '@tensorflow/tfjs-core'
import { BACKEND_NAME, makeRecordingBackend, type RecordingBackend } from './onnxruntime/backend.js'
import { loadOnnxRuntime } from './onnxruntime/binding.js'
import { runOnCpu } from './onnxruntime/fallback.js'
import { sizeOf } from './onnxruntime/graph.js'
import { activationRules } from './onnxruntime/kernels/activation.js'
import { arithmeticRules } from './onnxruntime/kernels/arithmetic.js'
import { attentionRules } from './onnxruntime/kernels/attention.js'
import { convolutionRules } from './onnxruntime/kernels/convolution.js'
import { elementwiseRules } from './onnxruntime/kernels/elementwise.js'
import { imageRules } from './onnxruntime/kernels/image.js'
import { indexingRules } from './onnxruntime/kernels/indexing.js'
import { fusedRules, linearRules } from './onnxruntime/kernels/linear.js'
import { normalizationRules } from './onnxruntime/kernels/normalization.js'
import { poolingRules } from './onnxruntime/kernels/pooling.js'
import { reductionRules } from './onnxruntime/kernels/reduction.js'
import { scatterRules } from './onnxruntime/kernels/scatter.js'
import { linearNumbers, rangeNumbers, sequenceRules } from './onnxruntime/kernels/sequence.js'
import { shapeRules } from './onnxruntime/kernels/shape.js'
import { spatialRules } from './onnxruntime/kernels/spatial.js'
import { DEVICES, type Device, type OnnxRuntime } from './onnxruntime/library.js'
import {
  type KernelAttributes,
  type KernelInputs,
  type KernelRule,
  normalizeAxes,
  numberAttribute,
  type RuleTable,
} from './onnxruntime/rule.js'
import { makeRuntime, type RuntimeOptions } from './onnxruntime/runtime.js'
import { copyArray } from './onnxruntime/storage.js'

/** Every kernel that is recorded as ONNX operations. */
export const RULES: RuleTable = {
  ...elementwiseRules,
  ...arithmeticRules,
  ...activationRules,
  ...reductionRules,
  ...sequenceRules,
  ...shapeRules,
  ...spatialRules,
  ...indexingRules,
  ...scatterRules,
  ...linearRules,
  ...normalizationRules,
  ...convolutionRules,
  ...poolingRules,
  ...imageRules,
  ...fusedRules,
  ...attentionRules,
}

type Kernel = (inputs: KernelInputs, attributes: KernelAttributes) => tf.TensorInfo | tf.TensorInfo[]

/**
 * Returns true if an input is empty. The cpu backend handles the many special cases of empty
 * tensors.
 */
const hasEmpty = (inputs: KernelInputs): boolean =>
  Object.values(inputs).some((info) => info !== undefined && sizeOf(info.shape) === 0)

const ruleKernel =
  (backend: RecordingBackend, name: string, rule: KernelRule): Kernel =>
  (inputs, attributes) => {
    const result = hasEmpty(inputs)
      ? undefined
      : backend.recordAs(name, inputs, () => rule(backend.emitter, inputs, attributes))
    if (result === undefined) return runOnCpu(backend, name, inputs, attributes)
    return Array.isArray(result) ? result.map((v) => backend.makeInfo(v)) : backend.makeInfo(result as never) // one Value
  }

/** Kernels that create tensors from numbers, or another handle on the same data. */
export const directKernels = (backend: RecordingBackend): Readonly<Record<string, Kernel>> => {
  const filled = (shape: readonly number[], value: number, dtype: tf.DataType): tf.TensorInfo | undefined => {
    if (dtype !== 'float32' && dtype !== 'int32' && dtype !== 'bool') return undefined
    if (dtype === 'bool' && value !== 0 && value !== 1) return undefined // tfjs keeps other numbers
    if (sizeOf(shape) === 0)
      return backend.makeInfo({ ...backend.emitter.fixed(0, dtype), shape, data: copyArray([], dtype) })
    const { emitter } = backend
    const scalar = value === 0 || value === 1 ? emitter.fixed(value, dtype) : emitter.scalar(value, dtype)
    return backend.makeInfo(emitter.emit('Expand', [scalar, emitter.integers(shape)], { shape, type: dtype }))
  }
  const like =
    (name: string, value: number): Kernel =>
    ({ x }) =>
      filled(x!.shape, value, x!.dtype) ?? runOnCpu(backend, name, { x }, {})
  const share: Kernel = ({ x }) => backend.shareData(x!, x!.shape)
  const listed = (numbers: Float32Array | Int32Array, dtype: 'float32' | 'int32'): tf.TensorInfo => {
    const shape = [numbers.length]
    return { dataId: backend.kernelBackend.write(numbers, shape, dtype), shape, dtype }
  }
  return {
    ExpandDims: ({ input }, attributes) => {
      const [place] = normalizeAxes([numberAttribute(attributes, 'dim')], input!.shape.length + 1)
      return backend.shareData(input!, [...input!.shape.slice(0, place), 1, ...input!.shape.slice(place)])
    },
    Fill: (inputs, attributes) => {
      const shape = attributes.shape as readonly number[] // FillAttrs of tfjs-core
      const { value, dtype = 'float32' } = attributes
      const made = typeof value === 'number' ? filled(shape, value, dtype as tf.DataType) : undefined
      return made ?? runOnCpu(backend, 'Fill', inputs, attributes)
    },
    Identity: share,
    LinSpace: (_inputs, attributes) => listed(linearNumbers(attributes), 'float32'),
    OnesLike: like('OnesLike', 1),
    Range: (inputs, attributes) => {
      const numbers = rangeNumbers(attributes)
      if (numbers === undefined) return runOnCpu(backend, 'Range', inputs, attributes)
      return listed(numbers, numbers instanceof Float32Array ? 'float32' : 'int32')
    },
    Reshape: ({ x }, attributes) => {
      const size = sizeOf(x!.shape)
      const shape = tf.util.inferFromImplicitShape(attributes.shape as number[], size) // ReshapeAttrs of tfjs-core
      if (sizeOf(shape) !== size) {
        throw new Error(`reshape: [${x!.shape.join()}] has ${size} elements, [${shape.join()}] has ${sizeOf(shape)}`)
      }
      return backend.shareData(x!, shape)
    },
    ZerosLike: like('ZerosLike', 0),
  }
}

const RECORDING = new WeakMap<tf.KernelBackend, RecordingBackend>()

/** Returns the recording side of tfjs's current backend; undefined if that is another backend. */
export const activeRecordingBackend = (): RecordingBackend | undefined => RECORDING.get(tf.backend())

/** Returns the device in TANDEM_DEVICE. Errors: throws RangeError for an unknown name. */
const deviceFromEnvironment = (): Device | undefined => {
  const name = environmentVariable('TANDEM_DEVICE')
  if (name === undefined || name === '') return undefined
  const device = DEVICES.find((known) => known === name)
  if (device === undefined) throw new RangeError(`TANDEM_DEVICE is '${name}'; expected ${DEVICES.join(' or ')}`)
  return device
}

/**
 * Returns the default options. Device: the value of TANDEM_DEVICE, or `cpu`. Threads: 2, or the
 * number of cores if lower; in a cross-origin isolated page up to 4, in any other page 1.
 */
export const defaultRuntimeOptions = (): RuntimeOptions => ({
  device: deviceFromEnvironment() ?? 'cpu',
  threads: defaultThreads(),
  spinning: 'on',
  cacheSize: 128,
  keptBytes: machineMemory() / 4,
  optimization: 'all',
  stacks: 'on',
})

/**
 * Registers all kernels of the backend of `library`, by default onnxruntime. Throws if that cannot
 * load.
 */
export const connectOnnxRuntime = (
  options: Partial<RuntimeOptions>,
  library: OnnxRuntime = loadOnnxRuntime(),
): RecordingBackend => {
  const { threads } = library
  const runtime = makeRuntime(library, { ...defaultRuntimeOptions(), ...options, ...(threads && { threads }) })
  const backend = makeRecordingBackend(runtime, nextTurn)
  RECORDING.set(backend.kernelBackend, backend)

  const direct = directKernels(backend)
  const cpuNames = tf.getKernelsForBackend('cpu').map(({ kernelName }) => kernelName)
  for (const name of new Set([...cpuNames, ...Object.keys(RULES), ...Object.keys(direct)])) {
    const rule = RULES[name]
    const kernel: Kernel =
      direct[name] ??
      (rule === undefined
        ? (inputs, attributes) => runOnCpu(backend, name, inputs, attributes)
        : ruleKernel(backend, name, rule))
    if (tf.getKernel(name, BACKEND_NAME) !== undefined) tf.unregisterKernel(name, BACKEND_NAME)
    tf.registerKernel({
      kernelName: name,
      backendName: BACKEND_NAME,
      // Casts: tfjs types attributes and inputs as open records.
      kernelFunc: ({ inputs, attrs }) => kernel(inputs as KernelInputs, (attrs ?? {}) as KernelAttributes),
    })
  }
  return backend
}

/**
 * Registers the backend `onnxruntime` and all its kernels without activating it. A second call
 * replaces the first registration and invalidates its tensors.
 *
 * Errors   throws if onnxruntime cannot be loaded.
 */
export const registerOnnxRuntime = (options: Partial<RuntimeOptions> = {}): RecordingBackend => {
  const backend = connectOnnxRuntime(options)
  if (tf.findBackendFactory(BACKEND_NAME) !== null) tf.removeBackend(BACKEND_NAME)
  tf.registerBackend(BACKEND_NAME, () => backend.kernelBackend)
  return backend
}
