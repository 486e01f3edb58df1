/**
 * The only access to onnxruntime-node. Bundles for browsers have `browser/binding.ts` in its place.
 *
 * The package's public `run` wraps a synchronous native call in `setImmediate`; a tfjs backend must
 * answer `dataSync`, so this file uses the native session itself. The path is internal to the
 * package, so its version is pinned exactly.
 */
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { errorMessage } from '@tandem-rl/base'
import type {
  OnnxArray,
  OnnxRuntime,
  OnnxSession,
  OnnxTensor,
  OnnxType,
  PrepareOptions,
  SessionOptions,
} from './library.js'

interface NativeSession extends OnnxSession {
  readonly loadModel: (buffer: ArrayBufferLike, offset: number, length: number, options: SessionOptions) => void
}

interface NativeModule {
  readonly binding: { readonly InferenceSession: new () => NativeSession }
  readonly initOrt: () => void
}

interface CommonModule {
  readonly Tensor: new (type: OnnxType, data: OnnxArray, dims: readonly number[]) => OnnxTensor
}

/** Resolves when `loadOnnxRuntime` may be called: in Node at once. */
export const prepareOnnxRuntime = (_options: PrepareOptions): Promise<void> => Promise.resolve()

/**
 * Returns the resolver of the package onnxruntime-node, an optional dependency.
 *
 * Errors   throws an Error with the ways out if it is not installed.
 */
const packageOf = (require: NodeJS.Require): NodeJS.Require => {
  try {
    return createRequire(require.resolve('onnxruntime-node'))
  } catch (error) {
    throw new Error(
      `onnxruntime-node, an optional dependency, is not installed: npm install onnxruntime-node, or choose another backend, such as TANDEM_BACKEND=cpu (${errorMessage(error)})`,
    )
  }
}

/** Returns V8's own function, which Node shows only to programs started with a flag. */
const youngCollector = (): (() => void) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { readonly type: 'minor' }) => void // of V8
  setFlagsFromString('--no-expose-gc') // for contexts that the program makes later
  return () => collect({ type: 'minor' })
}

/**
 * Loads the native library.
 *
 * Errors   throws an Error if the package is not installed, and what `require` throws if its binary
 *          for this platform is missing.
 */
export const loadOnnxRuntime = (): OnnxRuntime => {
  const require = createRequire(import.meta.url)
  const inside = packageOf(require)
  // Casts: these modules have no typed entry for the native session; the shapes are those of their
  // sources at 1.30.0.
  const native = require('onnxruntime-node/dist/binding') as NativeModule
  const common = inside('onnxruntime-common') as CommonModule
  const { version } = require('onnxruntime-node/package.json') as { readonly version: string }
  native.initOrt()
  return {
    version,
    largeConstants: 'external',
    resultArrays: 'reused',
    collectYoung: youngCollector(),
    createSession: (model, options) => {
      const session = new native.binding.InferenceSession()
      session.loadModel(model.buffer, model.byteOffset, model.byteLength, options)
      return session
    },
    tensor: (type, data, dims) => new common.Tensor(type, data, dims),
  }
}
