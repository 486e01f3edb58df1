import * as tf from '@tensorflow/tfjs'
import { activeRecordingBackend } from './onnxruntime/register.js'

/** Which backend is active, and what it has done so far. */
export interface EngineReport {
  readonly backend: string
  readonly version: string
  readonly threads: number | null
  /** Graphs compiled. */
  readonly compiles: number
  /** Calls of kernels that ran on the cpu backend instead, by name. */
  readonly fallbacks: Readonly<Record<string, number>>
}

/** A report on the active backend. Threads are null, and counts empty, for backends that do not tell. */
export const engineReport = (): EngineReport => {
  const recording = activeRecordingBackend()
  const { compiles, fallbacks } = recording?.stats() ?? { compiles: 0, fallbacks: {} }
  return {
    backend: tf.getBackend(),
    version: recording?.version ?? tf.version_core,
    threads: recording?.threads ?? null,
    compiles,
    fallbacks,
  }
}
