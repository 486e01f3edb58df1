/**
 * Expected failures as values: tagged records with a `reason`. `describe` formats a failure as one
 * sentence.
 */
import { type Either, isLeft, type Right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** The fields of every expected failure. */
export interface Failure {
  readonly _tag: string
  readonly reason: string
  /** The place of the failure, such as a file and a line. `describe` puts it before the reason. */
  readonly where?: string
}

const isFailure = (value: unknown): value is Failure =>
  typeof value === 'object' &&
  value !== null &&
  '_tag' in value &&
  'reason' in value &&
  typeof value.reason === 'string'

/** Returns the cause of a failure as the end of its sentence, unless it only repeats the reason. */
const causeOf = (failure: Failure): string => {
  const cause: unknown = 'cause' in failure ? failure.cause : undefined
  return isFailure(cause) && cause.reason !== failure.reason ? `: ${describe(cause)}` : ''
}

/**
 * Formats a failure as one sentence: where it happened, why, and its causes.
 *
 * @example
 * describe({ _tag: 'FormatFailure', where: 'a.json', reason: 'not JSON' }) // 'a.json: not JSON'
 */
export const describe = (failure: Failure): string => {
  const { where, reason } = failure
  return `${where === undefined ? '' : `${where}: `}${reason}${causeOf(failure)}`
}

/** A failure as an exception, for places that cannot return one. */
export class FailureError extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(describe(failure))
    this.name = 'FailureError'
    this.failure = failure
  }
}

/** The argument types of `orThrow`. */
type Result = Either<Failure, unknown> | TaskEither<Failure, unknown> | Promise<Either<Failure, unknown>>

/** The return type of `orThrow`. */
type ValueOf<R> = R extends () => Promise<Either<unknown, infer T>>
  ? Promise<T>
  : R extends Promise<Either<unknown, infer T>>
    ? Promise<T>
    : R extends Right<infer T>
      ? T
      : never

const rightOf = <T>(result: Either<Failure, T>): T => {
  if (isLeft(result)) throw new FailureError(result.left)
  return result.right
}

/**
 * Returns the value of a result. For a `TaskEither`, which is run first, and for a promised result,
 * it returns a promise.
 *
 * Errors   throws FailureError for a `Left`, or rejects with it. Use it in programs that stop on
 *          failures.
 *
 * @example
 * orThrow(right(3)) // 3
 * @example
 * orThrow(async () => right(3)) instanceof Promise // true
 */
export const orThrow = <R extends Result>(result: R): ValueOf<R> => {
  const value: unknown =
    typeof result === 'function' ? result().then(rightOf) : 'then' in result ? result.then(rightOf) : rightOf(result)
  return value as ValueOf<R> // by the kind of the result
}

/**
 * Joins several problems to one reason: the first five, and the number of the others.
 *
 * @example
 * problemList(['no name', 'no rank']) // 'no name; no rank'
 */
export const problemList = (problems: readonly string[]): string =>
  problems.length > 5 ? `${problems.slice(0, 5).join('; ')}; and ${problems.length - 5} more` : problems.join('; ')

/** A `config.json` that cannot be used. */
export interface ConfigFailure {
  readonly _tag: 'ConfigFailure'
  readonly reason: string
}

/** Bytes or text that do not follow their format. */
export interface FormatFailure {
  readonly _tag: 'FormatFailure'
  readonly format: string
  /** The path of the file, if the bytes are from one. */
  readonly where?: string
  readonly reason: string
}

/** A chat template that is invalid, raises an exception, or does not support the request. */
export interface TemplateFailure {
  readonly _tag: 'TemplateFailure'
  readonly reason: string
}

/** A failure of the file system. */
export interface FileFailure {
  readonly _tag: 'FileFailure'
  readonly operation: string
  readonly path: string
  /** The system's error code, such as ENOENT or ENOSPC. */
  readonly code: string
  /** The operation and the path in words: `could not read a.json`. */
  readonly where: string
  readonly reason: string
}

/** Creates the failure of an operation on a path. */
export const fileFailure = (
  operation: string,
  path: string,
  { code, reason }: { readonly code: string; readonly reason: string },
): FileFailure => ({ _tag: 'FileFailure', operation, path, code, where: `could not ${operation} ${path}`, reason })

/** A lock that another process holds, or that cannot be taken. */
export interface LockFailure {
  readonly _tag: 'LockFailure'
  /** The path of the lock file. */
  readonly where: string
  readonly reason: string
}

/** A failure to hand on text, because the reader has closed. */
export interface OutputFailure {
  readonly _tag: 'OutputFailure'
  /** The system's error code, such as EPIPE. */
  readonly code: string
  readonly reason: string
}

/** A model that cannot be found or used, with the file and the reason. */
export interface ModelFailure {
  readonly _tag: 'ModelFailure'
  /** The folder, or the name for which no folder was found. */
  readonly folder: string
  /** Absent if the folder itself is the problem. */
  readonly file?: string
  /** The folder and the file in words. */
  readonly where: string
  readonly reason: string
}

/** Creates the failure of a model's folder, or of one of its files. */
export const modelFailure = (folder: string, reason: string, file?: string): ModelFailure => ({
  _tag: 'ModelFailure',
  folder,
  ...(file !== undefined && { file }),
  where: `the model ${folder} cannot be used${file === undefined ? '' : `: ${file}`}`,
  reason,
})

/** A thread that could not be started, or has ended. */
export interface ThreadFailure {
  readonly _tag: 'ThreadFailure'
  /** `refused`: the program itself refused to run, for the reason in `cause`. */
  readonly kind: 'start' | 'refused' | 'timeout' | 'exit' | 'error' | 'memory'
  readonly reason: string
  readonly cause?: Failure
}

/** A process that could not be started. */
export interface ProcessFailure {
  readonly _tag: 'ProcessFailure'
  readonly command: string
  /** The system's error code, such as ENOENT or EACCES. */
  readonly code: string
  readonly reason: string
}

/** Returns the message of an exception, or the text of a thrown value that is not an error. */
export const errorMessage = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))

/** Returns the class and the message of an exception, as in `TypeError: x is not a function`. */
export const namedMessage = (thrown: unknown): string =>
  thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown)

/** Returns an exception as it is, and any other thrown value as an Error. */
export const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))

/**
 * Restores an error from another thread. Built-in errors keep their class, others only their name.
 */
export const errorNamed = (name: string, message: string): Error => {
  if (name === 'RangeError') return new RangeError(message)
  if (name === 'TypeError') return new TypeError(message)
  return Object.assign(new Error(message), { name })
}
