/** Access to results that must be on one side, for tests. */
import fc from 'fast-check'
import type { Either } from 'fp-ts/lib/Either.js'

/** Returns a message if a result is not a Right, otherwise `undefined`. */
export const rightProblem = (result: Either<unknown, unknown>): string | undefined =>
  result._tag === 'Right' ? undefined : `expected a Right, got Left(${fc.stringify(result.left)})`

const tagOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && '_tag' in value ? value._tag : undefined

/** Returns a message if a result is not a Left (with the tag, if given), otherwise `undefined`. */
export const leftProblem = (result: Either<unknown, unknown>, tag?: string): string | undefined => {
  const expected = tag === undefined ? 'a Left' : `Left(${tag})`
  if (result._tag === 'Right') return `expected ${expected}, got Right(${fc.stringify(result.right)})`
  return tag === undefined || tagOf(result.left) === tag
    ? undefined
    : `expected ${expected}, got Left(${fc.stringify(result.left)})`
}

/**
 * Returns the value of a result that must be a Right.
 *
 * Errors   throws Error with the failure if it is a Left.
 *
 * @example
 * requireRight(right(3)) // 3
 */
export const requireRight = <T>(result: Either<unknown, T>): T => {
  if (result._tag === 'Right') return result.right
  throw new Error(rightProblem(result))
}

/**
 * Returns the failure of a result that must be a Left, with the tag if given.
 *
 * Errors   throws Error with the result if it is a Right, or a failure with another tag.
 *
 * @example
 * requireLeft(left({ _tag: 'EnvFailure', reason: 'no' }), 'EnvFailure').reason // 'no'
 */
export const requireLeft = <F, Tag extends string = string>(
  result: Either<F, unknown>,
  tag?: Tag,
): [Extract<F, { readonly _tag: Tag }>] extends [never] ? F : Extract<F, { readonly _tag: Tag }> => {
  const problem = leftProblem(result, tag)
  if (problem !== undefined || result._tag === 'Right') throw new Error(problem)
  return result.left as never // of the tag, by the check above
}
