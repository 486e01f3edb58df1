/** The rows that a training step learns from: checked, cut into micro-batches, as tensors. */
import * as tf from '@tensorflow/tfjs'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { completionBatch, groupPrompts, type PackedCompletions, packCompletions } from '../modules/transformer/pack.js'
import { promptsPerRun } from '../modules/transformer/scorer.js'

/** Rows to learn from, on the host. All lists have one element for each row. */
export interface TrainingRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token, under the policy that sampled. */
  readonly oldLogProbs: readonly ArrayLike<number>[]
  readonly refLogProbs?: readonly ArrayLike<number>[]
  /** Per token: 1 for what is learned, 0 for what only stands between, such as the results of tools. Default: everything is learned. */
  readonly masks?: readonly ArrayLike<number>[]
  /** One for each row. */
  readonly advantages: readonly number[]
  /** At which the rows were sampled: their log-probabilities are compared at it. */
  readonly temperature: number
}

/** Rows `from .. to - 1` of each list. */
const rowsBetween = (rows: TrainingRows, from: number, to: number): TrainingRows => ({
  temperature: rows.temperature,
  prompts: rows.prompts.slice(from, to),
  completions: rows.completions.slice(from, to),
  oldLogProbs: rows.oldLogProbs.slice(from, to),
  advantages: rows.advantages.slice(from, to),
  ...(rows.refLogProbs && { refLogProbs: rows.refLogProbs.slice(from, to) }),
  ...(rows.masks && { masks: rows.masks.slice(from, to) }),
})

const padded = (rows: readonly ArrayLike<number>[], packed: PackedCompletions): tf.Tensor => {
  const values = new Float32Array(rows.length * packed.completionLength)
  for (const [i, row] of rows.entries()) values.set(row, i * packed.completionLength)
  return tf.tensor2d(values, [rows.length, packed.completionLength])
}

/** The tensors of rows, prompts shared by neighbors. */
export const tensorsOfRows = (rows: TrainingRows, config: DecoderConfig) => {
  const packed = packCompletions(groupPrompts(rows.prompts), rows.completions)
  return {
    batch: completionBatch(packed, config),
    mask: rows.masks
      ? padded(rows.masks, packed)
      : tf.tensor2d(packed.completionMask, [rows.completions.length, packed.completionLength]),
    oldLogProbs: padded(rows.oldLogProbs, packed),
    ...(rows.refLogProbs && { refLogProbs: padded(rows.refLogProbs, packed) }),
    inverseTemperature: tf.scalar(1 / rows.temperature),
  }
}

/** Errors: throws RangeError for no rows, and for rows that do not fit each other. */
export const checkRows = (rows: TrainingRows): void => {
  const count = rows.completions.length
  if (count === 0) throw new RangeError('trainStep: there are no rows to learn from')
  for (const [name, list] of Object.entries(rows)) {
    if (Array.isArray(list) && list.length !== count) {
      throw new RangeError(`trainStep: ${count} completions but ${list.length} ${name}`)
    }
  }
  const gap = rows.masks?.findIndex((row, i) => row.length !== rows.completions[i]!.length) ?? -1
  if (gap >= 0) throw new RangeError(`trainStep: the mask of row ${gap} has another length than its tokens`)
  const short = rows.refLogProbs?.findIndex((row, i) => row.length !== rows.completions[i]!.length) ?? -1
  if (short >= 0) throw new RangeError(`trainStep: row ${short} has another number of refLogProbs than of tokens`)
  const uneven = rows.completions.findIndex((row, i) => row.length !== rows.oldLogProbs[i]!.length)
  if (uneven >= 0)
    throw new RangeError(
      `trainStep: row ${uneven} has ${rows.completions[uneven]!.length} tokens but ${rows.oldLogProbs[uneven]!.length} log-probabilities`,
    )
}

/** Rows in runs of about `tokens` tokens, whole groups each. The runs together are the rows, in order. */
export const microBatches = (rows: TrainingRows, tokens: number): readonly TrainingRows[] => {
  const groups = groupPrompts(rows.prompts)
  const size = promptsPerRun(groups, rows.completions, tokens) * groups.group
  return Array.from({ length: Math.ceil(rows.completions.length / size) }, (_, i) =>
    rowsBetween(rows, i * size, Math.min((i + 1) * size, rows.completions.length)),
  )
}

/** The tokens that are learned. */
export const learnedTokens = ({ completions, masks }: Pick<TrainingRows, 'completions' | 'masks'>): number =>
  (masks ?? completions).reduce(
    (sum, row) => sum + (masks === undefined ? row.length : Array.from(row).reduce((n, on) => n + on, 0)),
    0,
  )
