/** The rows that a training step learns from: checked, cut into micro-batches, as tensors. */
import * as tf from '@tensorflow/tfjs'
import { child, type Key, uniforms } from '../core/key.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { completionBatch, groupPrompts, type PackedCompletions, packCompletions } from '../modules/transformer/pack.js'
import { promptsPerRun } from '../modules/transformer/scorer.js'

/** Rows to learn from, on the host. All lists have one element for each row. */
export interface TrainingRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token, under the policy that the ratio is taken against: the one that sampled, or the trainer's own before the update. */
  readonly oldLogProbs: readonly ArrayLike<number>[]
  /** Per token, under the policy that sampled, where `oldLogProbs` are others. */
  readonly behaviorLogProbs?: readonly ArrayLike<number>[]
  readonly refLogProbs?: readonly ArrayLike<number>[]
  /** Per token: 1 for what is learned, 0 for what only stands between, such as the results of tools. Default: everything is learned. */
  readonly masks?: readonly ArrayLike<number>[]
  /** Per token: its objective is multiplied by it. Default 1. */
  readonly weights?: readonly ArrayLike<number>[]
  /** Per token, uniform in [0, 1), for objectives that choose at random: see `withNoise`. */
  readonly noise?: readonly ArrayLike<number>[]
  /** One for each row, or one for each token of each row. */
  readonly advantages: readonly number[] | readonly ArrayLike<number>[]
  /** At which the rows were sampled: their log-probabilities are compared at it. */
  readonly temperature: number
}

/** What each token may have besides its log-probability. */
const OPTIONAL = ['behaviorLogProbs', 'refLogProbs', 'masks', 'weights', 'noise'] as const

type OptionalRows = Pick<TrainingRows, (typeof OPTIONAL)[number]>

/** The optional lists that there are, each changed. */
const mapOptional = <X>(
  rows: TrainingRows,
  f: (list: readonly ArrayLike<number>[]) => X,
): { readonly [K in keyof OptionalRows]: X } =>
  Object.fromEntries(
    OPTIONAL.flatMap((name) => {
      const list = rows[name]
      return list === undefined ? [] : [[name, f(list)]]
    }),
  ) // the same names

/** Rows `from .. to - 1` of each list. */
const rowsBetween = (rows: TrainingRows, from: number, to: number): TrainingRows => ({
  temperature: rows.temperature,
  prompts: rows.prompts.slice(from, to),
  completions: rows.completions.slice(from, to),
  oldLogProbs: rows.oldLogProbs.slice(from, to),
  advantages: rows.advantages.slice(from, to) as TrainingRows['advantages'], // of the same kind
  ...mapOptional(rows, (list) => list.slice(from, to)),
})

/** The advantages of each token, or nothing where there is one for each row. */
const tokenAdvantages = ({ advantages }: TrainingRows): readonly ArrayLike<number>[] | undefined =>
  advantages.length > 0 && typeof advantages[0] !== 'number'
    ? (advantages as readonly ArrayLike<number>[]) // not numbers
    : undefined

/** Random numbers for objectives that choose at random, from a key: those of row i are of its child i, whatever the micro-batches. */
export const withNoise = (rows: TrainingRows, key: Key): TrainingRows => ({
  ...rows,
  noise: rows.completions.map((row, i) => uniforms(child(key, i), row.length)),
})

const padded = (rows: readonly ArrayLike<number>[], packed: PackedCompletions): tf.Tensor => {
  const values = new Float32Array(rows.length * packed.completionLength)
  for (const [i, row] of rows.entries()) values.set(row, i * packed.completionLength)
  return tf.tensor2d(values, [rows.length, packed.completionLength])
}

/** The tensors of rows, prompts shared by neighbors. */
export const tensorsOfRows = (rows: TrainingRows, config: DecoderConfig) => {
  const packed = packCompletions(groupPrompts(rows.prompts), rows.completions)
  const { masks, ...optional } = mapOptional(rows, (list) => padded(list, packed))
  const each = tokenAdvantages(rows)
  return {
    batch: completionBatch(packed, config),
    mask: masks ?? tf.tensor2d(packed.completionMask, [rows.completions.length, packed.completionLength]),
    oldLogProbs: padded(rows.oldLogProbs, packed),
    ...optional,
    advantages: each
      ? padded(each, packed)
      : tf.tensor2d(Array.from(rows.advantages as readonly number[]), [rows.advantages.length, 1]), // numbers
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
  const { oldLogProbs } = rows
  const lists = { oldLogProbs, advantages: tokenAdvantages(rows), ...mapOptional(rows, (list) => list) }
  for (const [name, list] of Object.entries(lists)) {
    const i = list?.findIndex((row, b) => row.length !== rows.completions[b]!.length) ?? -1
    if (i >= 0)
      throw new RangeError(
        `trainStep: row ${i} has ${rows.completions[i]!.length} tokens but ${list![i]!.length} ${name}`, // found in it
      )
  }
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
