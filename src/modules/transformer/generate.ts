/** Batched sampling with a key-value cache; the prompt of a group is computed once. */
import * as tf from '@tensorflow/tfjs'
import { child, type Key, uniform } from '../../core/key.js'
import type { StopReason } from '../../data/policy.js'
import { jit } from '../../engine/jit.js'
import { own, scope } from '../../engine/scope.js'
import type { DecoderConfig } from './config.js'
import { forwardSegment, type LayerCache, logitsOf } from './forward.js'
import { CAPACITY_STEP, cacheTensors, grow, type KeyValueCache, makeCache, writeStep } from './keyValueCache.js'
import type { Params } from './params.js'
import { type RotaryTables, rotaryTables } from './rotaryTables.js'
import { chooseToken, type TokenChoice } from './sample.js'
import { biasOf, lastHidden, promptBiases, promptKeyBias } from './score.js'

export interface GenerationOptions extends TokenChoice {
  readonly maxNewTokens: number
  /** Never end before this many tokens: stop tokens cannot be sampled until then. */
  readonly minNewTokens?: number
  readonly stopTokens: readonly number[]
}

/** What was sampled for one row. The stop token is part of it. */
export interface Completion {
  readonly ids: Int32Array
  /** Log-probability of each id at the temperature used (at 1 for temperature 0), before top-k and top-p. Nats. */
  readonly logProbs: Float32Array
  readonly stopReason: StopReason
}

export interface GenerationRequest {
  /** Token ids of each different prompt, none empty. */
  readonly prompts: readonly ArrayLike<number>[]
  /** Completions for each prompt. */
  readonly group: number
  /** One key for each completion, prompt by prompt. */
  readonly keys: readonly Key[]
  readonly options: GenerationOptions
}

interface PrefillInput {
  readonly params: Params
  readonly ids: tf.Tensor
  readonly mask: tf.Tensor
  readonly positions: tf.Tensor
  readonly rotary: RotaryTables
  readonly inverseTemperature: tf.Tensor
}

interface DecodeInput {
  readonly params: Params
  readonly ids: tf.Tensor
  readonly positions: tf.Tensor
  readonly promptLayers: readonly LayerCache[]
  readonly promptMask: tf.Tensor
  /** `[P, 1, Tp]` int32 */
  readonly promptPositions: tf.Tensor
  readonly ownLayers: readonly LayerCache[]
  /** `[C]`: 1 for a place that holds a token. */
  readonly ownMask: tf.Tensor
  /** `[P, 1, C]` int32 */
  readonly ownPositions: tf.Tensor
  readonly rotary: RotaryTables
  readonly inverseTemperature: tf.Tensor
}

/** Log-probabilities of the next token, `[N, V]`, and the keys and values of the tokens that were put in. */
interface NextToken {
  readonly logProbs: tf.Tensor
  readonly layers: readonly LayerCache[]
}

/** The arithmetic of `gatherLogProbs` for all tokens, operation by operation, so that what is recorded is what is scored (see docs/decisions, equal log-probs). */
const nextLogProbs = (params: Params, config: DecoderConfig, hidden: tf.Tensor, inverse: tf.Tensor): tf.Tensor => {
  const logits = tf.mul(logitsOf(params, config, hidden), inverse)
  const shifted = tf.sub(logits, tf.max(logits, -1, true))
  return tf.sub(shifted, tf.log(tf.sum(tf.exp(shifted), -1, true)))
}

const prefill =
  (config: DecoderConfig) =>
  (input: PrefillInput): NextToken => {
    const [prompts, length] = input.ids.shape as [number, number] // [P, Tp] by contract
    const { hidden, layers } = forwardSegment(input.params, config, {
      ids: tf.reshape(input.ids, [prompts, 1, length]),
      positions: tf.reshape(input.positions, [prompts, 1, length]),
      ...promptBiases(input.mask),
      past: [],
      rotary: input.rotary,
    })
    const last = lastHidden(hidden, prompts)
    return { logProbs: nextLogProbs(input.params, config, last, input.inverseTemperature), layers }
  }

