/** The only access to onnxruntime-web, in place of `../binding.ts` in bundles for browsers. */
import { browser, defaultThreads } from '@tandem-rl/base/host'
import type * as node from '../binding.js'
import type { Device, OnnxRuntime } from '../library.js'
import { loadWebAssembly } from './webAssembly.js'
import { loadWebGpu } from './webGpu.js'

let loaded: { readonly device: Device; readonly library: OnnxRuntime } | undefined

/** Returns the folder that serves the files of the package, beside the page or the worker. */
const defaultFolder = (): string => new URL('onnxruntime-web/', browser.location.href).href

/** Starts the library of a device. A later call for the same device keeps the one that runs. */
export const prepareOnnxRuntime: typeof node.prepareOnnxRuntime = async ({
  device = 'cpu',
  threads = defaultThreads(),
  wasmFolder = defaultFolder(),
}) => {
  if (loaded?.device === device) return
  const allowed = browser.crossOriginIsolated === false ? 1 : threads
  const library = await (device === 'webgpu'
    ? loadWebGpu(wasmFolder)
    : loadWebAssembly({ threads: allowed, wasmFolder }))
  loaded = { device, library }
}

/** Throws unless `prepareOnnxRuntime` has resolved: WebAssembly loads asynchronously. */
export const loadOnnxRuntime: typeof node.loadOnnxRuntime = () => {
  if (loaded === undefined) throw new Error('call `await selectBackend()` before the first tensor operation')
  return loaded.library
}
