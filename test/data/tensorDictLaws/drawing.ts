/**
 * Arguments of TensorDict operations, drawn to fit the TensorDict at hand: paths, lists, orders,
 * masks, axes.
 */
import { anyTensorDict, type TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import type { Path } from '../../../src/data/tensorDict/keys.js'
import type { Leaf } from '../../../src/data/tensorDict/leaf.js'
import { leafPaths, mapLeaves, nodePaths } from '../../../src/data/tensorDict/leaves.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'

/** Draws a natural number below a bound; 0 below 0. */
export type Draw = (bound: number) => number

/** Numbers that a `Draw` is made of. */
export const anyDraw: fc.Arbitrary<readonly number[]> = fc.array(fc.nat(9973), { minLength: 12, maxLength: 12 })

/** Draws from a list of numbers, again and again. */
export const drawing = (numbers: readonly number[]): Draw => {
  let used = 0
  return (bound) => (bound === 0 ? 0 : numbers[used++ % numbers.length]! % bound)
}

/** A sample, with another TensorDict of its batch shape. */
export const withOther = (
  samples: fc.Arbitrary<TensorDictRecipe>,
): fc.Arbitrary<readonly [TensorDictRecipe, TensorDictRecipe]> =>
  samples.chain((recipe) => fc.tuple(fc.constant(recipe), anyTensorDict(fc.constant(recipe.batchShape))))

/** A sample, with two numbers that choose parts of it. */
export const withChoices = (
  samples: fc.Arbitrary<TensorDictRecipe>,
): fc.Arbitrary<readonly [TensorDictRecipe, number, number]> => fc.tuple(samples, fc.nat(), fc.nat())

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

/** The size of a TensorDict's first batch axis. */
export const rowsOf = (td: TensorDict): number => td.batchShape[0]!

/** The numbers 0 .. size - 1. */
export const upTo = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i)

/** Up to four indices below `size` (empty when `size` is 0). */
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

/** A leaf with floats in it: the only ones with gradients, NaN and signs that never overflow. */
export const isFloat = (leaf: Leaf): leaf is tf.Tensor => leaf instanceof tf.Tensor && leaf.dtype === 'float32'

/** A function of each leaf alone: float32 tensors with the other sign. */
export const negated = (td: TensorDict): TensorDict => mapLeaves(td, (leaf) => (isFloat(leaf) ? tf.neg(leaf) : leaf))

/** Float32 tensors without a sign, those of zeros included. */
export const unsigned = (td: TensorDict): TensorDict => mapLeaves(td, (leaf) => (isFloat(leaf) ? tf.abs(leaf) : leaf))
