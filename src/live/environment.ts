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

/** Packages that Node finds. */
export const livePackages: Packages = { load: (name) => import(name) }