const decode =
  (config: DecoderConfig) =>
  (input: DecodeInput): NextToken => {
    const capacity = input.ownMask.shape[0]!
    const { hidden, layers } = forwardSegment(input.params, config, {
      ids: input.ids,
      positions: input.positions,
      past: [
        { layers: input.promptLayers, bias: promptKeyBias(input.promptMask), positions: input.promptPositions },
        {
          layers: input.ownLayers,
          bias: biasOf(tf.reshape(input.ownMask, [1, 1, 1, 1, 1, capacity])),
          positions: input.ownPositions,
        },
      ],
      rotary: input.rotary,
    })
    return { logProbs: nextLogProbs(input.params, config, hidden, input.inverseTemperature), layers }
  }

/** Compiled generation for one architecture. */
export interface CompletionGenerator {
  /**
   * Samples `group` completions of each prompt.
   *
   * Errors   throws RangeError for an empty prompt, a group below 1, a key count that does not fit, or a prompt that leaves
   *          no room below the model's last position.
   * Effects  none besides compiling; equal arguments give equal completions, whatever else is in the batch.
   * Cost     one pass over each prompt, then one decoding step for each token of the longest completion.
   */
  readonly generate: (
    params: Params,
    request: GenerationRequest,
    pause: () => Promise<void>,
  ) => Promise<readonly Completion[]>
  readonly release: () => void
}

/** Prompts padded on the left to one length. */
export interface PaddedPrompts {
  readonly length: number
  readonly ids: Int32Array
  readonly mask: Float32Array
  readonly positions: Int32Array
}

