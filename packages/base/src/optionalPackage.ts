/**
 * Optional packages, loaded on demand. If one is missing, the failure names the command that
 * installs it.
 */
import * as TE from 'fp-ts/lib/TaskEither.js'
import { errorMessage } from './failure.js'

/** A required package is not installed, or does not load. */
export interface PackageFailure {
  readonly _tag: 'PackageFailure'
  readonly package: string
  readonly reason: string
}

/**
 * Loads an optional package.
 *
 * Errors   `Left(PackageFailure)` that names the package, the feature that needs it, and the
 *          command that installs it.
 * Effects  `load` imports.
 *
 * @example
 * optionalPackage('hyparquet', 'reading Parquet', () => import('hyparquet'))
 */
export const optionalPackage = <T>(
  name: string,
  purpose: string,
  load: () => Promise<T>,
): TE.TaskEither<PackageFailure, T> =>
  TE.tryCatch(load, (error) => ({
    _tag: 'PackageFailure',
    package: name,
    reason: `${purpose} needs the package ${name}, which does not load (npm install ${name}): ${errorMessage(error)}`,
  }))
