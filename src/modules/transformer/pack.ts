/** Padding of ragged prompts and completions to the arrays of compiled functions. */
import type { VaryingAxes } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { type Completions, distinctPrompts, sharedRows } from '../../data/completions.js'
import type { DecoderConfig } from './config.js'
import { filledPlaces } from './filledPlaces.js'
import { rotaryTables } from './rotaryTables.js'
import type { CompletionBatch } from './score.js'

/** Lengths are padded to multiples of this, so that few graphs are compiled. */
export const CAPACITY_STEP = 16

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
 * Throws RangeError unless there is a prompt for each completion and `shared` divides the number.
 */
export const checkCompletions = (
  caller: string,
  { prompts, completions, shared }: Omit<Required<Completions>, 'temperature'>,
): void => {
  if (completions.length === prompts.length && completions.length % shared === 0) return
  throw new RangeError(
    `${caller}: a prompt for each completion and groups of ${shared} expected, got ${prompts.length} prompts and ${completions.length} completions`,
  )
}

/**
 * Pads prompts on the left and completions on the right, both to multiples of `CAPACITY_STEP`, so
 * that few graphs are compiled. Prompts that rows share are padded once.
 *
 * Errors   throws RangeError unless there is a prompt for each completion, and `shared` divides
 *          their number.
 */
export const packCompletions = (rows: Omit<Completions, 'temperature'>): PackedCompletions => {
  const { completions, shared: group = sharedRows(rows.prompts) } = rows
  checkCompletions('packCompletions', { ...rows, shared: group })
  const prompts = distinctPrompts(rows.prompts, group)
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
 * Pads rows and makes their tensors. They belong to the enclosing scope.
 *
 * Errors   throws RangeError for a sequence longer than the learned positions of the model, and
 *          unless there is a prompt for each completion.
 */
export const completionBatch = (rows: Omit<Completions, 'temperature'>, config: DecoderConfig): CompletionBatch =>
  packedBatch(packCompletions(rows), config)

/** Makes the tensors of packed completions. Throws as `completionBatch`. */
export const packedBatch = (packed: PackedCompletions, config: DecoderConfig): CompletionBatch => {
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
 * Errors   as `completionBatch`.
 */
export const filledBatch = (packed: PackedCompletions, config: DecoderConfig): CompletionBatch => {
  const [prompts, completions] = [filledPlaces(packed.promptMask), filledPlaces(packed.completionMask)]
  return {
    ...packedBatch(packed, config),
    filled: { ...(prompts && { prompts }), ...(completions && { completions }) },
  }
}