/** Pads to a multiple of `CAPACITY_STEP`, so that few graphs are compiled. */
export const padPrompts = (prompts: readonly ArrayLike<number>[]): PaddedPrompts => {
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

const checkRequest = (config: DecoderConfig, { prompts, group, keys, options }: GenerationRequest): void => {
  if (!Number.isInteger(group) || group < 1) throw new RangeError(`generate: group must be at least 1, got ${group}`)
  if (keys.length !== prompts.length * group) {
    throw new RangeError(
      `generate: ${prompts.length} prompts x ${group} completions need as many keys, got ${keys.length}`,
    )
  }
  for (const [i, prompt] of prompts.entries()) {
    if (prompt.length === 0) throw new RangeError(`generate: prompt ${i} is empty`)
    if (prompt.length + options.maxNewTokens > config.maxPositions) {
      throw new RangeError(
        `generate: prompt ${i} has ${prompt.length} tokens; with ${options.maxNewTokens} new ones it passes the model's limit of ${config.maxPositions}`,
      )
    }
  }
}

interface Row {
  readonly ids: number[]
  readonly logProbs: number[]
  stopReason: StopReason | null
}

/**
 * Samples one token for each unfinished row; finished rows repeat their last token, which nobody reads. `distributions` has one set of
 * log-probabilities for each row, or for as many neighboring rows as share one.
 */
const advance = (rows: readonly Row[], distributions: readonly Float32Array[], request: GenerationRequest): void => {
  const { options, keys } = request
  const sharing = rows.length / distributions.length
  for (const [i, row] of rows.entries()) {
    if (row.stopReason !== null) continue
    const step = row.ids.length
    const mayStop = step >= (options.minNewTokens ?? 0)
    const given = distributions[Math.floor(i / sharing)]!
    const point = uniform(keys[i]!, step)
    const id = chooseToken(given, options, mayStop ? { point } : { point, banned: options.stopTokens })
    row.ids.push(id)
    row.logProbs.push(given[id]!)
    if (mayStop && options.stopTokens.includes(id)) row.stopReason = 'stop'
    else if (row.ids.length >= options.maxNewTokens) row.stopReason = 'length'
  }
}

/** The last axis of a float32 tensor, row by row: views of its values. */
const rowsOf = (tensor: tf.Tensor): readonly Float32Array[] => {
  const width = tensor.shape.at(-1)!
  const values = tensor.dataSync() as Float32Array // float32
  return Array.from({ length: values.length / width }, (_, i) => values.subarray(i * width, (i + 1) * width))
}

const readStep = (
  layers: readonly LayerCache[],
): readonly { readonly keys: Float32Array; readonly values: Float32Array }[] =>
  layers.map(({ keys, values }) => ({
    keys: keys.dataSync() as Float32Array, // float32 tensors
    values: values.dataSync() as Float32Array,
  }))

/** Positions of the places after each prompt, `[P, 1, C]` int32. */
const ownPositions = (prompts: readonly ArrayLike<number>[], capacity: number): tf.Tensor =>
  tf.tensor3d(
    Int32Array.from(
      { length: prompts.length * capacity },
      (_, i) => prompts[Math.floor(i / capacity)]!.length + (i % capacity),
    ),
    [prompts.length, 1, capacity],
    'int32',
  )

/** Makes a generator; graphs are compiled when first needed and kept. */
export const makeGenerator = (config: DecoderConfig): CompletionGenerator => {
  const compiledPrefill = jit(prefill(config))
  const compiledDecode = jit(decode(config))

  const generate: CompletionGenerator['generate'] = async (params, request, pause) => {
    checkRequest(config, request)
    const { prompts, group, options } = request
    const padded = padPrompts(prompts)
    const count = prompts.length
    const rows = request.keys.map((): Row => ({ ids: [], logProbs: [], stopReason: null }))
    const shared = { shape: [count, padded.length] as [number, number] }
    const table = Math.ceil((padded.length + options.maxNewTokens) / CAPACITY_STEP) * CAPACITY_STEP
    const inverse = options.temperature === 0 ? 1 : 1 / options.temperature

    using fixed = own(
      scope(() => ({
        mask: tf.tensor2d(padded.mask, shared.shape),
        positions: tf.tensor2d(padded.positions, shared.shape, 'int32'),
        // no sequence is longer, whatever it is padded to
        rotary: rotaryTables(config, table, { sequenceLength: Math.min(table, config.maxPositions) }),
        inverseTemperature: tf.scalar(inverse),
      })),
    )
    using prompt = own(
      scope(() =>
        compiledPrefill({
          params,
          ...fixed.value,
          ids: tf.tensor2d(padded.ids, shared.shape, 'int32'),
        }),
      ),
    )
    advance(rows, rowsOf(prompt.value.logProbs), request)

    let cache: KeyValueCache = makeCache(config, count, group)
    for (let step = 0; rows.some((row) => row.stopReason === null); step++) {
      await pause()
      if (step === cache.capacity) cache = grow(cache)
      const next = scope(() => {
        const result = compiledDecode({
          params,
          rotary: fixed.value.rotary,
          inverseTemperature: fixed.value.inverseTemperature,
          promptMask: fixed.value.mask,
          promptPositions: tf.expandDims(fixed.value.positions, 1),
          promptLayers: prompt.value.layers,
          ids: tf.tensor3d(
            Int32Array.from(rows, (row) => row.ids[row.ids.length - 1]!),
            [count, group, 1],
            'int32',
          ),
          positions: tf.tensor3d(
            Int32Array.from(rows, (_, i) => prompts[Math.floor(i / group)]!.length + step),
            [count, group, 1],
            'int32',
          ),
          ownLayers: cacheTensors(cache),
          ownMask: tf.tensor1d(Float32Array.from({ length: cache.capacity }, (_, i) => (i < step ? 1 : 0))),
          ownPositions: ownPositions(prompts, cache.capacity),
        })
        return { distributions: rowsOf(result.logProbs), layers: readStep(result.layers) }
      })
      writeStep(cache, step, next.layers)
      advance(rows, next.distributions, request)
    }
    return rows.map(({ ids, logProbs, stopReason }) => ({
      ids: Int32Array.from(ids),
      logProbs: Float32Array.from(logProbs),
      stopReason: stopReason!, // the loop ends when every row has one
    }))
  }

  return {
    generate,
    release: () => {
      compiledPrefill.release()
      compiledDecode.release()
    },
  }
}

/** One key for each completion: `child(child(key, prompt), completion)`. */
export const completionKeys = (key: Key, prompts: number, group: number): readonly Key[] =>
  Array.from({ length: prompts * group }, (_, i) => child(child(key, Math.floor(i / group)), i % group))
