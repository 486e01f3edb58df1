/** Measures the highest rates of the machine with the active backend. */

import * as tf from '@tensorflow/tfjs-core'
import { jit } from '../jit.js'
import { scope } from '../scope.js'
import type { Peaks } from './figures.js'
import type { ProfiledCall } from './trace.js'

const SIDE = 1536
/** Numbers in each half of the copy, 64 MiB. */
const COPIED = 2 ** 24
const RUNS = 5

/** Runs a large product and a large copy, several times each. */
export const runPeakWork = (): void => {
  const product = jit(({ a, b }: { readonly a: tf.Tensor; readonly b: tf.Tensor }) => tf.matMul(a, b))
  const copy = jit(({ a, b }: { readonly a: tf.Tensor; readonly b: tf.Tensor }) => tf.concat([a, b]))
  scope(() => {
    const square = { a: tf.fill([SIDE, SIDE], 0.5), b: tf.fill([SIDE, SIDE], 0.25) }
    const halves = { a: tf.fill([COPIED], 1), b: tf.fill([COPIED], 2) }
    for (let i = 0; i < RUNS; i++) scope(() => void product(square).dataSync())
    for (let i = 0; i < RUNS; i++) scope(() => void copy(halves).dataSync())
  })
  product.release()
  copy.release()
}

/** Returns the fastest run of each, from the calls of `runPeakWork`. */
export const peaksOf = (calls: readonly ProfiledCall[]): Peaks => {
  const operators = calls.flatMap((call) => call.operators)
  const best = (name: string, of: 'operations' | 'bytes'): number =>
    Math.max(...operators.flatMap((call) => (call.operator === name ? [(1000 * call[of]) / call.milliseconds] : [])))
  return { operations: best('Gemm', 'operations'), bytes: best('Concat', 'bytes') }
}
