/** The real environment of this process, and the packages that it can import. */
import { parseEnv } from 'node:util'
import type { Environment, Packages } from '../capabilities.js'

/** The current environment variables of this process. */
export const liveEnvironment: Environment = {
  get variables() {
    return process.env
  },
  parse: (text) => parseEnv(text),
}

/** The part of `import.meta` that finds the packages that a module may import. */
export type Resolves = Pick<ImportMeta, 'resolve'>

/**
 * Imports a package by name at run time, as the module with that `import.meta` would. Bundlers do
 * not resolve such imports, so a program can be bundled without optional packages that it does not
 * use.
 *
 * Errors   rejects like `import` if Node does not find the package.
 */
export const importPackage = async <T>(name: string, from: Resolves): Promise<T> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ from.resolve(name))

/** Packages that a module finds, by its `import.meta`. */
export const packagesOf = (from: Resolves): Packages => ({ load: (name) => importPackage(name, from) })
