/** Results that must be of one side, for tests that know which. */
import fc from 'fast-check'
import type { Either } from 'fp-ts/lib/Either.js'

/** What is wrong with a result that should be a Right; undefined if it is one. */
export const rightProblem = (result: Either<unknown, unknown>): string | undefined =>
  result._tag === 'Right' ? undefined : `expected a Right, got Left(${fc.stringify(result.left)})`

const tagOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && '_tag' in value ? value._tag : undefined

/** What is wrong with a result that should be a Left, of the tag if one is given; undefined if it is one. */
export const leftProblem = (result: Either<unknown, unknown>, tag?: string): string | undefined => {
  const expected = tag === undefined ? 'a Left' : `Left(${tag})`
  if (result._tag === 'Right') return `expected ${expected}, got Right(${fc.stringify(result.right)})`
  return tag === undefined || tagOf(result.left) === tag
    ? undefined
    : `expected ${expected}, got Left(${fc.stringify(result.left)})`
}

/**
 * The value of a result that must be a Right.
 *
 * Errors   throws Error, showing the failure, if it is a Left.
 *
 * @example
 * requireRight(right(3)) // 3
 */
export const requireRight = <T>(result: Either<unknown, T>): T => {
  if (result._tag === 'Right') return result.right
  throw new Error(rightProblem(result))
}

/**
 * The failure of a result that must be a Left; with a tag, of that kind.
 *
 * Errors   throws Error, showing what came, if it is a Right or a failure of another tag.
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
