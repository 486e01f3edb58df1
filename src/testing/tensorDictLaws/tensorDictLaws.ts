/** The laws of keys, structure and leaves of TensorDicts, for any arbitrary of them: one's own too. */
import type fc from 'fast-check'
import { anyTensorDict, type TensorDictRecipe } from '../arbitraries.js'
import type { NumberedLaw } from '../law.js'
import type { TensorDictLawOptions } from './checking.js'
import { equalityLaws } from './equality.js'
import { flatKeyLaws } from './flatKeys.js'
import { functorLaws } from './functor.js'
import { keyLaws } from './keys.js'
import { lensLaws } from './lenses.js'
import { sharingLaws } from './sharing.js'
import { wellFormednessLaws } from './wellFormedness.js'

/**
 * Laws 1 to 33, 66 to 71, 73, 74, 78 and 87 of TensorDicts. `samples` are the TensorDicts that they are checked on, by default all kinds.
 *
 * Effects  each law builds its samples in a scope, and leaves no tensor.
 *
 * @example
 * tensorDictLaws(anyTensorDict(), { numRuns: 5 })[0].name // 'law 1: every leaf and node fits the node that it is in'
 */
export const tensorDictLaws = (
  samples: fc.Arbitrary<TensorDictRecipe> = anyTensorDict(),
  options: TensorDictLawOptions = {},
): readonly NumberedLaw[] =>
  [wellFormednessLaws, lensLaws, keyLaws, flatKeyLaws, functorLaws, equalityLaws, sharingLaws].flatMap((laws) =>
    laws(samples, options),
  )
