/**
 * The backend of programs that never call `selectBackend`. Importing this file registers it with tfjs; the native library is loaded
 * by the first tensor operation.
 */
import * as tf from '@tensorflow/tfjs'
import { BACKEND_NAME } from './onnxruntime/backend.js'
import { cpuBackend } from './onnxruntime/fallback.js'
import { connectOnnxRuntime } from './onnxruntime/register.js'
import { backendFromEnvironment, GPU_PACKAGE } from './select.js'

/** Higher than the priorities of tfjs's own backends: cpu has 1, wasm and webgl 2, tfjs-node 3. */
const PRIORITY = 4

const isInstalled = (packageName: string): boolean => {
  try {
    import.meta.resolve(packageName)
    return true
  } catch {
    return false // throws for a package that is not there, and for nothing else
  }
}

/** Throws for a backend that only `selectBackend` can load: loading it takes an `await`, and a tensor operation has none. */
const requireOnnxRuntime = (): void => {
  const wanted = backendFromEnvironment()
  if (wanted !== undefined && wanted !== 'onnxruntime') {
    throw new Error(`TANDEM_BACKEND is '${wanted}': call \`await selectBackend()\` before the first tensor operation`)
  }
}

/** Starts onnxruntime. A promise that rejects makes tfjs fail the operation, where an exception would make it compute on cpu. */
const startDefault = (): tf.KernelBackend | Promise<tf.KernelBackend> => {
  try {
    requireOnnxRuntime()
  } catch (error) {
    return Promise.reject(error)
  }
  if (isInstalled(GPU_PACKAGE)) {
    process.emitWarning(`${GPU_PACKAGE} is not used: call \`await selectBackend()\` before the first tensor operation`)
  }
  cpuBackend()
  return connectOnnxRuntime({}).kernelBackend
}

// A program may be run with the cpu backend of tfjs, which needs no loading; then nothing is registered above it.
if (process.env.TANDEM_BACKEND !== 'cpu' && tf.findBackendFactory(BACKEND_NAME) === null) {
  tf.registerBackend(BACKEND_NAME, startDefault, PRIORITY)
}
