/** The rows of any training step: checked, divided into micro-batches, and converted to tensors. */
import * as tf from '@tensorflow/tfjs-core'
import { sharedRows } from '../../data/completions.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { filledBatch, type PackedCompletions, packCompletions, varyingPlaces } from '../../modules/transformer/pack.js'
import type { CompletionBatch } from '../../modules/transformer/score.js'
import type { LossRows, RowList } from '../../objectives/lossRows.js'
import type { LossCounts } from '../../objectives/tokenLosses/aggregation.js'

/**
 * The rows of an optimizer step. Micro-batches do not split the `shared` adjacent rows of a prompt.
 */
export type StepRows = LossRows & Required<Pick<LossRows, 'shared'>>

/** A micro-batch as tensors: B rows, T positions. */
export interface RowTensors {
  readonly batch: CompletionBatch
  /** `[]` */
  readonly inverseTemperature: tf.Tensor
  /** `[B, T]` */
  readonly mask: tf.Tensor
  /**
   * `[B, T]`, or `[B, 1]` for lists with one number per row. Entries made for a micro-batch have
   * their own shapes.
   */
  readonly lists: Readonly<Record<string, tf.Tensor>>
  /** Counts of the whole mini-batch. */
  readonly counts: LossCounts
}

/** Options of functions of a micro-batch: one graph serves all numbers of computed places. */
export const OF_ANY_PLACES = { memory: 'automatic', varying: varyingPlaces } as const

const isPerRow = (list: RowList): list is readonly number[] => typeof list[0] === 'number'

/** Adds the number of rows that share a prompt. */
export const stepRows = (rows: LossRows): StepRows => ({ ...rows, shared: rows.shared ?? sharedRows(rows.prompts) })

const mapLists = <X>({ lists }: LossRows, f: (list: RowList) => X): Readonly<Record<string, X>> =>
  Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, f(list)]))

/** Returns the problem of a list, if any. */
const misfit = (name: string, list: RowList, completions: LossRows['completions']): readonly string[] => {
  if (list.length !== completions.length) return [`${completions.length} completions but ${list.length} ${name}`]
  if (isPerRow(list)) return []
  const i = list.findIndex((row, b) => row.length !== completions[b]!.length)
  return i < 0 ? [] : [`row ${i} has ${completions[i]!.length} tokens but ${list[i]!.length} ${name}`]
}

/** Returns the first element of the rows that violates the condition. */
const firstWrong = (
  rows: readonly ArrayLike<number>[],
  holds: (x: number) => boolean,
): { readonly row: number; readonly value: number } | undefined => {
  for (const [row, list] of rows.entries())
    for (let t = 0; t < list.length; t++) if (!holds(list[t]!)) return { row, value: list[t]! }
  return undefined
}

/**
 * Throws RangeError that lists all problems: no rows, lists that do not match, tokens outside the
 * vocabulary, invalid masks.
 */
export const checkTokenRows = (name: string, rows: LossRows, vocabularySize: number): void => {
  const { prompts, completions, masks, temperature } = rows
  if (completions.length === 0) throw new RangeError(`${name}: there are no rows to train on`)
  const isToken = (id: number): boolean => Number.isInteger(id) && id >= 0 && id < vocabularySize
  const badToken = firstWrong([...prompts, ...completions], isToken)
  const badMask = firstWrong(masks ?? [], (x) => x === 0 || x === 1)
  const problems = [
    ...(prompts.length === completions.length
      ? []
      : [`${completions.length} completions but ${prompts.length} prompts`]),
    ...(masks === undefined ? [] : misfit('masks', masks, completions)),
    ...Object.entries(rows.lists).flatMap(([list, values]) => misfit(list, values, completions)),
    ...(badToken === undefined ? [] : [`token ${badToken.value} is not in the vocabulary of ${vocabularySize}`]),
    ...(badMask === undefined ? [] : [`row ${badMask.row} has ${badMask.value} in its mask, not 0 or 1`]),
    ...(temperature > 0 && Number.isFinite(temperature) ? [] : [`temperature must be positive, got ${temperature}`]),
  ]
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
}

/** Counts the trained tokens. */
export const learnedTokens = ({ completions, masks }: Pick<LossRows, 'completions' | 'masks'>): number =>
  (masks ?? completions).reduce(
    (sum, row) => sum + (masks === undefined ? row.length : Array.from(row).reduce((n, on) => n + on, 0)),
    0,
  )

const padded = (rows: readonly ArrayLike<number>[], { completionLength }: PackedCompletions): tf.Tensor => {
  const values = new Float32Array(rows.length * completionLength)
  for (const [i, row] of rows.entries()) values.set(row, i * completionLength)
  return tf.tensor2d(values, [rows.length, completionLength])
}

/**
 * Makes the mask and list tensors of rows, without the model's inputs. They belong to the enclosing
 * scope.
 */
export const listTensors = (
  rows: LossRows,
  packed: PackedCompletions = packCompletions(rows),
): Pick<RowTensors, 'mask' | 'lists'> => {
  const { completions, masks } = rows
  const count = completions.length
  return {
    mask: masks ? padded(masks, packed) : tf.tensor2d(packed.completionMask, [count, packed.completionLength]),
    lists: mapLists(rows, (list) => (isPerRow(list) ? tf.tensor2d([...list], [count, 1]) : padded(list, packed))),
  }
}

/**
 * Makes the tensors of rows, with prompts shared by their groups. They belong to the enclosing
 * scope.
 */
export const tensorsOfRows = (rows: LossRows, config: DecoderConfig): Omit<RowTensors, 'counts'> => {
  const packed = packCompletions(rows)
  return {
    batch: filledBatch(packed, config),
    ...listTensors(rows, packed),
    inverseTemperature: tf.scalar(1 / rows.temperature),
  }
}

/** Returns the numbers of a tensor `[B, T]`: for each row, as many as its completion has tokens. */
export const tokenNumbers = (
  values: tf.Tensor,
  completions: readonly ArrayLike<number>[],
): readonly ArrayLike<number>[] => {
  const [all, width] = [values.dataSync(), values.shape[1]!]
  return completions.map(({ length }, row) => all.slice(row * width, row * width + length))
}
