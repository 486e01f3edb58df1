/** The real environment of this process, and the packages that it can import. */
import { parseEnv } from 'node:util'
import type { Environment, Packages } from '../core/capabilities.js'

/** Variables of this process, as they are now. */
export const liveEnvironment: Environment = {
  get variables() {
    return process.env
  },
  parse: (text) => parseEnv(text),
}

/**
 * Imports a package by its name at run time. Bundlers leave such an import alone, so that a program can be bundled without
 * the optional packages that it does not use.
 *
 * Errors   rejects as `import` does if Node does not find the package.
 */
export const importPackage = <T>(name: string): Promise<T> => import(/* webpackIgnore: true */ /* @vite-ignore */ name)

/** Packages that Node finds. */
export const livePackages: Packages = { load: importPackage }
