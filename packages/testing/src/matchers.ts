/**
 * Matchers for `expect.extend` of vitest and jest. For other runners, the `require` functions give
 * the same messages.
 */
import type * as tf from '@tensorflow/tfjs-core'
import type { Either } from 'fp-ts/lib/Either.js'
import { isTensorDict, type TensorDict } from 'tandem-rl/tensordict'
import { type CloseTolerance, EXACT, type NestedNumbers, tensorProblem } from './close.js'
import { leaksOf } from './leaks.js'
import { leftProblem, rightProblem } from './results.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'

/** The result of a matcher. */
export interface MatcherResult {
  readonly pass: boolean
  readonly message: () => string
}

const answer = (problem: string | undefined, opposite: string): MatcherResult => ({
  pass: problem === undefined,
  message: () => problem ?? `expected ${opposite}`,
})

const dictProblem = (received: unknown, expected: TensorDict, tolerance: CloseTolerance): string | undefined => {
  if (!isTensorDict(received)) return `expected a TensorDict, got ${typeof received}`
  const problems = tensorDictProblems(received, expected, tolerance)
  return problems.length === 0 ? undefined : listed(problems)
}

/**
 * The matchers for `expect.extend(tandemMatchers)`. Messages contain the path, the first differing
 * index, the largest difference and the tolerance. NaN equals NaN.
 *
 * `toEqualTensorDict(td)` compares like `equals`. `toBeCloseToTensorDict(td, tolerance)` and
 * `toBeCloseToTensor(tensor, tolerance)` allow a tolerance of float32 numbers. `toBeRight()` and
 * `toBeLeft(tag)` are for an Either, and `await expect(f).toLeaveNoTensors()` is for a function.
 *
 * For their types in vitest, add this once to a project:
 * `declare module 'vitest' { interface Matchers<T> extends TandemMatchers<T> {} }`.
 *
 * Effects  read tensors; make none.
 *
 * @example
 * tandemMatchers.toBeRight(right(1)).pass // true
 */
export const tandemMatchers = {
  toEqualTensorDict: (received: unknown, expected: TensorDict): MatcherResult =>
    answer(dictProblem(received, expected, EXACT), 'another TensorDict, got an equal one'),
  toBeCloseToTensorDict: (received: unknown, expected: TensorDict, tolerance: CloseTolerance = {}): MatcherResult =>
    answer(dictProblem(received, expected, tolerance), 'another TensorDict, got one that is close'),
  toBeCloseToTensor: (
    received: tf.Tensor,
    expected: tf.Tensor | NestedNumbers,
    tolerance: CloseTolerance = {},
  ): MatcherResult => answer(tensorProblem(received, expected, tolerance), 'another tensor, got one that is close'),
  toBeRight: (received: Either<unknown, unknown>): MatcherResult => answer(rightProblem(received), 'no Right, got one'),
  toBeLeft: (received: Either<unknown, unknown>, tag?: string): MatcherResult =>
    answer(leftProblem(received, tag), `no Left${tag === undefined ? '' : ` of ${tag}`}, got one`),
  toLeaveNoTensors: async (received: () => unknown): Promise<MatcherResult> =>
    answer((await leaksOf(received)).problem, 'the function to leave tensors behind, it left none'),
} as const

/** The types of the matchers, for a runner's own type of matchers. */
export interface TandemMatchers<R = unknown> {
  readonly toEqualTensorDict: (expected: TensorDict) => R
  readonly toBeCloseToTensorDict: (expected: TensorDict, tolerance?: CloseTolerance) => R
  readonly toBeCloseToTensor: (expected: tf.Tensor | NestedNumbers, tolerance?: CloseTolerance) => R
  readonly toBeRight: () => R
  readonly toBeLeft: (tag?: string) => R
  readonly toLeaveNoTensors: () => Promise<R>
}
