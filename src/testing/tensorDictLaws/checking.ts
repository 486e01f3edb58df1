/** What the laws of TensorDicts share: drawing, memory, refusals. */
import fc from 'fast-check'
import { diff } from '../../data/tensorDict/compare.js'
import type { Path } from '../../data/tensorDict/keys.js'
import { leafPaths, nodePaths } from '../../data/tensorDict/leaves.js'
import { misfits, type TensorDict, TensorDictError } from '../../data/tensorDict/tensorDict.js'
import { liveTensors, scope } from '../../engine/scope.js'
import { anyTensorDict, type TensorDictRecipe } from '../arbitraries.js'
import { type NumberedLaw, numbered, require } from '../law.js'

/** How often each law is tried. */
export interface TensorDictLawOptions {
  /** Draws for each law; 40 by default. */
  readonly numRuns?: number
}

/** Law 1: throws unless every leaf and node fits the node that it is in. Returns its argument, so that it can stand around any result. */
export const wellFormed = <S>(td: TensorDict<S>): TensorDict<S> => {
  const found = misfits(td)
  require(found.length === 0, () => `a node is not well formed: ${JSON.stringify(found)}`)
  return td
}

/** Throws unless two TensorDicts are well formed and equal; says where they differ. */
export const same = (actual: TensorDict, expected: TensorDict, what: string): void => {
  const differences = diff(wellFormed(actual), wellFormed(expected))
  require(differences.length === 0, () => `${what}: ${JSON.stringify(differences)}`)
}

/** Throws unless two values are the very same. */
export const identical = (actual: unknown, expected: unknown, what: string): void => {
  require(actual === expected, () => `${what}: not the same object`)
}

/** The TensorDictError that a call throws. A call that throws nothing, or anything else, breaks the law. */
export const refused = (what: string, call: () => unknown): TensorDictError => {
  try {
    call()
  } catch (thrown) {
    if (thrown instanceof TensorDictError) return thrown
    throw thrown
  }
  throw new Error(`${what}: not refused`)
}

/** A law about drawn values, checked in a scope: it leaves no tensor. */
export const lawOf = <T>(
  [number, title]: readonly [number, string],
  drawn: fc.Arbitrary<T>,
  { numRuns = 40, check }: TensorDictLawOptions & { readonly check: (value: T) => void },
): NumberedLaw =>
  numbered(number, title, () => {
    fc.assert(
      fc.property(drawn, (value) => {
        const before = liveTensors().count
        scope(() => {
          check(value)
          return []
        })
        const left = liveTensors().count - before
        require(left === 0, () => `${left} tensors were left alive`)
      }),
      { numRuns },
    )
  })

/** One of a list, by any number; undefined if it is empty. */
export const pick = <T>(list: readonly T[], choice: number): T | undefined =>
  list.length === 0 ? undefined : list[choice % list.length]

/** Those of a list whose bit is set. */
export const subset = <T>(list: readonly T[], bits: number): readonly T[] =>
  list.filter((_, i) => (bits >> (i % 30)) % 2 === 1)

/** The paths of all leaves and nodes. */
export const allPaths = (td: TensorDict): readonly Path[] => [...nodePaths(td), ...leafPaths(td)]

/** A name that no drawn TensorDict has. */
export const FRESH = 'fresh '.repeat(50)

/** A sample, with another TensorDict of its batch shape. */
export const withOther = (
  samples: fc.Arbitrary<TensorDictRecipe>,
): fc.Arbitrary<readonly [TensorDictRecipe, TensorDictRecipe]> =>
  samples.chain((recipe) => fc.tuple(fc.constant(recipe), anyTensorDict(fc.constant(recipe.batchShape))))

/** A sample, with two numbers that choose parts of it. */
export const withChoices = (
  samples: fc.Arbitrary<TensorDictRecipe>,
): fc.Arbitrary<readonly [TensorDictRecipe, number, number]> => fc.tuple(samples, fc.nat(), fc.nat())
