/**
 * Replaces the sources that a benchmark imports by their compiled form in `dist`: `node --import
 * tsx --import ./bench/built.mjs bench/generate.ts`. The compiler of tsx keeps the names of
 * functions at run time, which slows JavaScript down by a fifth.
 */
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) register(import.meta.url) // Node loads this file again, in the thread of its loader

const SOURCE = new URL('../src/', import.meta.url).href
const BUILT = new URL('../dist/', import.meta.url).href

/** @type {import('node:module').ResolveHook} */
export const resolve = async (specifier, context, nextResolve) => {
  const resolved = await nextResolve(specifier, context)
  if (!resolved.url.startsWith(SOURCE)) return resolved
  return {
    ...resolved,
    url: `${BUILT}${resolved.url.slice(SOURCE.length).replace(/\.ts(?=$|\?)/, '.js')}`,
    format: 'module',
  }
}
