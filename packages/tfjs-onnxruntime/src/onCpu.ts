/** Runs functions of tensors on tfjs's own backend, whose numbers are equal on all processors. */
import * as tf from '@tensorflow/tfjs-core'
import { cpuBackend } from './onnxruntime/fallback.js'

/**
 * Runs a synchronous function on the cpu backend of tfjs and returns its result, which must hold no
 * tensors. Slow: for few numbers that must not depend on backend or processor.
 *
 * Effects  the active backend is another one while `f` runs.
 *
 * @example
 * onCpu(() => tf.exp(1).dataSync()[0]) // 2.7183
 */
export const onCpu = <X>(f: () => X): X => {
  tf.backend() // starts the default backend, which would otherwise be the cpu backend from here on
  const { backendName } = tf.engine()
  cpuBackend()
  void tf.setBackend('cpu') // takes effect at once: neither backend has to be loaded
  try {
    return f()
  } finally {
    void tf.setBackend(backendName)
  }
}
