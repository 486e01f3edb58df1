/**
 * The only access to onnxruntime-node.
 *
 * The package's public `run` wraps a synchronous native call in `setImmediate`; a tfjs backend must
 * answer `dataSync`, so this file uses the native session itself. The path is internal to the
 * package, so its version is pinned exactly.
 */
import { createRequire } from 'node:module'

/** Element types that this backend exchanges with onnxruntime. */
export type OnnxType = 'float32' | 'int32' | 'int64' | 'bool'

export type OnnxArray = Float32Array | Int32Array | BigInt64Array | Uint8Array

/**
 * Creates zeros of a type. For bool, onnxruntime returns a Uint8Array; the other types have arrays
 * of their own class.
 */
export const makeArray = (length: number, type: OnnxType): OnnxArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(length)
    case 'int32':
      return new Int32Array(length)
    case 'bool':
      return new Uint8Array(length)
    case 'int64':
      return new BigInt64Array(length)
  }
}

/** A tensor in the format of onnxruntime; `data` is used in place, not copied. */
export interface OnnxTensor {
  readonly data: OnnxArray
  readonly dims: readonly number[]
}

interface SessionOptions {
  readonly intraOpNumThreads: number
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'all'
  readonly executionMode: 'sequential' | 'parallel'
  readonly enableMemPattern: boolean
  readonly enableCpuMemArena: boolean
  readonly logSeverityLevel: number
  readonly enableProfiling?: boolean
  readonly profileFilePrefix?: string
  readonly extra?: Readonly<Record<string, unknown>>
}

/** A compiled graph. `run` blocks until the outputs named by `fetches` are computed. */
export interface NativeSession {
  readonly loadModel: (buffer: ArrayBufferLike, offset: number, length: number, options: SessionOptions) => void
  readonly run: (
    feeds: Readonly<Record<string, OnnxTensor>>,
    fetches: Readonly<Record<string, null>>,
    options: Readonly<Record<string, never>>,
  ) => Readonly<Record<string, OnnxTensor>>
  readonly endProfiling: () => void
  readonly dispose: () => void
}

interface NativeModule {
  readonly binding: { readonly InferenceSession: new () => NativeSession }
  readonly initOrt: () => void
}

interface CommonModule {
  readonly Tensor: new (type: OnnxType, data: OnnxArray, dims: readonly number[]) => OnnxTensor
}

/** The parts of onnxruntime-node that the backend uses, loaded. */
export interface OnnxRuntime {
  readonly version: string
  readonly createSession: (model: Uint8Array, options: SessionOptions) => NativeSession
  readonly tensor: (type: OnnxType, data: OnnxArray, dims: readonly number[]) => OnnxTensor
}

/**
 * Loads the native library.
 *
 * Errors   throws what `require` throws if the package or its binary for this platform is missing.
 */
export const loadOnnxRuntime = (): OnnxRuntime => {
  const require = createRequire(import.meta.url)
  // Casts: these modules have no typed entry for the native session; the shapes are those of their
  // sources at 1.30.0.
  const native = require('onnxruntime-node/dist/binding') as NativeModule
  const common = createRequire(require.resolve('onnxruntime-node'))('onnxruntime-common') as CommonModule
  const { version } = require('onnxruntime-node/package.json') as { readonly version: string }
  native.initOrt()
  return {
    version,
    createSession: (model, options) => {
      const session = new native.binding.InferenceSession()
      session.loadModel(model.buffer, model.byteOffset, model.byteLength, options)
      return session
    },
    tensor: (type, data, dims) => new common.Tensor(type, data, dims),
  }
}
