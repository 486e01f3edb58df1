/** The environment of a page, which has no variables, in place of `../environment.ts`. */
import type * as node from '../environment.js'

export const liveEnvironment: typeof node.liveEnvironment = { variables: {}, parse: () => ({}) }

/** Pages have no optional packages. */
export const importPackage: typeof node.importPackage = (name) =>
  Promise.reject(new Error(`the package ${name} cannot be used in a browser`))

export const packagesOf: typeof node.packagesOf = (from) => ({ load: (name) => importPackage(name, from) })
