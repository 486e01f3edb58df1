import { environmentVariable } from '@tandem-rl/base/host'
import * as tf from '@tensorflow/tfjs-core'
import { borrowedCalls } from './borrowed.js'
import { activeRecordingBackend } from './register.js'

/** The active backend and its statistics. */
export interface EngineReport {
  readonly backend: string
  readonly version: string
  readonly threads: number | null
  /** The number of compiled graphs. */
  readonly compiles: number
  /** Number of live compiled graphs, and the approximate bytes they hold between runs. */
  readonly graphs: number
  readonly graphBytes: number
  /** Calls of kernels that ran on the cpu backend instead, by name. */
  readonly fallbacks: Readonly<Record<string, number>>
}

/**
 * Returns the threads of backends that do not record. TensorFlow reads the variable when it is
 * loaded; wasm and cpu have one thread in Node.
 */
const plainThreads = (backend: string): number | null => {
  if (backend !== 'tensorflow') return backend === 'wasm' || backend === 'cpu' ? 1 : null
  const threads = Number(environmentVariable('TF_NUM_INTRAOP_THREADS'))
  return threads > 0 ? threads : null
}

const NOTHING_COMPILED = { compiles: 0, graphs: 0, heldBytes: 0, fallbacks: {} }

/** Reports on the active backend. `threads` is `null` if the backend does not report it. */
export const engineReport = (): EngineReport => {
  const recording = activeRecordingBackend()
  const { compiles, graphs, heldBytes, fallbacks } = recording?.stats() ?? NOTHING_COMPILED
  const backend = tf.getBackend()
  return {
    backend,
    version: recording?.version ?? tf.version_core,
    threads: recording?.runtime.threads() ?? plainThreads(backend),
    compiles,
    graphs,
    graphBytes: heldBytes,
    fallbacks: recording === undefined ? borrowedCalls() : fallbacks,
  }
}
