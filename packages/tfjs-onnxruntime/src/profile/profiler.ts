/** Makes onnxruntime the backend of tfjs, with its profiler. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import * as tf from '@tensorflow/tfjs-core'
import { BACKEND_NAME } from '../onnxruntime/backend.js'
import { loadOnnxRuntime } from '../onnxruntime/binding.js'
import type { OnnxRuntime } from '../onnxruntime/library.js'
import type { RuntimeOptions } from '../onnxruntime/runtime.js'
import { connectOnnxRuntime } from '../register.js'
import { type Grouping, type Peaks, type StepFigures, stepFigures } from './figures.js'
import { peaksOf, runPeakWork } from './peaks.js'
import { profilePicture } from './picture.js'
import { recordSessions } from './sessions.js'
import { profileTable } from './table.js'

/** The time of a step by its parts: numbers, a table as text, and a picture as SVG. */
export interface Profile {
  readonly figures: StepFigures
  readonly table: string
  readonly picture: string
}

/** Measures the steps between two moments. */
export interface Profiler {
  /** Begins to measure. What ran before is a warm-up. */
  readonly start: () => void
  /** Ends the measurement of `steps` steps. Tensors and compiled functions stay valid. */
  readonly finish: (steps: number, title: string, by?: Grouping) => Profile
  /** Deletes the records. */
  readonly close: () => void
}

const use = async (options: Partial<RuntimeOptions>, library: OnnxRuntime): Promise<void> => {
  const backend = connectOnnxRuntime(options, library)
  if (tf.findBackendFactory(BACKEND_NAME) !== null) tf.removeBackend(BACKEND_NAME)
  tf.registerBackend(BACKEND_NAME, () => backend.kernelBackend)
  await tf.setBackend(BACKEND_NAME)
}

const measuredPeaks = async (options: Partial<RuntimeOptions>, folder: string): Promise<Peaks> => {
  const recorder = recordSessions(loadOnnxRuntime(), folder)
  await use(options, recorder.library)
  recorder.start()
  runPeakWork()
  return peaksOf(recorder.finish())
}

/**
 * Makes onnxruntime the backend of tfjs, with onnxruntime's profiler in every session of this
 * thread. Measures the machine's rates of arithmetic and of memory first, for about a second.
 *
 * Errors   throws if onnxruntime-node cannot be loaded.
 * Effects  invalidates tensors of an earlier onnxruntime backend. Records are in a temporary folder
 *          until `close`, about 500 bytes for each execution of an operator.
 */
export const profileBackend = async (options: Partial<RuntimeOptions> = {}): Promise<Profiler> => {
  const folder = mkdtempSync(join(tmpdir(), 'onnxruntime-profile-'))
  const close = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    const peaks = await measuredPeaks(options, folder)
    const recorder = recordSessions(loadOnnxRuntime(), folder)
    await use(options, recorder.library)
    let [utilization, started] = [performance.eventLoopUtilization(), performance.now()]
    return {
      start: () => {
        recorder.start()
        ;[utilization, started] = [performance.eventLoopUtilization(), performance.now()]
      },
      finish: (steps, title, by = 'operator') => {
        const { idle: idleMs } = performance.eventLoopUtilization(utilization)
        const wallMs = performance.now() - started
        const figures = stepFigures({ steps, wallMs, idleMs, calls: recorder.finish() }, peaks, by)
        return { figures, table: profileTable(figures, peaks), picture: profilePicture(figures, title) }
      },
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}
