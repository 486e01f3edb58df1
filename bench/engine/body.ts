/** The interface of measured programs, and their shared helpers. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { Workload } from './workloads.js'

/** A program that is ready to be measured. */
export interface Body {
  readonly run: () => void
  /**
   * Returns a number by which the programs' results are compared; called once, before the first
   * run.
   */
  readonly value: () => number
}

/** Makes the backend compute what it has only noted so far. */
export type Settle = () => void

/** A size of a workload. Errors: throws if the workload lacks it. */
export const sizeOf = (workload: Workload, name: string): number => {
  const size = workload.sizes[name]
  if (size === undefined) throw new Error(`${workload.name}: no size '${name}'`)
  return size
}

export const meanSquare = (x: tf.Tensor): number => scope(() => tf.mean(tf.square(x)).dataSync()[0]!)
