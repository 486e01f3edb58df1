/** The laws of gradients of TensorDicts: numbers 80 to 82. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { gradientsOf } from '../../../src/data/gradients.js'
import { select } from '../../../src/data/tensorDict/edit.js'
import { leafEntries, mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import { find, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { lawOf, type TensorDictLawOptions } from './checking.js'
import { isFloat } from './drawing.js'

const floatsOf = (td: TensorDict): readonly (readonly [readonly string[], tf.Tensor])[] =>
  leafEntries(td).flatMap(([path, leaf]) => (isFloat(leaf) ? [[path, leaf] as const] : []))

/** The TensorDict with moderate numbers in its float leaves, no two alike. */
const moderate = (td: TensorDict): TensorDict => {
  let count = 0
  return mapLeaves(td, (leaf) => {
    if (!isFloat(leaf)) return leaf
    count++
    return tf.tensor(
      Array.from({ length: leaf.size }, (_, i) => Math.sin(7 * count + i)),
      leaf.shape,
    )
  })
}

const ZERO = (): tf.Tensor => tf.scalar(0)

/** A smooth function of all float leaves, with a weight for each place. */
const smooth =
  (weight: number) =>
  (td: TensorDict): tf.Tensor =>
    floatsOf(td)
      .map(([, leaf], i) => tf.sum(tf.mul(tf.sin(tf.mul(leaf, weight)), i + 1)))
      .reduce((sum, term) => tf.add(sum, term), ZERO())

const close = (a: tf.Tensor, b: tf.Tensor, tolerance = 1e-5): boolean =>
  a.shape.join() === b.shape.join() &&
  Array.from(a.dataSync()).every((x, i) => Math.abs(x - b.dataSync()[i]!) <= tolerance * (1 + Math.abs(x)))

const gradsOf = (td: TensorDict, loss: (td: TensorDict) => tf.Tensor): TensorDict =>
  gradientsOf(td, (params) => ({ value: loss(params), aux: [] })).grads

const tensorAt = (td: TensorDict, path: readonly string[]): tf.Tensor => {
  const entry = find(td, path)
  if (!(entry instanceof tf.Tensor)) throw new Error(`there is no tensor at ${JSON.stringify(path)}`)
  return entry
}

const keyTree = (td: TensorDict): void => {
  const [first] = floatsOf(td)
  const grads = gradsOf(td, (params) => (first === undefined ? ZERO() : tf.sum(tensorAt(params, first[0]))))
  const [paths, expected] = [leafEntries(grads), floatsOf(td)].map((list) => JSON.stringify(list.map(([path]) => path)))
  require(paths === expected, () => `gradients at ${paths}, float leaves at ${expected}`)
  for (const [i, [path, leaf]] of floatsOf(td).entries()) {
    const wanted = i === 0 ? tf.onesLike(leaf) : tf.zerosLike(leaf)
    require(close(tensorAt(grads, path), wanted), () => `at ${JSON.stringify(path)}: not ${i === 0 ? 'ones' : 'zeros'}`)
  }
}

const linearity = (td: TensorDict): void => {
  const [f, g] = [smooth(1), smooth(0.5)]
  const both = gradsOf(td, (params) => tf.sub(tf.mul(f(params), 2), g(params)))
  const [df, dg] = [gradsOf(td, f), gradsOf(td, g)]
  for (const [path, grad] of floatsOf(both)) {
    const expected = tf.sub(tf.mul(tensorAt(df, path), 2), tensorAt(dg, path))
    require(close(grad, expected, 1e-4), () => `at ${JSON.stringify(path)}: not linear`)
  }
}

const differences = (td: TensorDict): void => {
  const f = smooth(1)
  const grads = gradsOf(td, f)
  const step = 1e-2
  for (const [path, leaf] of floatsOf(td)) {
    if (leaf.size === 0) continue
    const value = (sign: number): number => {
      const nudge = tf.scatterND(tf.tensor2d([[0]], [1, 1], 'int32'), tf.tensor1d([sign * step]), [leaf.size])
      const moved = tf.add(leaf, tf.reshape(nudge, leaf.shape))
      return f(mapLeaves(td, (each) => (each === leaf ? moved : each))).dataSync()[0]!
    }
    const slope = (value(1) - value(-1)) / (2 * step)
    const grad = tensorAt(grads, path).dataSync()[0]!
    require(Math.abs(slope - grad) < 5e-2, () => `at ${JSON.stringify(path)}: slope ${slope}, gradient ${grad}`)
  }
}

// A cast: the kit names keys that the compiler does not know.
const selectNames = select as (td: TensorDict, ...keys: readonly string[]) => TensorDict

const selection = (td: TensorDict, bits: number): void => {
  const names = [...td.entries.keys()].filter((_, i) => (bits >> i) & 1)
  const part = selectNames(td, ...names)
  const whole = gradsOf(td, (params) => smooth(1)(selectNames(params, ...names)))
  const { grads, aux } = gradientsOf(part, (params) => ({
    value: smooth(1)(params),
    aux: { params, all: [tf.ones([2])] },
  }))
  for (const [path, grad] of floatsOf(grads)) {
    require(close(grad, tensorAt(whole, path)), () => `at ${JSON.stringify(path)}: select changes the gradient`)
  }
  for (const [path, leaf] of floatsOf(part)) {
    require(close(tensorAt(aux.params, path), leaf), () => `at ${JSON.stringify(path)}: aux differs`)
  }
  require(!aux.all[0]!.isDisposed, () => 'a tensor of aux was freed')
}

/**
 * The laws of `gradientsOf` on TensorDicts that `samples` draws. The numbers in their float leaves
 * are replaced.
 *
 * @example
 * gradientLaws(anyTensorDict()).map((law) => law.number) // [80, 81, 81, 82]
 */
export const gradientLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions = {},
): readonly NumberedLaw[] => {
  const law = (number: number, title: string, check: (td: TensorDict, drawn: number) => void): NumberedLaw =>
    lawOf([number, title], fc.tuple(samples, fc.nat()), {
      ...options,
      check: ([recipe, drawn]) => {
        check(moderate(recipe.build()), drawn)
      },
    })
  return [
    law(
      80,
      'gradients are at the float leaves, in their shapes: ones where the function is the sum, zeros where it is not',
      keyTree,
    ),
    law(81, 'gradients are linear in the function', linearity),
    law(81, 'gradients are the limits of finite differences', differences),
    law(82, 'gradients commute with the selection of parameters, and aux survives', selection),
  ]
}
