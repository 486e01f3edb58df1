/**
 * States laws of TensorDicts on drawn values, in a scope, counting tensors; and the calls that must
 * be refused.
 */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { numbered, require } from '../../../packages/testing/src/law.js'
import { diff } from '../../../src/data/tensorDict/compare.js'
import { unsqueeze } from '../../../src/data/tensorDict/shape.js'
import { misfits, type TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { anyDraw, type Draw, drawing } from './drawing.js'

/** The number of runs of each law. */
export interface TensorDictLawOptions {
  /** Draws for each law; 40 by default. */
  readonly numRuns?: number
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

/**
 * States a law: a number, a title, and what must hold for a TensorDict of at least one batch axis.
 */
export type StateLaw = (number: number, title: string, check: (td: TensorDict, draw: Draw) => void) => NumberedLaw

/** A way to state laws of batch axes on samples. Those without batch axis get one of size 1. */
export const statesLaws =
  (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): StateLaw =>
  (number, title, check) =>
    lawOf([number, title], fc.tuple(samples, anyDraw), {
      ...options,
      check: ([recipe, numbers]) => {
        const built = recipe.build()
        check(built.batchShape.length === 0 ? unsqueeze(built, 0) : built, drawing(numbers))
      },
    })

/**
 * Law 1: throws unless every leaf and node fits the node that it is in. Returns its argument, so
 * that it can stand around any result.
 */
export const wellFormed = <S>(td: TensorDict<S>): TensorDict<S> => {
  const found = misfits(td)
  require(found.length === 0, () => `a node is not well formed: ${JSON.stringify(found)}`)
  return td
}

/** Throws unless two TensorDicts are well formed and equal; the message locates the difference. */
export const same = (actual: TensorDict, expected: TensorDict, what = 'the two sides'): void => {
  const differences = diff(wellFormed(actual), wellFormed(expected))
  require(differences.length === 0, () => `${what} differ: ${JSON.stringify(differences)}`)
}

/** Throws unless two lists are of equal TensorDicts. */
export const sameAll = (actual: readonly TensorDict[], expected: readonly TensorDict[]): void => {
  require(actual.length === expected.length, () => `${actual.length} parts instead of ${expected.length}`)
  for (const [i, part] of actual.entries()) same(part, expected[i]!, `parts ${i}`)
}

/** Throws unless two values are the very same. */
export const identical = (actual: unknown, expected: unknown, what: string): void => {
  require(actual === expected, () => `${what}: not the same object`)
}

/**
 * The TensorDictError that a call throws. A call that is not refused, or leaves tensors when it is
 * (law 78), breaks the law.
 */
export const refused = (call: () => unknown, what: string): TensorDictError => {
  const before = liveTensors().count
  try {
    call()
  } catch (thrown) {
    if (!(thrown instanceof TensorDictError)) throw thrown
    require(liveTensors().count === before, () => `${what}: the refused call left tensors`)
    return thrown
  }
  throw new Error(`${what}: not refused`)
}

/** The result of a call, or undefined if it is refused. */
export const attempt = <T>(call: () => T): T | undefined => {
  try {
    return call()
  } catch (thrown) {
    if (thrown instanceof TensorDictError) return undefined
    throw thrown
  }
}
