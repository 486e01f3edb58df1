/** Effectful traversals of all leaves: in an applicative, and with tasks that may fail. */
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { HKT, Kind, Kind2, URIS, URIS2 } from 'fp-ts/HKT.js'
import type { Applicative, Applicative1, Applicative2, Applicative2C } from 'fp-ts/lib/Applicative.js'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Path } from './keys.js'
import type { Leaf } from './leaf.js'
import { leafEntries, mapLeaves } from './leaves.js'
import type { TensorDict } from './tensorDict.js'

/** Replaces the leaves of a tree, given in order. */
const refilled = <S>(td: TensorDict<S>, leaves: readonly Leaf[]): TensorDict<S> => {
  const rest = leaves.values()
  return mapLeaves(td, () => rest.next().value!) // one for each leaf
}

/**
 * Applies `f` to every leaf, in order, and collects the results in an applicative functor of fp-ts:
 * with `Option`, all leaves or none; with `Either`, all leaves or the first failure; with a
 * validation, all failures.
 *
 * Errors   throws TensorDictError, naming every path where a result does not fit.
 * Effects  runs in a scope: tensors that `f` creates are freed if the result does not hold them, so
 *          a failure leaves none. Hence `F` must be synchronous. For asynchronous results, see
 *          `traverseLeavesTask`.
 * Source   law 32.
 *
 * @example
 * traverseLeaves(Either.Applicative)(TensorDict({ a: meta(1), b: meta(2) }, []), (_, path) => left(path)) // left(['a'])
 */
export function traverseLeaves<F extends URIS2>(
  F: Applicative2<F>,
): <S, X>(td: TensorDict<S>, f: (leaf: Leaf, path: Path) => Kind2<F, X, Leaf>) => Kind2<F, X, TensorDict<S>>
export function traverseLeaves<F extends URIS2, X>(
  F: Applicative2C<F, X>,
): <S>(td: TensorDict<S>, f: (leaf: Leaf, path: Path) => Kind2<F, X, Leaf>) => Kind2<F, X, TensorDict<S>>
export function traverseLeaves<F extends URIS>(
  F: Applicative1<F>,
): <S>(td: TensorDict<S>, f: (leaf: Leaf, path: Path) => Kind<F, Leaf>) => Kind<F, TensorDict<S>>
export function traverseLeaves<F>(
  F: Applicative<F>,
): <S>(td: TensorDict<S>, f: (leaf: Leaf, path: Path) => HKT<F, Leaf>) => HKT<F, TensorDict<S>> {
  return (td, f) =>
    scope(() => {
      const none: HKT<F, readonly Leaf[]> = F.of([])
      const all = leafEntries(td).reduce(
        (results, [path, leaf]) =>
          F.ap<Leaf, readonly Leaf[]>(
            F.map(results, (leaves) => (next: Leaf) => [...leaves, next]),
            f(leaf, path),
          ),
        none,
      )
      return F.map(all, (leaves) => refilled(td, leaves)) as never // an applicative whose values are not promises
    })
}

/**
 * Applies a task to every leaf, one after the other, and stops at the first failure.
 *
 * Errors   `Left` of the first task that fails. Rejects if a result does not fit, or with the
 *          exception of a task.
 * Effects  those of the tasks. Tensors of the results belong to the caller; after a failure, the
 *          tensors created so far are freed.
 * Source   law 32.
 */
export const traverseLeavesTask =
  <S, X>(td: TensorDict<S>, f: (leaf: Leaf, path: Path) => TaskEither<X, Leaf>): TaskEither<X, TensorDict<S>> =>
  async () => {
    const made: Leaf[] = []
    try {
      for (const [path, leaf] of leafEntries(td)) {
        const result = await f(leaf, path)()
        if (E.isLeft(result)) {
          discard(made, td)
          return result
        }
        made.push(result.right)
      }
      return E.right(refilled(td, made))
    } catch (thrown) {
      discard(made, td)
      throw thrown
    }
  }
