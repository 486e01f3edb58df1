/**
 * The kernel call of tfjs that recorded an operation, and the error messages of failed operations.
 */
import { errorMessage } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'

/** A kernel call: the kernel, its inputs, and the caller. */
export interface Origin {
  readonly kernel: string
  readonly inputs: Readonly<Record<string, Pick<tf.TensorInfo, 'dtype' | 'shape'> | undefined>>
  /** The stack frames above the call, formatted lazily. `null` if stacks are off. */
  readonly call: { readonly stack?: string } | null
}

/** Stack frames to keep above tfjs's `runKernel`: enough to reach the caller. */
const FRAMES = 8

/**
 * `on` records the stack of kernel calls for error messages. This is most of the recording time: an
 * elementwise operation takes 11 microseconds with stacks and 3 without (14 with 16 frames instead
 * of 8).
 */
export type StackMode = 'on' | 'off'

/** Records a kernel call. */
export const originOf = (kernel: string, inputs: Origin['inputs'], stacks: StackMode): Origin => {
  if (stacks === 'off') return { kernel, inputs, call: null }
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = FRAMES
  const call = {}
  Error.captureStackTrace(call, tf.engine().runKernel)
  Error.stackTraceLimit = stackTraceLimit
  return { kernel, inputs, call }
}

interface RecordedOperation {
  readonly name: string
  readonly origin: Origin | null
}

/** The part of a graph that error messages need. */
interface Recorded {
  readonly operations: readonly RecordedOperation[]
}

/** Returns the part of an operation that error messages need, without its tensors and values. */
export const withoutTensors = ({ name, origin }: RecordedOperation): RecordedOperation => ({
  name,
  origin: origin && {
    ...origin,
    inputs: Object.fromEntries(
      Object.entries(origin.inputs).map(([key, info]) => [key, info && { dtype: info.dtype, shape: info.shape }]),
    ),
  },
})

/** Returns the name of an operation in the ONNX model. */
export const operationName = (index: number): string => `op${index}`

const OPERATION_NAME = /\bop(\d+)\b/

const INTERNAL = /node_modules.@tensorflow|tfjs-core.src|(src|dist).engine.onnxruntime.|node:internal/

/** Returns the caller of the kernel: the first stack frames outside of tfjs and of the backend. */
const placeOf = ({ call }: Origin): readonly string[] =>
  (call?.stack ?? '')
    .split('\n')
    .slice(1)
    .filter((line) => !INTERNAL.test(line))
    .slice(0, 3)
    .map((line) => line.trim())

const describeInputs = (inputs: Origin['inputs']): string =>
  Object.entries(inputs)
    .flatMap(([name, info]) => (info === undefined ? [] : [`${name} ${info.dtype}[${info.shape.join()}]`]))
    .join(', ')

/** A recorded operation failed to compile or run. The backend remains usable. */
export class KernelError extends Error {
  /** The kernel of tfjs; undefined if onnxruntime did not name the operation. */
  readonly kernel: string | undefined

  constructor(message: string, kernel: string | undefined, cause: unknown) {
    super(message, { cause })
    this.name = 'KernelError'
    this.kernel = kernel
  }
}

/** Creates the error of a failure of onnxruntime, with the kernel that it concerns. */
export const kernelError = (graph: Recorded, doing: 'compile' | 'run', cause: unknown): KernelError => {
  const reason = errorMessage(cause)
  const index = OPERATION_NAME.exec(reason)?.[1]
  const origin = index === undefined ? undefined : graph.operations[Number(index)]?.origin
  if (origin == null) {
    const kernels = [...new Set(graph.operations.map(({ name, origin }) => origin?.kernel ?? name))]
    return new KernelError(
      `onnxruntime could not ${doing} a graph of ${graph.operations.length} operations (${kernels.slice(0, 12).join(', ')}): ${reason}`,
      undefined,
      cause,
    )
  }
  const place = placeOf(origin).map((line) => `\n    recorded ${line}`)
  return new KernelError(
    `${origin.kernel} of ${describeInputs(origin.inputs)} could not ${doing}: ${reason}${place.join('')}`,
    origin.kernel,
    cause,
  )
}
