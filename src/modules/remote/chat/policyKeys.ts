/**
 * Keys and addresses of providers: from the environment, or from a `.env` file, which never
 * overrides the environment.
 */
import type { Environment, Failure, Files } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Settings by name. */
export type Variables = (name: string) => string | undefined

/** The failure to resolve a model by its name. */
export interface RegistryFailure extends Failure {
  readonly _tag: 'RegistryFailure'
  readonly reason: string
}

/** Makes a failure of the registry. */
export const registryFailure = (reason: string): RegistryFailure => ({ _tag: 'RegistryFailure', reason })

/** The sources of settings. */
export interface VariableSources {
  readonly files: Pick<Files, 'exists' | 'readText'>
  readonly environment: Environment
  /** Path of the `.env` file. */
  readonly envFile: string
}

/**
 * The settings of the environment and of the file, if there is one. Empty values count as none.
 *
 * Errors   `Left` if the file is there and cannot be read.
 */
export const readVariables = ({ files, environment, envFile }: VariableSources): TE.TaskEither<Failure, Variables> =>
  pipe(
    files.exists(envFile),
    TE.chain((exists) => (exists ? files.readText(envFile) : TE.right(''))),
    TE.mapLeft((failure): Failure => failure),
    TE.map((text) => {
      const fromFile = environment.parse(text)
      return (name) => environment.variables[name] || fromFile[name] || undefined
    }),
  )

/** The failure for a setting that lacks. It names the variable and the file, and no value. */
export const missingVariable = (name: string, what: string, envFile: string): RegistryFailure =>
  registryFailure(`${what} needs ${name}: set it in the environment or in ${envFile}`)
