/** A quick test of the active backend's correctness and speed. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'

export interface SelfTest {
  /** Result of comparing a matrix product with plain loops. */
  readonly product: 'right' | 'wrong'
  /** Result of comparing the gradient of a sum of squares with plain loops. */
  readonly gradient: 'right' | 'wrong'
  /** Speed of float32 matrix products, in 10^9 additions and multiplications per second. */
  readonly gflops: number
}

const ROWS = 13
const INNER = 17
const COLUMNS = 11

/** Small integers: every sum of their products is exact in float32, in any order. */
const integers = (rows: number, columns: number): number[] =>
  Array.from({ length: rows * columns }, (_, i) => ((i * 7 + 3) % 11) - 5)

const total = (n: number, f: (i: number) => number): number =>
  Array.from({ length: n }, (_, i) => f(i)).reduce((sum, x) => sum + x, 0)

/** Computes X W for X [ROWS, INNER] and W [INNER, COLUMNS]. */
const expectedProduct = (x: readonly number[], w: readonly number[]): number[] =>
  Array.from({ length: ROWS * COLUMNS }, (_, i) => {
    const [row, column] = [Math.floor(i / COLUMNS), i % COLUMNS]
    return total(INNER, (k) => x[row * INNER + k]! * w[k * COLUMNS + column]!)
  })

/** Computes the gradient of the sum of (X W)^2 with respect to W: 2 X' (X W). */
const expectedGradient = (x: readonly number[], product: readonly number[]): number[] =>
  Array.from({ length: INNER * COLUMNS }, (_, i) => {
    const [k, column] = [Math.floor(i / COLUMNS), i % COLUMNS]
    return 2 * total(ROWS, (row) => x[row * INNER + k]! * product[row * COLUMNS + column]!)
  })

const verdict = (actual: ArrayLike<number>, expected: readonly number[]): 'right' | 'wrong' =>
  actual.length === expected.length && expected.every((value, i) => actual[i] === value) ? 'right' : 'wrong'

const SIDE = 512
const MILLISECONDS = 500

const speed = (): number =>
  scope(() => {
    const a = tf.tensor2d(integers(SIDE, SIDE), [SIDE, SIDE])
    const b = tf.tensor2d(integers(SIDE, SIDE), [SIDE, SIDE])
    const once = (): void => {
      scope(() => tf.matMul(a, b)).dataSync()
    }
    once() // compiles, allocates, wakes threads
    const start = performance.now()
    let runs = 0
    do {
      once()
      runs++
    } while (performance.now() - start < MILLISECONDS)
    return (runs * 2 * SIDE ** 3) / (performance.now() - start) / 1e6
  })

/**
 * Checks a product and a gradient with known results, then measures products for half a second.
 * Rethrows errors of the backend.
 */
export const selfTest = (): SelfTest => {
  const [x, w] = [integers(ROWS, INNER), integers(INNER, COLUMNS)]
  const product = expectedProduct(x, w)
  return scope(() => {
    const inputs = tf.tensor2d(x, [ROWS, INNER])
    const weights = tf.tensor2d(w, [INNER, COLUMNS])
    const loss = (variable: tf.Tensor): tf.Tensor => tf.sum(tf.square(tf.matMul(inputs, variable)))
    return {
      product: verdict(tf.matMul(inputs, weights).dataSync(), product),
      gradient: verdict(tf.grad(loss)(weights).dataSync(), expectedGradient(x, product)),
      gflops: speed(),
    }
  })
}
