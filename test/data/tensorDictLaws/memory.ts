/** The laws of memory: numbers 75 to 79, for any operations on TensorDicts. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors, type Owned, own, ownedCount, scope, tensorsOf } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { repeatInterleave, slice, take } from '../../../src/data/tensorDict/selecting.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { attempt, lawOf, type TensorDictLawOptions } from './checking.js'
import { subset } from './drawing.js'

/** An operation on a TensorDict, with a number to choose by. It may throw TensorDictError. */
export type TensorDictStep = (td: TensorDict, choice: number) => TensorDict

const sizeOf = (td: TensorDict): number => td.batchShape[0] ?? 0

/**
 * Operations of this package: some make tensors, some share them; each refuses some TensorDicts.
 */
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

/** Lists the result of each step, beginning with `td`, without steps that are refused. */
const runProgram = ({ steps, choices }: Program, td: TensorDict): readonly TensorDict[] => {
  const made = [td]
  for (const choice of choices) {
    const next = attempt(() => steps[choice % steps.length]!(made.at(-1)!, choice))
    if (next !== undefined) made.push(next)
  }
  return made
}

/**
 * Each step by itself, on what the steps before it give: those that are refused must leave no
 * tensor.
 */
const refusals = (td: TensorDict, program: Program): void => {
  for (const last of runProgram(program, td)) {
    for (const choice of program.choices) {
      const before = liveTensors().count
      const made = attempt(() => program.steps[choice % program.steps.length]!(last, choice))
      const left = liveTensors().count - before
      require(made !== undefined || left === 0, () => `a refusal left ${left} tensors`)
    }
  }
}

const returned = (td: TensorDict, program: Program, bits: number): void => {
  const inputs = new Set(tensorsOf(td))
  const before = liveTensors().count
  const result = scope(() => subset(runProgram(program, td), bits))
  const fresh = tensorsOf(result).filter((tensor) => !inputs.has(tensor))
  require(liveTensors().count === before + fresh.length, () =>
    `${liveTensors().count - before} tensors live on, ${fresh.length} are in the result`)
}

const notFreed = (td: TensorDict, program: Program, bits: number): void => {
  const result = scope(() => subset(runProgram(program, td), bits))
  require(!tensorsOf([result, td]).some((tensor) => tensor.isDisposed), () => 'a tensor was freed too early')
}

const releasedTwice = (td: TensorDict): void => {
  const [first, second] = scope(() => {
    const copy = mapLeaves(td, cloned)
    return [own(copy), own(copy)] as const
  })
  first.release()
  let isReported = false
  try {
    first.release()
  } catch {
    isReported = true
  }
  require(isReported, () => 'the second release is not reported')
  require(!tensorsOf(second.value).some((tensor) => tensor.isDisposed), () => 'the second release freed what is owned')
  second.release()
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
 * The laws of memory for operations on TensorDicts: random programs of `steps` run on what
 * `samples` draws. `steps` is the operations of this package unless one's own are given.
 *
 * @example
 * memoryLaws(anyTensorDict()).map((law) => law.number) // [75, 75, 76, 77, 77, 78, 79]
 */
export const memoryLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions & { readonly steps?: readonly TensorDictStep[] } = {},
): readonly NumberedLaw[] => {
  const { steps = STEPS } = options
  const programs = fc.array(fc.nat(100), { maxLength: 5 }).map((choices): Program => ({ steps, choices }))
  const law = (
    number: number,
    title: string,
    check: (td: TensorDict, program: Program, bits: number) => void,
  ): NumberedLaw =>
    lawOf([number, title], fc.tuple(samples, programs, fc.nat()), {
      ...options,
      check: ([recipe, program, bits]) => {
        check(recipe.build(), program, bits)
      },
    })
  return [
    law(75, 'a scope lets live what it returns, and frees the rest', returned),
    law(75, 'a scope that throws frees everything', thrown),
    law(76, 'a scope frees nothing of its result, and nothing that was there before', notFreed),
    law(77, 'owned values live until they are released, in any order and with any sharing', owned),
    law(77, 'a second release is reported, and frees nothing', releasedTwice),
    law(78, 'a step that is refused leaves no tensor', refusals),
    law(79, 'a program in a scope that returns nothing leaves nothing', (td, program) => {
      const before = liveTensors().count
      scope(() => {
        runProgram(program, td)
        return []
      })
      require(liveTensors().count === before, () => `${liveTensors().count - before} tensors are left`)
    }),
  ]
}
