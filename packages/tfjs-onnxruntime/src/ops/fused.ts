/** Calls this project's own kernels on backends that have them. */
import * as tf from '@tensorflow/tfjs-core'

/**
 * Runs kernel `name` on the current backend. Returns undefined if that backend has no such kernel,
 * or if there is nothing to compute.
 */
export const runFused = (
  name: string,
  inputs: Readonly<Record<string, tf.Tensor>>,
  attributes: Readonly<Record<string, number | boolean>> = {},
): tf.Tensor | undefined =>
  tf.getKernel(name, tf.getBackend()) === undefined || Object.values(inputs).some((t) => t.size === 0)
    ? undefined
    : tf.engine().runKernel(name, { ...inputs }, { ...attributes })
