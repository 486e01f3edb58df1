/** The browser as a machine, in place of `../host.ts`. */
import type * as node from '../host.js'
import { browser } from './globals.js'

export const ONNXRUNTIME_PACKAGE = 'onnxruntime-web'

/** A page has no environment variables. */
export const environmentVariable: typeof node.environmentVariable = () => undefined

/** With more threads than this, the small graphs of training become slower. */
const MOST_THREADS = 4

/** Threads share memory, which a browser allows only in cross-origin isolated pages. */
export const defaultThreads: typeof node.defaultThreads = () =>
  browser.crossOriginIsolated === true ? Math.min(MOST_THREADS, browser.navigator.hardwareConcurrency) : 1

/** The bytes that WebAssembly can address. */
export const machineMemory: typeof node.machineMemory = () => 2 ** 32

/** Resolves after one message, because timers of workers wait at least 4 ms. */
export const nextTurn: typeof node.nextTurn = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new browser.MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })

export const isInstalled: typeof node.isInstalled = () => false

export const warn: typeof node.warn = (text) => console.warn(text)
