/// <reference lib="esnext.disposable" preserve="true" />
/** Ownership in asynchronous programs: of one value for one use, and of many until the end of a pipeline. */
import { type Either, isLeft } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { type Owned, own, scope } from './scope.js'

/**
 * Acquires an owned value, uses it, and releases it, whatever happened in between: a bracket. `cleanUp`, if given, runs between use and
 * release. What the result shares with the value is freed with it: `own` it in `use` if it is to live on.
 *
 * Errors   the `Left` of the first that failed: acquiring, using, cleaning up. If the promise of `use` or `cleanUp` rejects, so does this
 *          one, after the release.
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

/** Owner of all that an asynchronous program makes on its way. It ends with a `using` or `await using` declaration, or `release`. */
export interface Region extends Disposable, AsyncDisposable {
  /** Takes the tensors of a value into ownership until the end of the region, and gives the value. Throws if the region has ended. */
  readonly own: <T>(value: T) => T
  /** Runs a synchronous step in a scope and owns its result. Throws if the region has ended; then the step is not run. */
  readonly step: typeof scope
  /** Calls `cleanUp` at the end of the region. Throws if the region has ended. */
  readonly defer: (cleanUp: () => void) => void
  /**
   * Ends the region: undoes everything, the latest first. What throws does not keep the rest from being undone; an AggregateError
   * says all of it, or the error itself if there is one. Throws if called twice.
   */
  readonly release: () => void
}

/**
 * A region, for a pipeline of steps with waits in between: each step runs in a scope, and its result lives until the end of the region.
 * What is to live longer is owned by somebody else as well.
 *
 * Effects  owns what is given to it until it ends.
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
