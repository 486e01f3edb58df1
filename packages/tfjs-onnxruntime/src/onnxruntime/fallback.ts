/** Runs a kernel on tfjs's cpu backend and copies the results back. */
import * as tf from '@tensorflow/tfjs-core'
import type { RecordingBackend } from './backend.js'
import type { KernelAttributes } from './rule.js'
import './tfjs.js'

/** The parts of tfjs's cpu backend that are used here. It stores complex tensors as a pair. */
interface CpuData {
  readonly values: tf.backend_util.BackendValues
  readonly complexTensorInfos?: { readonly real: tf.TensorInfo; readonly imag: tf.TensorInfo }
}
type CpuBackend = tf.KernelBackend & {
  readonly data: { readonly get: (dataId: object) => CpuData }
  firstUse?: boolean
  readonly disposeIntermediateTensorInfo: (info: tf.TensorInfo) => void
}

/** Returns the cpu backend, without its advice to install another one. */
export const cpuBackend = (): CpuBackend => {
  const backend = tf.findBackend('cpu') as CpuBackend | null // tfjs registers it under this name
  if (backend === null)
    throw new Error('the cpu backend of tfjs is not registered: it was removed, or tfjs-core is installed twice')
  backend.firstUse = false
  return backend
}

/** A tensor with its rank, which some cpu kernels read from their inputs. */
type CpuInput = tf.TensorInfo & { readonly rank: number }

const withRank = (info: tf.TensorInfo): CpuInput => ({ ...info, rank: info.shape.length })

const toCpu = (backend: RecordingBackend, cpu: CpuBackend, info: tf.TensorInfo): CpuInput => {
  const { shape, dtype } = info
  const values = backend.kernelBackend.readSync(info.dataId)
  if (dtype !== 'complex64') return withRank({ dataId: cpu.write(values, shape, dtype), shape, dtype })
  const parts = tf.backend_util.splitRealAndImagArrays(values as Float32Array) // complex data is interleaved floats
  const part = (part: Float32Array): tf.TensorInfo => ({
    dataId: cpu.write(part, shape, 'float32'),
    shape,
    dtype: 'float32',
  })
  const inputs = { real: part(parts.real), imag: part(parts.imag) }
  const complex = tf.getKernel('Complex', 'cpu').kernelFunc({ inputs, attrs: {}, backend: cpu }) as tf.TensorInfo
  for (const input of Object.values(inputs)) cpu.disposeIntermediateTensorInfo(input)
  return withRank(complex)
}

/** An input by name. The kernels of ragged tensors have lists of tensors among them. */
type FallbackInput = tf.TensorInfo | readonly tf.TensorInfo[] | undefined

const isList = (input: FallbackInput): input is readonly tf.TensorInfo[] => Array.isArray(input)

const infosOf = (inputs: Readonly<Record<string, FallbackInput>>): readonly tf.TensorInfo[] =>
  Object.values(inputs).flatMap((input) => (input === undefined ? [] : input))

/**
 * Calls the cpu kernel `name`.
 *
 * Errors   throws if the kernel does not exist on the cpu backend, and, inside a trace, if an input
 *          is not a constant: such a kernel cannot be part of a compiled function.
 * Effects  computes the dependencies of the inputs; counts the call.
 */
export const runOnCpu = (
  backend: RecordingBackend,
  name: string,
  inputs: Readonly<Record<string, FallbackInput>>,
  attributes: KernelAttributes,
): tf.TensorInfo | tf.TensorInfo[] => {
  if (backend.isTracing()) {
    for (const info of infosOf(inputs)) {
      if (backend.constantOf(info) === undefined) {
        throw new Error(
          `jit: kernel ${name} (${info.dtype}) has no ONNX form, so a function that uses it cannot be compiled`,
        )
      }
    }
  }
  const kernel = tf.getKernel(name, 'cpu')
  if (kernel === undefined) {
    const operands = Object.entries(inputs).map(
      ([key, input]) => `${key} ${infosOf({ key: input }).map(({ dtype, shape }) => `${dtype}[${shape.join()}]`)}`,
    )
    throw new Error(`kernel ${name} takes no such operands: ${operands.join(', ')}`)
  }
  backend.runtime.countFallback(name)
  const cpu = cpuBackend()
  const moved = new Map<tf.TensorInfo, CpuInput>()
  for (const info of infosOf(inputs)) if (!moved.has(info)) moved.set(info, toCpu(backend, cpu, info))
  const movedInput = (input: FallbackInput): CpuInput | CpuInput[] | undefined =>
    isList(input) ? input.map((info) => moved.get(info)!) : input && moved.get(input)!
  const args = Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, movedInput(input)]))
  const results = kernel.kernelFunc({
    // Casts: tfjs passes a list of tensors as an array under numeric keys, and attributes as an
    // open record.
    inputs: ('0' in args ? Object.values(args) : args) as unknown as tf.NamedTensorInfoMap,
    attrs: attributes as unknown as tf.NamedAttrMap,
    backend: cpu,
  })
  const back = (info: tf.TensorInfo): tf.TensorInfo => {
    const values = cpu.readSync(info.dataId)
    return { dataId: backend.kernelBackend.write(values, info.shape, info.dtype), shape: info.shape, dtype: info.dtype }
  }
  const list = Array.isArray(results) ? results : [results]
  const returned = list.map(back)
  for (const info of new Set([...list, ...moved.values()])) {
    if (cpu.refCount(info.dataId) > 0) cpu.disposeIntermediateTensorInfo(info)
  }
  return Array.isArray(results) ? returned : returned[0]!
}
