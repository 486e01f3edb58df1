/**
 * Replaces the sources that a benchmark imports by their compiled form in `dist`: `node --import
 * tsx --import ./bench/built.mjs bench/generate.ts`. The compiler of tsx keeps the names of
 * functions at run time, which slows JavaScript down by a fifth.
 */
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) register(import.meta.url) // Node loads this file again, in the thread of its loader

const ROOT = new URL('../', import.meta.url).href

/** Sources of the kernel and of the packages, below the root. */
const SOURCE = /^((?:packages\/[^/]+\/)?)src\/(.*)\.ts(?=$|\?)/

/** @type {import('node:module').ResolveHook} */
export const resolve = async (specifier, context, nextResolve) => {
  const resolved = await nextResolve(specifier, context)
  const path = resolved.url.startsWith(ROOT) ? resolved.url.slice(ROOT.length) : ''
  return SOURCE.test(path)
    ? { ...resolved, url: ROOT + path.replace(SOURCE, '$1dist/$2.js'), format: 'module' }
    : resolved
}
