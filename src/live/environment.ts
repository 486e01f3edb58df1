/** The real environment of this process, and the packages that it can import. */
import { parseEnv } from 'node:util'
import type { Environment, Packages } from '../core/capabilities.js'

/** The current environment variables of this process. */
export const liveEnvironment: Environment = {
  get variables() {
    return process.env
  },
  parse: (text) => parseEnv(text),
}

/**
 * Imports a package by name at run time. Bundlers do not resolve such imports, so a program can be
 * bundled without optional packages that it does not use.
 *
 * Errors   rejects like `import` if Node does not find the package.
 */
export const importPackage = <T>(name: string): Promise<T> => import(/* webpackIgnore: true */ /* @vite-ignore */ name)

/** Packages that Node finds. */
export const livePackages: Packages = { load: importPackage }
