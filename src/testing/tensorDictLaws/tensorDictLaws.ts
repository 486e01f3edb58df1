/**
 * The laws of TensorDicts, for any arbitrary of them, including your own.
 *
 * This folder holds the laws of TensorDicts. It does not hold the laws of other parts (`..`).
 */
import type fc from 'fast-check'
import { anyTensorDict, type TensorDictRecipe } from '../arbitraries.js'
import type { NumberedLaw } from '../law.js'
import type { TensorDictLawOptions } from './checking.js'
import { equalityLaws } from './equality.js'
import { flatKeyLaws } from './flatKeys.js'
import { functorLaws } from './functor.js'
import { gradientLaws } from './gradients.js'
import { indexingLaws } from './indexing.js'
import { joiningLaws } from './joining.js'
import { keyLaws } from './keys.js'
import { lensLaws } from './lenses.js'
import { memoryLaws } from './memory.js'
import { paddingLaws } from './padding.js'
import { programLaws } from './programs.js'
import { reductionLaws } from './reductions.js'
import { shapeLaws } from './shape.js'
import { sharingLaws } from './sharing.js'
import { traversalLaws } from './traversals.js'
import { wellFormednessLaws } from './wellFormedness.js'

const KITS = [
  wellFormednessLaws,
  lensLaws,
  keyLaws,
  flatKeyLaws,
  functorLaws,
  traversalLaws,
  indexingLaws,
  joiningLaws,
  shapeLaws,
  paddingLaws,
  reductionLaws,
  equalityLaws,
  sharingLaws,
  programLaws,
  memoryLaws,
  gradientLaws,
]

/**
 * Laws 1 to 82 and 87 of TensorDicts, in the order of their numbers; `docs/laws.md` lists them. `samples` are the TensorDicts that they are
 * checked on, by default all kinds.
 *
 * Effects  each law builds its samples in a scope, and leaves no tensor.
 *
 * @example
 * tensorDictLaws(anyTensorDict(), { numRuns: 5 })[0].name // 'law 1: every leaf and node fits the node that it is in'
 */
export const tensorDictLaws = (
  samples: fc.Arbitrary<TensorDictRecipe> = anyTensorDict(),
  options: TensorDictLawOptions = {},
): readonly NumberedLaw[] => KITS.flatMap((laws) => laws(samples, options)).toSorted((a, b) => a.number - b.number)
