/** How laws of batch operations are stated: on drawn TensorDicts of at least one batch axis, with drawn arguments, counting tensors. */
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { equals } from '../../data/tensorDict/compare.js'
import { format } from '../../data/tensorDict/inspect.js'
import { mapLeaves } from '../../data/tensorDict/leaves.js'
import { unsqueeze } from '../../data/tensorDict/shape.js'
import { misfits, type TensorDict, TensorDictError } from '../../data/tensorDict/tensorDict.js'
import { liveTensors, scope } from '../../engine/scope.js'
import type { TensorDictRecipe } from '../arbitraries.js'
import { type NumberedLaw, numbered, require } from '../law.js'

/** Draws a natural number below a bound; 0 below 0. */
export type Draw = (bound: number) => number

const drawing = (numbers: readonly number[]): Draw => {
  let used = 0
  return (bound) => (bound === 0 ? 0 : numbers[used++ % numbers.length]! % bound)
}

/** How many TensorDicts each law is checked on. */
export interface BatchLawOptions {
  readonly numRuns?: number
}

/** States a law: a number, a title, and what must hold for a TensorDict of at least one batch axis. */
export type StateLaw = (number: number, title: string, check: (td: TensorDict, draw: Draw) => void) => NumberedLaw

/**
 * A way to state laws on samples. Each check runs in a scope, and fails as well if a tensor is alive after it that was not before. Samples
 * without batch axis get one of size 1.
 */
export const statesLaws =
  (samples: fc.Arbitrary<TensorDictRecipe>, { numRuns = 20 }: BatchLawOptions = {}): StateLaw =>
  (number, title, check) =>
    numbered(number, title, () => {
      const numbers = fc.array(fc.nat(9973), { minLength: 12, maxLength: 12 })
      const law = fc.property(samples, numbers, (recipe, drawn) => {
        const before = liveTensors().count
        scope(() => {
          const built = recipe.build()
          check(built.batchShape.length === 0 ? unsqueeze(built, 0) : built, drawing(drawn))
          return []
        })
        const left = liveTensors().count - before
        require(left === 0, () => `${left} tensors are alive after the law`)
      })
      fc.assert(law, { numRuns })
    })

/** The size of a TensorDict's first batch axis. */
export const rowsOf = (td: TensorDict): number => td.batchShape[0]!

/** Refuses what is not equal, and what breaks law 1: every node and leaf begins with the batch axes above it. */
export const same = (actual: TensorDict, expected: TensorDict, what = 'the two sides'): void => {
  require(equals(actual, expected), () => `${what} differ:\n${format(actual)}\n${format(expected)}`)
  const problems = misfits(actual)
  require(problems.length === 0, () => `law 1: ${JSON.stringify(problems)}`)
}

/** Refuses lists that are not of equal TensorDicts. */
export const sameAll = (actual: readonly TensorDict[], expected: readonly TensorDict[]): void => {
  require(actual.length === expected.length, () => `${actual.length} parts instead of ${expected.length}`)
  for (const [i, part] of actual.entries()) same(part, expected[i]!, `parts ${i}`)
}

/** Refuses a call that is not refused with a TensorDictError, or that makes tensors before it is (law 78). */
export const refused = (call: () => unknown, what: string): TensorDictError => {
  const before = liveTensors().count
  try {
    call()
  } catch (error) {
    if (!(error instanceof TensorDictError)) throw error
    require(liveTensors().count === before, () => `${what}: the refused call left tensors`)
    return error
  }
  throw new Error(`${what} is not refused`)
}

/** The numbers 0 .. size - 1. */
export const upTo = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i)

/** Up to four members of 0 .. size - 1; none if there is none. */
export const drawList = (draw: Draw, size: number): readonly number[] =>
  size === 0 ? [] : upTo(draw(5)).map(() => draw(size))

/** 0 .. size - 1 in a drawn order. */
export const drawOrder = (draw: Draw, size: number): readonly number[] =>
  upTo(size)
    .map((i) => [draw(97), i] as const)
    .sort((a, b) => a[0] - b[0])
    .map(([, i]) => i)

/** The order that undoes an order. */
export const inverseOrder = (order: readonly number[]): readonly number[] =>
  upTo(order.length).map((i) => order.indexOf(i))

/** A boolean for each of `size` elements. */
export const drawMask = (draw: Draw, size: number): readonly boolean[] => upTo(size).map(() => draw(2) === 1)

/** An axis of a rank, as it may be given (counted from either end) and as its number. */
export const drawAxis = (draw: Draw, rank: number): { readonly given: number; readonly axis: number } => {
  const given = draw(2 * rank) - rank
  return { given, axis: given < 0 ? given + rank : given }
}

/** A function of each leaf alone: float32 tensors with the other sign. */
export const negated = (td: TensorDict): TensorDict =>
  mapLeaves(td, (leaf) => (leaf instanceof tf.Tensor && leaf.dtype === 'float32' ? tf.neg(leaf) : leaf))
