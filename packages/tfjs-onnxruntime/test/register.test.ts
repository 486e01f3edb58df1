import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../test/kit/backends.js'
import { useOnnxRuntime, valuesOf } from '../../../test/kit/engine.js'
import { activeRecordingBackend, defaultRuntimeOptions, registerOnnxRuntime } from '../src/register.js'

const { backend } = useOnnxRuntime()

const filesOf = (folder: string, ending: string): string[] =>
  readdirSync(fileURLToPath(new URL(folder, import.meta.url)))
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))

describe('registerOnnxRuntime', () => {
  it('has every kernel that the cpu backend has', () => {
    const names = (name: string): string[] => tf.getKernelsForBackend(name).map(({ kernelName }) => kernelName)
    const ours = new Set(names('onnxruntime'))
    expect(names('cpu').filter((name) => !ours.has(name))).toEqual([])
  })

  it('every file of kernel rules has property tests against the cpu backend', () => {
    expect(filesOf('./onnxruntime/kernels/', '.prop.test.ts')).toEqual(filesOf('../src/onnxruntime/kernels/', '.ts'))
  })

  it('a second registration starts anew', () => {
    const first = activeRecordingBackend()
    expect(first).toBe(backend())
    const second = registerOnnxRuntime({ threads: 1, spinning: 'off' })
    tf.setBackend('onnxruntime')
    expect(activeRecordingBackend()).toBe(second)
    expect(second).not.toBe(first)
    const x = tf.tensor1d([1, 2])
    const y = tf.neg(x)
    expect(valuesOf(y)).toEqual([-1, -2])
    expect(second.stats().runs).toBe(1)
    tf.dispose([x, y])
  })

  it('what was recorded before tfjs resets its backends is neither run nor counted afterwards', () => {
    const recording = activeRecordingBackend()!
    const kernels = recording.kernelBackend
    const x = kernels.write(new Float32Array([1]), [1], 'float32')
    tf.getKernel('Neg', 'onnxruntime').kernelFunc({
      inputs: { x: { dataId: x, shape: [1], dtype: 'float32' } },
      attrs: {},
      backend: kernels,
    })
    const before = recording.stats().runs
    expect(kernels.numDataIds()).toBeGreaterThan(0)
    kernels.dispose()
    recording.flush()
    expect(kernels.numDataIds()).toBe(0)
    expect(recording.stats().runs).toBe(before)
  })

  it('asks for no more threads than there are cores, and for two at most', () => {
    expect(defaultRuntimeOptions().threads).toBe(Math.min(2, availableParallelism()))
  })
})

describe('activeRecordingBackend', () => {
  it('is undefined while another backend is in use', () => {
    expect(onBackend('cpu', activeRecordingBackend)).toBeUndefined()
    expect(activeRecordingBackend()).toBeDefined()
  })
})
