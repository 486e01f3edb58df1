/**
 * The default backend of programs that never call `selectBackend`. Importing this file registers it
 * with tfjs. The first tensor operation loads the native library.
 */
import { environmentVariable, isInstalled, warn } from '@tandem-rl/base/host'
import * as tf from '@tensorflow/tfjs-core'
import { BACKEND_NAME } from './onnxruntime/backend.js'
import { cpuBackend } from './onnxruntime/fallback.js'
import { connectOnnxRuntime } from './register.js'
import { backendFromEnvironment, GPU_PACKAGE } from './select.js'

/** Higher than the priorities of tfjs's own backends: cpu has 1, wasm and webgl 2, tfjs-node 3. */
const PRIORITY = 4

/** Throws for backends that load asynchronously, which only `selectBackend` can do. */
const requireOnnxRuntime = (): void => {
  const wanted = backendFromEnvironment()
  if (wanted !== undefined && wanted !== 'onnxruntime') {
    throw new Error(`TANDEM_BACKEND is '${wanted}': call \`await selectBackend()\` before the first tensor operation`)
  }
}

/** Starts onnxruntime. Errors reject, because after an exception tfjs would fall back to cpu. */
const startDefault = (): tf.KernelBackend | Promise<tf.KernelBackend> => {
  try {
    requireOnnxRuntime()
  } catch (error) {
    return Promise.reject(error)
  }
  if (isInstalled(GPU_PACKAGE, import.meta)) {
    warn(`${GPU_PACKAGE} is not used: call \`await selectBackend()\` before the first tensor operation`)
  }
  cpuBackend()
  return connectOnnxRuntime({}).kernelBackend
}

// With the cpu backend of tfjs, which needs no loading, nothing is registered.
if (environmentVariable('TANDEM_BACKEND') !== 'cpu' && tf.findBackendFactory(BACKEND_NAME) === null) {
  tf.registerBackend(BACKEND_NAME, startDefault, PRIORITY)
}
