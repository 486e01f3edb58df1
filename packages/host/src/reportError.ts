/** Reports of unexpected errors, for servers: bundles for pages have no `node:util`. */
import { inspect } from 'node:util'
import { printError } from '@tandem-rl/base/host'

/** Prints an unexpected error with its stack. */
export const reportError = (error: unknown): void => printError(`${inspect(error)}\n`)
