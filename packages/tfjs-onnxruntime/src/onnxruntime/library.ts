/**
 * The part of an onnxruntime library that the backend needs: native in Node (`binding.ts`),
 * WebAssembly in a browser (`browser/binding.ts`).
 */

/** Element types that this backend exchanges with onnxruntime. */
export type OnnxType = 'float32' | 'float64' | 'int32' | 'int64' | 'bool'

export type OnnxArray = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint8Array

/**
 * Creates zeros of a type. For bool, onnxruntime returns a Uint8Array; the other types have arrays
 * of their own class.
 */
export const makeArray = (length: number, type: OnnxType): OnnxArray => {
  switch (type) {
    case 'float32':
      return new Float32Array(length)
    case 'float64':
      return new Float64Array(length)
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

/** A tensor in the memory of a GPU, which sessions pass to one another without copies. */
export interface DeviceTensor {
  readonly location: 'gpu-buffer'
  readonly dims: readonly number[]
  /** Frees the memory. */
  readonly dispose: () => void
}

export const isOnDevice = (tensor: OnnxTensor | DeviceTensor): tensor is DeviceTensor =>
  'location' in tensor && tensor.location === 'gpu-buffer'

export interface SessionOptions {
  readonly intraOpNumThreads: number
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'all'
  readonly executionMode: 'sequential' | 'parallel'
  readonly enableMemPattern: boolean
  readonly enableCpuMemArena: boolean
  readonly logSeverityLevel: number
  readonly executionProviders?: readonly string[]
  /** The outputs that stay on the device. */
  readonly preferredOutputLocation?: Readonly<Record<string, 'gpu-buffer'>>
  readonly enableProfiling?: boolean
  readonly profileFilePrefix?: string
  /** Constants of the model that are not written into it, under the names that it gives them. */
  readonly externalData?: readonly ExternalData[]
  readonly extra?: Readonly<Record<string, unknown>>
}

/** The bytes of a constant. A session copies them when it is made. */
export interface ExternalData {
  readonly path: string
  readonly data: Uint8Array
}

/** A compiled graph. */
export interface OnnxSession {
  /**
   * Blocks until the outputs named by `fetches` are computed. Those with a tensor are written into
   * it, if the library can.
   */
  readonly run: (
    feeds: Readonly<Record<string, OnnxTensor | DeviceTensor>>,
    fetches: Readonly<Record<string, OnnxTensor | null>>,
    options: Readonly<Record<string, never>>,
  ) => Readonly<Record<string, OnnxTensor | DeviceTensor>>
  readonly endProfiling: () => void
  readonly dispose: () => void
}

/** A loaded onnxruntime library. */
export interface OnnxRuntime {
  readonly version: string
  /** The threads of a library that has one pool for all sessions. */
  readonly threads?: number
  /** The place of large constants: in the model, or beside it, where they are copied less often. */
  readonly largeConstants: 'inside' | 'external'
  /** `reused` if results can be written into arrays that are given. */
  readonly resultArrays: 'reused' | 'new'
  /** Frees the memory of young objects that nothing refers to. Absent if the program cannot. */
  readonly collectYoung?: () => void
  readonly createSession: (model: Uint8Array, options: SessionOptions) => OnnxSession
  readonly tensor: (type: OnnxType, data: OnnxArray, dims: readonly number[]) => OnnxTensor
}

/** Devices of onnxruntime. */
export const DEVICES = ['cpu', 'webgpu'] as const

export type Device = (typeof DEVICES)[number]

/** Options of loading a library. */
export interface PrepareOptions {
  /** The device of the library, for browsers, which have a library for each. Default `cpu`. */
  readonly device?: Device
  /** The number of threads inside one operation, for libraries that create them when they load. */
  readonly threads?: number
  /**
   * In a browser: the URL of the folder that serves `ort-wasm-simd-threaded.mjs` and `.wasm` of the
   * package onnxruntime-web. WebGPU needs other files (guide, page 29). Default: `onnxruntime-web/`
   * beside the page or worker.
   */
  readonly wasmFolder?: string
}
