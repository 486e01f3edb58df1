/** All laws of TensorDict, for any arbitrary of them. */
import { anyTensorDict, type NumberedLaw, type TensorDictRecipe } from '@tandem-rl/testing'
import type fc from 'fast-check'
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
 * Laws 1 to 82 and 87 of TensorDict, ordered by number; `docs/laws.md` lists them. `samples` draws
 * the TensorDicts that they are checked on. The default draws every kind.
 */
export const tensorDictLaws = (
  samples: fc.Arbitrary<TensorDictRecipe> = anyTensorDict(),
  options: TensorDictLawOptions = {},
): readonly NumberedLaw[] => KITS.flatMap((laws) => laws(samples, options)).toSorted((a, b) => a.number - b.number)
