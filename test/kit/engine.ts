/** Backends for tests. */
import { type BackendName, type RuntimeOptions, registerOnnxRuntime, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { beforeAll } from 'vitest'
import type { RecordingBackend } from '../../packages/tfjs-onnxruntime/src/onnxruntime/backend.js'
import { cpuBackend } from '../../packages/tfjs-onnxruntime/src/onnxruntime/fallback.js'
import { backendFromEnvironment } from '../../packages/tfjs-onnxruntime/src/select.js'

/** Makes onnxruntime the backend of all tests of the file. */
export const useOnnxRuntime = (options: Partial<RuntimeOptions> = {}): { readonly backend: () => RecordingBackend } => {
  let backend: RecordingBackend | undefined
  beforeAll(() => {
    backend = registerOnnxRuntime({ threads: 2, spinning: 'off', ...options })
    tf.setBackend('onnxruntime')
    cpuBackend()
  })
  return { backend: () => backend! }
}

/** The backend that `useEngine` takes: the value of TANDEM_BACKEND, or onnxruntime. */
export const testedBackend = (): BackendName => backendFromEnvironment() ?? 'onnxruntime'

/**
 * Makes `testedBackend()` the backend of all tests of the file: for tests that are the same on
 * every backend.
 */
export const useEngine = (options: Partial<RuntimeOptions> = {}): void => {
  const backend = testedBackend()
  beforeAll(async () => {
    await selectBackend({ backend, threads: 2, spinning: 'off', ...options })
  })
}

/** The values of a tensor as plain numbers. */
export const valuesOf = (tensor: tf.Tensor): number[] => Array.from(tensor.dataSync())

/** Runs `f` with tensors that are freed afterwards. */
export const using1d = <T>(values: readonly (readonly number[])[], f: (...tensors: tf.Tensor[]) => T): T => {
  const tensors = values.map((data) => tf.tensor1d([...data]))
  try {
    return f(...tensors)
  } finally {
    tf.dispose(tensors)
  }
}

/** The values of a tree's tensors, which are freed. */
export const take = (...tensors: readonly tf.Tensor[]): number[][] => {
  const values = tensors.map(valuesOf)
  tf.dispose([...tensors])
  return values
}
