/**
 * Law 32: functions with effects over leaves, for applicatives that hold their results, for their
 * compositions, and for tasks.
 */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { discard, liveTensors, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { type Applicative1, getApplicativeComposition } from 'fp-ts/lib/Applicative.js'
import * as E from 'fp-ts/lib/Either.js'
import * as I from 'fp-ts/lib/Identity.js'
import * as O from 'fp-ts/lib/Option.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { numbered, require } from '../../../packages/testing/src/law.js'
import { type Leaf, meta } from '../../../src/data/tensorDict/leaf.js'
import { leafPaths, mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { traverseLeaves, traverseLeavesTask } from '../../../src/data/tensorDict/traverse.js'
import { identical, lawOf, same, type TensorDictLawOptions } from './checking.js'
import { withChoices } from './drawing.js'

type Path = readonly string[]

const sameText = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const longer = (leaf: Leaf): Leaf => (leaf instanceof tf.Tensor ? tf.reshape(leaf, [...leaf.shape, 1]) : leaf)
const relabeled = (leaf: Leaf): Leaf => (leaf instanceof tf.Tensor ? leaf : meta('relabeled'))

/** A function that fails at one leaf, or at none if the number is that of all leaves. */
const failingAt =
  (td: TensorDict, choice: number, f: (leaf: Leaf) => Leaf) =>
  (leaf: Leaf, path: Path): E.Either<Path, Leaf> =>
    sameText(path, leafPaths(td)[choice % (leafPaths(td).length + 1)]) ? E.left(path) : E.right(f(leaf))

/** Throws unless both are there and equal, or neither is. */
const sameOption = (a: O.Option<TensorDict>, b: O.Option<TensorDict>, what: string): void => {
  require(O.isSome(a) === O.isSome(b), () => `${what}: only one of them is there`)
  if (O.isSome(a) && O.isSome(b)) same(a.value, b.value, what)
}

const identity = (td: TensorDict): void => {
  const traversed = traverseLeaves(I.Applicative)(td, (leaf) => leaf)
  identical(traversed, td, 'traversed by the identity')
  const some = traverseLeaves(O.Applicative)(td, O.some)
  require(O.isSome(some) && some.value === td, () => 'all leaves are there, in another object')
  sameOption(
    traverseLeaves(O.Applicative)(td, (leaf) => O.some(longer(leaf))),
    O.some(mapLeaves(td, longer)),
    'mapped, and traversed where nothing fails',
  )
}

/** Changing Either into Option before or after gives the same. */
const naturality = (td: TensorDict, choice: number): void => {
  const f = failingAt(td, choice, longer)
  const after = O.fromEither(traverseLeaves(E.Applicative)(td, f))
  const before = traverseLeaves(O.Applicative)(td, (leaf, path) => O.fromEither(f(leaf, path)))
  sameOption(before, after, 'a natural transformation before and after')
}

// An Option of Eithers is no type that fp-ts has a name for. Traversing asks it for no more than
// its three functions.
const optionOfEither = getApplicativeComposition(O.Applicative, E.Applicative) as unknown as Applicative1<'Option'>

type Nested<A> = O.Option<E.Either<Path, A>>

/**
 * Traversing in a composition of applicatives is traversing in the outer one, and inside of it in
 * the inner one.
 */
const composition = (td: TensorDict, first: number, second: number): void => {
  const outer = (leaf: Leaf, path: Path): O.Option<Leaf> => O.fromEither(failingAt(td, first, longer)(leaf, path))
  const inner = failingAt(td, second, relabeled)
  const composed = (leaf: Leaf, path: Path): Nested<Leaf> => O.Functor.map(outer(leaf, path), (x) => inner(x, path))
  // Casts: what the composition holds is an Either, which its name does not say.
  const once = traverseLeaves(optionOfEither)(td, composed as never) as unknown as Nested<TensorDict>
  const twice: Nested<TensorDict> = O.Functor.map(traverseLeaves(O.Applicative)(td, outer), (made) =>
    traverseLeaves(E.Applicative)(made, inner),
  )
  require(O.isSome(once) === O.isSome(twice), () => 'the outer effect differs')
  if (O.isNone(once) || O.isNone(twice)) return
  if (E.isRight(once.value) && E.isRight(twice.value))
    same(once.value.right, twice.value.right, 'one traversal and two')
  else require(sameText(once.value, twice.value), () => 'the inner effect differs')
}

const firstFailure = (td: TensorDict): void => {
  const paths = leafPaths(td)
  if (paths.length === 0) return
  const before = liveTensors().count
  const all = traverseLeaves(E.Applicative)(td, (_, path): E.Either<Path, Leaf> => E.left(path))
  require(E.isLeft(all) && sameText(all.left, paths[0]), () => 'not the first failing path')
  const last = traverseLeaves(E.Applicative)(td, failingAt(td, paths.length - 1, longer))
  require(E.isLeft(last) && sameText(last.left, paths.at(-1)), () => 'a failure was lost')
  require(liveTensors().count === before, () => 'a failure left tensors alive')
}

/**
 * Tasks give what Eithers give, one leaf after the other, and leave no tensor if one of them fails.
 */
const tasks = async (td: TensorDict, choice: number): Promise<void> => {
  const before = liveTensors().count
  const f = failingAt(td, choice, (leaf) => (leaf instanceof tf.Tensor ? tf.clone(leaf) : leaf))
  const visited: Path[] = []
  const result = await traverseLeavesTask(td, (leaf, path) => async () => {
    visited.push(path)
    await Promise.resolve()
    return f(leaf, path)
  })()
  const paths = leafPaths(td)
  const failing = choice % (paths.length + 1)
  require(sameText(visited, paths.slice(0, failing + 1)), () => `visited ${JSON.stringify(visited)}`)
  if (E.isRight(result)) {
    require(failing === paths.length, () => 'a failure was lost')
    same(result.right, td, 'traversed by tasks that copy')
    discard([result.right], td)
  } else require(sameText(result.left, paths[failing]), () => 'not the first failing path')
  const left = liveTensors().count - before
  require(left === 0, () => `${left} tensors were left alive`)
  const kept = await traverseLeavesTask(td, (leaf) => TE.right(leaf))()
  require(E.isRight(kept) && kept.right === td, () => 'traversed by the identity: another object')
}

/** Law 32, on TensorDicts drawn from `samples`. */
export const traversalLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = (title: string, check: (td: TensorDict, first: number, second: number) => void): NumberedLaw =>
    lawOf([32, title], withChoices(samples), {
      ...options,
      check: ([recipe, first, second]) => {
        check(recipe.build(), first, second)
      },
    })
  return [
    law('traverseLeaves by an identity gives the same object', identity),
    law('traverseLeaves is natural: Either made Option before or after', naturality),
    law('traverseLeaves in a composition of applicatives is traversing twice', composition),
    law('traverseLeaves reports the first failure, which leaves no tensor', firstFailure),
    numbered(32, 'traverseLeavesTask goes leaf by leaf, stops at the first failure, and leaves no tensor', () =>
      fc.assert(
        fc.asyncProperty(samples, fc.nat(), async (recipe, choice) => {
          const held = own(scope(() => recipe.build()))
          try {
            await tasks(held.value, choice)
          } finally {
            held.release()
          }
        }),
        { numRuns: options.numRuns ?? 40 },
      ),
    ),
  ]
}
