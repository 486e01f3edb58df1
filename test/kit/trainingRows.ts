/** Rows for training steps, drawn at random, and the plainest optimizer. */
import * as tf from '@tensorflow/tfjs-core'
import type { TrainingRows } from '../../src/collectors/steps/stepRows.js'
import { child, keyFromSeed, normals, uniformInteger } from '../../src/core/key.js'
import { mapNamed, type Optimizer } from '../../src/objectives/updates/optimizer.js'

/** Plain descent: the step is the gradient, so that two steps compare as two gradients do. */
export const descent: Optimizer<Readonly<Record<string, tf.Tensor>>> = {
  name: 'descent',
  init: () => ({}),
  update: (grads, state, params, rate) => ({
    params: mapNamed(params, (p, g) => tf.sub(p!, tf.mul(rate, g!)), grads),
    state,
  }),
}

/**
 * Rows of tokens below `vocabulary` for groups of the sizes given, with completions of 1 to 6
 * tokens.
 */
export const rowsOf = (vocabulary: number, groupSizes: readonly number[], seed = 1): TrainingRows => {
  const key = keyFromSeed(seed)
  const ids = (name: string, i: number, most: number): number[] =>
    Array.from({ length: 1 + uniformInteger(child(child(key, name), i), most) }, (_, t) =>
      uniformInteger(child(child(key, name), i), vocabulary, t + 1),
    )
  const groupOf = groupSizes.flatMap((size, group) => Array<number>(size).fill(group))
  const completions = groupOf.map((_, i) => ids('completion', i, 6))
  const near = (name: string) =>
    completions.map((row, i) => normals(child(child(key, name), i), row.length).map((x) => x * 0.5 - 3))
  return {
    prompts: groupOf.map((group) => [...ids('prompt', group, 9), group]),
    completions,
    oldLogProbs: near('old'),
    refLogProbs: near('reference'),
    advantages: groupOf.map((_, i) => normals(child(key, 'advantage'), groupOf.length)[i]!),
    temperature: 1,
  }
}

/** Rows as one tensor `[B, T]`, with zeros behind those that are shorter. */
export const paddedTensor = (rows: readonly ArrayLike<number>[]): tf.Tensor => {
  const length = Math.max(...rows.map((row) => row.length))
  return tf.tensor2d(rows.map((row) => Array.from({ length }, (_, t) => row[t] ?? 0)))
}
