/** A quick proof that the active backend computes, and how fast. */
import * as tf from '@tensorflow/tfjs'
import { scope } from '../engine/scope.js'

export interface SelfTest {
  /** Whether a matrix product is what loops over plain numbers give. */
  readonly product: 'right' | 'wrong'
  /** The same of the gradient of a sum of squares. */
  readonly gradient: 'right' | 'wrong'
  /** Billions of additions and multiplications a second, in products of two square matrices of float32. */
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

/** X W for X [ROWS, INNER] and W [INNER, COLUMNS]. */
const expectedProduct = (x: readonly number[], w: readonly number[]): number[] =>
  Array.from({ length: ROWS * COLUMNS }, (_, i) => {
    const [row, column] = [Math.floor(i / COLUMNS), i % COLUMNS]
    return total(INNER, (k) => x[row * INNER + k]! * w[k * COLUMNS + column]!)
  })

/** The gradient of the sum of (X W)^2 by W: 2 X' (X W). */
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

/** Computes a product and a gradient with known results, then products for half a second. Errors: throws what the backend throws. */
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
