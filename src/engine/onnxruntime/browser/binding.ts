/**
 * The only access to onnxruntime-web, in place of `../binding.ts` in bundles for browsers.
 *
 * This folder holds the engine's access to WebAssembly. It does not hold any knowledge of graphs,
 * which come as bytes from `../graph.ts`.
 */
import { browser } from '../../../live/browser/globals.js'
import { defaultThreads } from '../../../live/browser/host.js'
import type * as node from '../binding.js'
import type { OnnxRuntime } from '../library.js'
import { loadWebAssembly } from './webAssembly.js'

let loaded: OnnxRuntime | undefined

/** Returns the folder that serves the files of the package, beside the page or the worker. */
const defaultFolder = (): string => new URL('onnxruntime-web/', browser.location.href).href

/** Starts the WebAssembly module. A later call keeps the module that runs. */
export const prepareOnnxRuntime: typeof node.prepareOnnxRuntime = async ({
  threads = defaultThreads(),
  wasmFolder = defaultFolder(),
}) => {
  loaded ??= await loadWebAssembly({ threads: browser.crossOriginIsolated === false ? 1 : threads, wasmFolder })
}

/** Throws unless `prepareOnnxRuntime` has resolved: WebAssembly loads asynchronously. */
export const loadOnnxRuntime: typeof node.loadOnnxRuntime = () => {
  if (loaded === undefined) throw new Error('call `await selectBackend()` before the first tensor operation')
  return loaded
}
