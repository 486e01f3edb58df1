/** The laws of memory: numbers 75 to 79, for any operations on TensorDicts. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { concat } from '../../data/tensorDict/joining.js'
import { mapLeaves } from '../../data/tensorDict/leaves.js'
import { merge } from '../../data/tensorDict/merge.js'
import { repeatInterleave, slice, take } from '../../data/tensorDict/selecting.js'
import { type TensorDict, TensorDictError } from '../../data/tensorDict/tensorDict.js'
import { liveTensors, type Owned, own, ownedCount, scope, tensorsOf } from '../../engine/scope.js'
import type { TensorDictRecipe } from '../arbitraries.js'
import { type NumberedLaw, numbered, require } from '../law.js'

/** An operation on a TensorDict, with a number to choose by. It may throw TensorDictError. */
export type TensorDictStep = (td: TensorDict, choice: number) => TensorDict

const sizeOf = (td: TensorDict): number => td.batchShape[0] ?? 0

/** Operations of this package: some make tensors, some share them; each refuses some TensorDicts. */
const STEPS: readonly TensorDictStep[] = [
  (td, choice) => take(td, sizeOf(td) === 0 ? [] : [choice % sizeOf(td), 0]),
  (td, choice) => slice(td, 0, choice % 4),
  (td) => concat([td, td]),
  (td, choice) => repeatInterleave(td, choice % 3),
  (td) => mapLeaves(td, (leaf) => (leaf instanceof tf.Tensor && leaf.dtype === 'float32' ? tf.neg(leaf) : leaf)),
  (td) =>
    merge(
      td,
      mapLeaves(td, (leaf) => (leaf instanceof tf.Tensor ? tf.clone(leaf) : leaf)),
    ),
  (td, choice) => take(td, [sizeOf(td) + choice]),
]

interface Program {
  readonly steps: readonly TensorDictStep[]
  readonly choices: readonly number[]
}

/** What each step gives, beginning with `td`. A step that refuses gives nothing, and must leave no tensor. */
const runProgram = ({ steps, choices }: Program, td: TensorDict): readonly TensorDict[] => {
  const made = [td]
  for (const choice of choices) {
    const last = made.at(-1)!
    const before = liveTensors().count
    try {
      made.push(steps[choice % steps.length]!(last, choice))
    } catch (error) {
      if (!(error instanceof TensorDictError)) throw error
      require(liveTensors().count === before, () => `law 78: a refusal left ${liveTensors().count - before} tensors`)
    }
  }
  return made
}

const partOf = (made: readonly TensorDict[], bits: number): readonly TensorDict[] =>
  made.filter((_, i) => (bits >> (i % 30)) & 1)

const returned = (td: TensorDict, program: Program, bits: number): void => {
  const inputs = new Set(tensorsOf(td))
  const before = liveTensors().count
  const result = scope(() => partOf(runProgram(program, td), bits))
  const fresh = tensorsOf(result).filter((tensor) => !inputs.has(tensor))
  require(liveTensors().count === before + fresh.length, () =>
    `${liveTensors().count - before} tensors live on, ${fresh.length} are in the result`)
  require(!tensorsOf([result, td]).some((tensor) => tensor.isDisposed), () => 'law 76: a tensor was freed too early')
}

const thrown = (td: TensorDict, program: Program): void => {
  const before = liveTensors().count
  let isThrown = false
  try {
    scope(() => {
      runProgram(program, td)
      throw new RangeError('stop')
    })
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    isThrown = true
  }
  require(isThrown && liveTensors().count === before, () => `${liveTensors().count - before} tensors live on`)
}

const owned = (td: TensorDict, program: Program, bits: number): void => {
  const [tensors, values] = [liveTensors(), ownedCount()]
  const owners: readonly Owned<TensorDict>[] = scope(() =>
    runProgram(program, mapLeaves(td, cloned)).map((each) => own(each)),
  )
  for (const owner of owners) {
    require(!tensorsOf(owner.value).some((tensor) => tensor.isDisposed), () => 'an owned tensor was freed')
  }
  const order = [...owners.keys()].sort((a, b) => ((a * 7 + bits) % 11) - ((b * 7 + bits) % 11))
  for (const [i, place] of order.entries()) {
    owners[place]!.release()
    for (const later of order.slice(i + 1)) {
      require(!tensorsOf(owners[later]!.value).some((tensor) => tensor.isDisposed), () => 'an owned tensor was freed')
    }
  }
  const now = liveTensors()
  require(now.count === tensors.count && now.bytes === tensors.bytes, () =>
    `${now.count - tensors.count} tensors live on`)
  require(ownedCount() === values, () => 'values are owned still')
}

const cloned = (leaf: Parameters<Parameters<typeof mapLeaves>[1]>[0]) =>
  leaf instanceof tf.Tensor ? tf.clone(leaf) : leaf

/**
 * The laws of memory for operations on TensorDicts: random programs of `steps` run on what `samples` draws. `steps` is the operations of
 * this package unless one's own are given.
 *
 * @example
 * memoryLaws(anyTensorDict()).map((law) => law.number) // [75, 75, 77, 79]
 */
export const memoryLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: { readonly steps?: readonly TensorDictStep[]; readonly numRuns?: number } = {},
): readonly NumberedLaw[] => {
  const { steps = STEPS, numRuns = 30 } = options
  const programs = fc.array(fc.nat(100), { maxLength: 5 }).map((choices): Program => ({ steps, choices }))
  const law = (
    number: number,
    title: string,
    check: (td: TensorDict, program: Program, bits: number) => void,
  ): NumberedLaw =>
    numbered(number, title, () =>
      fc.assert(
        fc.property(samples, programs, fc.nat(), (recipe, program, bits) => {
          const before = liveTensors().count
          scope(() => {
            check(recipe.build(), program, bits)
          })
          require(liveTensors().count === before, () => `law 79: ${liveTensors().count - before} tensors are left`)
        }),
        { numRuns },
      ),
    )
  return [
    law(
      75,
      'a scope lets live what it returns, and frees the rest; nothing else is freed (76), nor left by a refusal (78)',
      returned,
    ),
    law(75, 'a scope that throws frees everything', thrown),
    law(77, 'owned values live until they are released, in any order and with any sharing', owned),
    law(79, 'a program in a scope that returns nothing leaves nothing', (td, program) => {
      runProgram(program, td)
    }),
  ]
}
