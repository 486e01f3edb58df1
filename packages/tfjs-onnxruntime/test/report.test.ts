/** The report of the engine. */
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../test/kit/engine.js'
import { engineReport } from '../src/report.js'

const { backend } = useOnnxRuntime({ threads: 1 })

describe('the report', () => {
  it('reports version, threads, compiled graphs and fallbacks of the onnxruntime backend', () => {
    const before = engineReport()
    expect(before).toMatchObject({ backend: 'onnxruntime', version: backend().version, threads: 1 })
    tf.tidy(() => tf.exp(tf.tensor1d([1, 2, 3])).dataSync())
    tf.tidy(() => tf.unique(tf.tensor1d([1, 1, 2])).values.dataSync())
    const after = engineReport()
    expect(after.compiles).toBe(before.compiles + 1)
    expect(after.fallbacks).toEqual({ ...before.fallbacks, Unique: 1 })
  })

  it('reports one thread and no graphs of the cpu backend', () => {
    expect(onBackend('cpu', engineReport)).toEqual({
      ...{ backend: 'cpu', version: tf.version_core, threads: 1, compiles: 0, graphs: 0, graphBytes: 0, fallbacks: {} },
    })
  })
})
