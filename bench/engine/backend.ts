/** Loading the backend that a process measures. */
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { activeRecordingBackend, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { Settle } from './body.js'

/** Packages that bring a backend, best first. */
export const PACKAGES = {
  onnxruntime: ['onnxruntime-node'],
  tensorflow: ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'],
  wasm: ['@tensorflow/tfjs-backend-wasm'],
} as const

export type Backend = keyof typeof PACKAGES

export interface Found {
  readonly packageName: string
  readonly entry: string
  readonly version: string
}

/** The location of a backend's package: this project, or a folder with a `node_modules`. */
export const findPackage = (backend: Backend, modules: string | undefined): Found | undefined => {
  const folders = [
    import.meta.url,
    ...(modules === undefined ? [] : [pathToFileURL(join(resolve(modules), 'x.js')).href]),
  ]
  for (const folder of folders) {
    const require = createRequire(folder)
    for (const packageName of PACKAGES[backend]) {
      try {
        const entry = require.resolve(packageName)
        const { version } = require(`${packageName}/package.json`) as { readonly version: string } // every package has one
        return { packageName, entry, version }
      } catch {
        // not here
      }
    }
  }
  return undefined
}

export interface Loaded {
  /** Package and version. */
  readonly version: string
  /** Threads that it uses; those of wasm in Node are one, whatever is asked for. */
  readonly threads: number
  readonly settle: Settle
}

/**
 * The wasm backend lacks the kernel of an embedding's gradient, so it could not train at all. It is lent one: sums in JavaScript, which take
 * a small part of its step.
 */
const lendSegmentSum = (): void => {
  tf.registerKernel({
    kernelName: 'UnsortedSegmentSum',
    backendName: 'wasm',
    kernelFunc: ({ inputs, attrs, backend }) => {
      const wasm = backend as tf.KernelBackend // tfjs passes the backend under a wider type
      const { x, segmentIds } = inputs as { readonly x: tf.TensorInfo; readonly segmentIds: tf.TensorInfo } // UnsortedSegmentSumInputs
      const count = Number(attrs?.numSegments)
      const [rows, ids] = [x, segmentIds].map(({ dataId }) => wasm.readSync(dataId) as tf.TypedArray) as [
        tf.TypedArray, // numeric tensors, as many as arguments
        tf.TypedArray,
      ]
      const width = rows.length / ids.length
      const sums = new Float32Array(count * width)
      for (let row = 0; row < ids.length; row++) {
        const [from, to] = [row * width, ids[row]! * width]
        for (let i = 0; i < width; i++) sums[to + i] = sums[to + i]! + rows[from + i]!
      }
      const shape = [count, ...x.shape.slice(segmentIds.shape.length)]
      return { dataId: wasm.write(sums, shape, 'float32'), shape, dtype: 'float32' }
    },
  })
}

const NOTHING: Settle = () => {}

/**
 * Loads a backend and makes it active.
 *
 * Errors   throws if its package is not found or does not load.
 * Effects  sets the process-wide backend of tfjs.
 */
export const loadBackend = async (backend: Backend, threads: number, modules: string | undefined): Promise<Loaded> => {
  const found = findPackage(backend, modules)
  if (found === undefined) throw new Error(`${PACKAGES[backend].join(' or ')} is not installed`)
  const version = `${found.packageName} ${found.version}`
  if (backend === 'onnxruntime') {
    await selectBackend({ backend, threads })
    const recording = activeRecordingBackend()!
    return { version, threads: recording.runtime.threads(), settle: recording.flush }
  }
  await import(pathToFileURL(found.entry).href)
  if (backend === 'wasm') lendSegmentSum()
  if (!(await tf.setBackend(backend))) throw new Error(`tfjs could not initialize '${backend}'`)
  await tf.ready()
  return { version, threads: backend === 'wasm' ? 1 : threads, settle: NOTHING }
}
