/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Ownership in asynchronous programs: of one value for one use, and of many until the end of a
 * pipeline.
 */
import { type Either, isLeft } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { type Owned, own, scope } from './scope.js'

/**
 * Acquires an owned value, uses it, and releases it in any case: a bracket. `cleanUp`, if given,
 * runs between use and release. Tensors that the result shares with the value are freed with it:
 * `own` the result in `use` to keep them.
 *
 * Errors   the `Left` of the first step that failed: acquiring, using, cleaning up. If the promise
 *          of `use` or `cleanUp` rejects, so does this one, after the release.
 * Effects  those of the three. Nothing is owned afterwards.
 *
 * @example
 * useOwned(async () => right(own(tf.scalar(2))), (x) => async () => right(x.shape))() instanceof Promise // true
 */
export const useOwned =
  <L, T, M, A, N = never>(
    acquire: TaskEither<L, Owned<T>>,
    use: (value: T) => TaskEither<M, A>,
    cleanUp?: (value: T, result: Either<M, A>) => TaskEither<N, void>,
  ): TaskEither<L | M | N, A> =>
  async () => {
    const acquired = await acquire()
    if (isLeft(acquired)) return acquired
    using owned = acquired.right
    const result = await use(owned.value)()
    const cleaned = cleanUp === undefined ? undefined : await cleanUp(owned.value, result)()
    return isLeft(result) || cleaned === undefined || !isLeft(cleaned) ? result : cleaned
  }

/**
 * The owner of everything that an asynchronous program creates. It ends with a `using` or `await
 * using` declaration, or `release`.
 */
export interface Region extends Disposable, AsyncDisposable {
  /**
   * Owns the tensors of a value until the end of the region, and returns the value. Throws if the
   * region has ended.
   */
  readonly own: <T>(value: T) => T
  /**
   * Runs a synchronous step in a scope and owns its result. Throws if the region has ended, without
   * running the step.
   */
  readonly step: typeof scope
  /** Calls `cleanUp` at the end of the region. Throws if the region has ended. */
  readonly defer: (cleanUp: () => void) => void
  /**
   * Ends the region: undoes everything, the latest first. Errors do not stop the rest from being
   * undone; they are thrown together as an AggregateError, or as the error itself if there is only
   * one. Throws if called twice.
   */
  readonly release: () => void
}

/**
 * Creates a region, for a pipeline of steps with waits in between. Each step runs in a scope, and
 * its result lives until the end of the region. Values that should live longer need another owner.
 *
 * Effects  owns the values that it receives until it ends.
 *
 * @example
 * const here = region()
 * const two = here.step(() => tf.add(tf.scalar(1), tf.scalar(1)))
 * two.dataSync() // [2]
 * here.release() // undefined
 */
export const region = (): Region => {
  const undo: (() => void)[] = []
  let hasEnded = false
  const requireOpen = (): void => {
    if (hasEnded) throw new Error('region: it has ended already')
  }
  const defer = (cleanUp: () => void): void => {
    requireOpen()
    undo.push(cleanUp)
  }
  const ownHere = <T>(value: T): T => {
    requireOpen()
    const owned = own(value)
    undo.push(owned.release)
    return value
  }
  const release = (): void => {
    requireOpen()
    hasEnded = true
    const errors: unknown[] = []
    for (const each of undo.toReversed()) {
      try {
        each()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length === 1) throw errors[0]
    if (errors.length > 1) throw new AggregateError(errors, `region: ${errors.length} errors while it ended`)
  }
  return {
    own: ownHere,
    step: (f) => {
      requireOpen()
      return ownHere(scope(f))
    },
    defer,
    release,
    [Symbol.dispose]: release,
    [Symbol.asyncDispose]: async () => release(),
  }
}
