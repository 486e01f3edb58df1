/** Rows for training steps, drawn at random, and the plainest optimizer. */
import { child, keyFromSeed, normals, uniformInteger } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { LossRows, RowList } from '../../src/objectives/lossRows.js'
import { mapNamed, type Optimizer } from '../../src/objectives/updates/optimizer.js'

type Numbers = readonly ArrayLike<number>[]

/** Rows of a policy loss with their lists beside the completions. */
export interface TrainingRows {
  readonly prompts: Numbers
  readonly completions: Numbers
  readonly oldLogProbs: Numbers
  readonly behaviorLogProbs?: Numbers
  readonly refLogProbs?: Numbers
  readonly masks?: Numbers
  readonly weights?: Numbers
  readonly noise?: Numbers
  readonly advantages: RowList
  readonly temperature: number
}

interface Completions {
  readonly prompts: Numbers
  readonly completions: Numbers
  readonly masks?: Numbers
  readonly temperature?: number
}

type Lists = Readonly<Record<string, RowList | undefined>>

/** Returns rows of a loss from lists beside their completions. */
export const lossRows = <R extends Completions>({
  prompts,
  completions,
  masks,
  temperature = 1,
  ...lists
}: R): LossRows => ({
  ...{ prompts, completions, temperature },
  ...(masks && { masks }),
  lists: Object.fromEntries(
    Object.entries(lists as unknown as Lists).flatMap(([name, list]) => (list === undefined ? [] : [[name, list]])), // all others are lists
  ),
})

/** Returns the lists of rows beside their completions. */
export const flatRows = ({ lists, kind: _, ...rows }: LossRows): TrainingRows =>
  ({ ...rows, ...lists }) as unknown as TrainingRows // of policy losses

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

/** Interleaves the rows of two tensors `[B, T]`: `[2 B, T]`. */
export const interleavedTensors = (chosen: tf.Tensor, rejected: tf.Tensor): tf.Tensor => {
  const [rows, width] = chosen.shape as [number, number] // [B, T]
  return tf.reshape(tf.stack([chosen, rejected], 1), [2 * rows, width])
}
