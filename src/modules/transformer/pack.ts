/** Padding of ragged prompts and completions to the arrays of compiled functions. */
import * as tf from '@tensorflow/tfjs-core'
import type { VaryingAxes } from '../../engine/jit.js'
import type { DecoderConfig } from './config.js'
import { filledPlaces } from './filledPlaces.js'
import { rotaryTables } from './rotaryTables.js'
import type { CompletionBatch } from './score.js'

/** Lengths are padded to multiples of this, so that few graphs are compiled. */
export const CAPACITY_STEP = 16

/** Neighboring rows with equal prompts, as one prompt with a group of completions. */
export interface PromptGroups {
  /** One row of token ids per group. */
  readonly prompts: readonly ArrayLike<number>[]
  /** Number of completions per prompt. */
  readonly group: number
}

const sameIds = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Returns the start of each run of equal neighbors. */
export const runStarts = (rows: readonly ArrayLike<number>[]): readonly number[] =>
  rows.flatMap((row, i) => (i > 0 && sameIds(row, rows[i - 1]!) ? [] : [i]))

/**
 * Finds the largest group size for which the rows are runs of equal prompts. It is 1 if runs have
 * different lengths.
 *
 * @example
 * groupPrompts([[1], [1], [2], [2]]).group // 2
 */
export const groupPrompts = (rows: readonly ArrayLike<number>[]): PromptGroups => {
  const starts = runStarts(rows)
  const lengths = starts.map((start, i) => (starts[i + 1] ?? rows.length) - start)
  const [group = 1] = lengths
  if (!lengths.every((length) => length === group)) return { prompts: rows, group: 1 }
  return { prompts: starts.map((start) => rows[start]!), group }
}

/** Prompts padded on the left to one length. */
interface PaddedPrompts {
  readonly length: number
  readonly ids: Int32Array
  readonly mask: Float32Array
  readonly positions: Int32Array
}

/** Pads to a multiple of `CAPACITY_STEP`, so that few graphs are compiled. */
const padPrompts = (prompts: readonly ArrayLike<number>[]): PaddedPrompts => {
  const longest = prompts.reduce((n, prompt) => Math.max(n, prompt.length), 1)
  const length = Math.ceil(longest / CAPACITY_STEP) * CAPACITY_STEP
  const size = prompts.length * length
  const [ids, mask, positions] = [new Int32Array(size), new Float32Array(size), new Int32Array(size)]
  for (const [row, prompt] of prompts.entries()) {
    const start = row * length + length - prompt.length
    for (let i = 0; i < prompt.length; i++) {
      ids[start + i] = prompt[i]!
      mask[start + i] = 1
      positions[start + i] = i
    }
  }
  return { length, ids, mask, positions }
}

export interface PackedCompletions {
  readonly prompts: number
  readonly group: number
  readonly promptLength: number
  readonly completionLength: number
  readonly promptIds: Int32Array
  readonly promptMask: Float32Array
  readonly promptPositions: Int32Array
  readonly completionIds: Int32Array
  readonly completionPositions: Int32Array
  /** 1 for a real completion token. */
  readonly completionMask: Float32Array
}

/**
 * Pads prompts on the left and completions on the right, both to multiples of `CAPACITY_STEP`, so
 * that few graphs are compiled.
 *
 * Errors   throws RangeError unless there are `group` completions for each prompt.
 */
export const packCompletions = (
  { prompts, group }: PromptGroups,
  completions: readonly ArrayLike<number>[],
): PackedCompletions => {
  if (completions.length !== prompts.length * group) {
    throw new RangeError(
      `packCompletions: ${prompts.length} prompts x ${group} completions expected, got ${completions.length} completions`,
    )
  }
  const padded = padPrompts(prompts)
  const longest = completions.reduce((n, row) => Math.max(n, row.length), 1)
  const length = Math.ceil(longest / CAPACITY_STEP) * CAPACITY_STEP
  const size = completions.length * length
  const [ids, positions, mask] = [new Int32Array(size), new Int32Array(size), new Float32Array(size)]
  for (const [row, completion] of completions.entries()) {
    const first = prompts[Math.floor(row / group)]!.length
    for (let t = 0; t < length; t++) {
      ids[row * length + t] = completion[t] ?? 0
      positions[row * length + t] = first + t
      mask[row * length + t] = t < completion.length ? 1 : 0
    }
  }
  return {
    prompts: prompts.length,
    group,
    promptLength: padded.length,
    completionLength: length,
    promptIds: padded.ids,
    promptMask: padded.mask,
    promptPositions: padded.positions,
    completionIds: ids,
    completionPositions: positions,
    completionMask: mask,
  }
}

/** Limits the positions of padding to the table of learned positions. */
const tablePositions = (positions: Int32Array, mask: Float32Array, config: DecoderConfig): Int32Array => {
  if (config.learnedPositions === null) return positions
  const last = config.maxPositions - 1
  const beyond = positions.findIndex((position, i) => position > last && mask[i] === 1)
  if (beyond >= 0) {
    throw new RangeError(
      `completionBatch: a sequence has position ${positions[beyond]!}, the model has embeddings of ${config.maxPositions} positions`,
    )
  }
  return positions.map((position) => Math.min(position, last))
}

/**
 * Names the arguments of varying size in a batch of `filledBatch`, for `jit`, so that one graph
 * serves all numbers of places.
 */
export const varyingPlaces = ({ batch }: { readonly batch: CompletionBatch }): readonly VaryingAxes[] =>
  Object.entries(batch.filled ?? {}).map(([name, { places }]) => ({ tensor: places, axes: [name] }))

/**
 * Makes the tensors of packed completions. They belong to the enclosing scope.
 *
 * Errors   throws RangeError for a sequence longer than the learned positions of the model.
 */
export const completionBatch = (packed: PackedCompletions, config: DecoderConfig): CompletionBatch => {
  const promptShape: [number, number] = [packed.prompts, packed.promptLength]
  const shape: [number, number, number] = [packed.prompts, packed.group, packed.completionLength]
  const { completionPositions: positions, completionMask: mask } = packed
  const sequenceLength = positions.reduce((n, position, i) => (mask[i] === 1 ? Math.max(n, position + 1) : n), 1)
  return {
    promptIds: tf.tensor2d(packed.promptIds, promptShape, 'int32'),
    promptMask: tf.tensor2d(packed.promptMask, promptShape),
    promptPositions: tf.tensor2d(packed.promptPositions, promptShape, 'int32'),
    completionIds: tf.tensor3d(packed.completionIds, shape, 'int32'),
    completionPositions: tf.tensor3d(tablePositions(positions, mask, config), shape, 'int32'),
    rotary: rotaryTables(config, packed.promptLength + packed.completionLength, { sequenceLength }),
  }
}

/**
 * Makes the tensors of packed completions, of which only places with tokens, and a few others, are
 * computed outside of attention. Gradients must come from tokens only. To compile functions of it,
 * use `varyingPlaces`.
 *
 * Errors   those of `completionBatch`.
 */
export const filledBatch = (packed: PackedCompletions, config: DecoderConfig): CompletionBatch => {
  const [prompts, completions] = [filledPlaces(packed.promptMask), filledPlaces(packed.completionMask)]
  return {
    ...completionBatch(packed, config),
    filled: { ...(prompts && { prompts }), ...(completions && { completions }) },
  }
}
