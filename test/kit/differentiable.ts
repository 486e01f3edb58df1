/**
 * An operation on every backend against its float64 oracle: values, and gradients against finite
 * differences.
 */
import * as tf from '@tensorflow/tfjs-core'
import { expect } from 'vitest'
import { type BackendName, onBackend } from './backends.js'
import { type CloseTolerance, expectClose } from './close.js'
import { valuesOf } from './engine.js'
import { type HostTensor, toTensor } from './hostTensor.js'
import { numericGradients } from './oracle.js'

export const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

export interface Operation {
  /** Differentiated in all of them. */
  readonly inputs: readonly HostTensor[]
  readonly call: (inputs: readonly tf.Tensor[]) => tf.Tensor
  readonly oracle: (inputs: readonly (readonly number[])[]) => number[]
  readonly shape: readonly number[]
}

const FLOAT32: CloseTolerance = { absolute: 2e-5, relative: 1e-4 }

/**
 * Weights of the results in the scalar that is differentiated: different for each, so that no two
 * errors cancel.
 */
const weightsFor = (n: number): number[] => Array.from({ length: n }, (_, i) => Math.fround(Math.sin(3 * i + 1)))

/** Fails unless shape and values are the oracle's on every backend. */
export const expectForward = ({ inputs, call, oracle, shape }: Operation, within: CloseTolerance = FLOAT32): void => {
  const expected = oracle(inputs.map(({ data }) => data))
  for (const name of BACKENDS) {
    onBackend(name, () => {
      tf.tidy(() => {
        const result = call(inputs.map(toTensor))
        expect(result.shape, name).toEqual([...shape])
        expectClose(valuesOf(result), expected, within)
      })
    })
  }
}

/** Fails unless the gradients are those of the oracle, by central differences, on every backend. */
export const expectGradients = ({ inputs, call, oracle }: Operation, within: CloseTolerance = FLOAT32): void => {
  const arrays = inputs.map(({ data }) => data)
  const weights = weightsFor(oracle(arrays).length)
  const weighted = (values: readonly number[]): number => values.reduce((total, v, i) => total + v * weights[i]!, 0)
  const expected = numericGradients((moved) => weighted(oracle(moved)), arrays)
  for (const name of BACKENDS) {
    onBackend(name, () => {
      tf.tidy(() => {
        const scalar = (...xs: tf.Tensor[]): tf.Tensor => {
          const result = call(xs)
          return tf.sum(tf.mul(result, tf.tensor(weights, result.shape)))
        }
        const grads = tf.grads(scalar)(inputs.map(toTensor))
        for (const [i, grad] of grads.entries()) {
          expect(grad.shape, `${name}, gradient ${i}`).toEqual([...inputs[i]!.shape])
          expectClose(valuesOf(grad), expected[i]!, within)
        }
      })
    })
  }
}
