/**
 * Comparing the decoder with what Hugging Face Transformers computed: folders made by the peers'
 * `make_model.py` or the golden generator.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import { gatherLogProbs, jit, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { isLeft } from 'fp-ts/lib/Either.js'
import { maskedMean } from '../../src/data/tensorDict/masked.js'
import { completionKeys, makeGenerator } from '../../src/modules/generation/generator.js'
import { loadWeights, makeParams } from '../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { forwardSegment, logitsOf } from '../../src/modules/transformer/forward.js'
import type { Params } from '../../src/modules/transformer/params.js'
import { type RotaryTables, rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { promptBias } from '../../src/modules/transformer/score.js'

export interface Expected {
  readonly input_ids: readonly (readonly number[])[]
  readonly attention_mask: readonly (readonly number[])[]
  readonly logits: readonly (readonly (readonly number[])[])[]
  readonly loss: number
  readonly grad_norms: Readonly<Record<string, number>>
  /** Null where the reference's own cache changes the result. */
  readonly greedy: readonly (readonly number[])[] | null
  /** Only in the golden folders. */
  readonly completion?: {
    readonly log_probs: readonly (readonly number[])[]
    readonly entropy: readonly (readonly number[])[]
    readonly grad_norms: Readonly<Record<string, number>>
  }
}

export const readExpected = (folder: string): Expected =>
  JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8')) as Expected // written by the generators

/** The differences from the reference. */
export interface ReferenceGap {
  readonly logits: number
  readonly loss: number
  /** Largest relative difference of a gradient's norm, and whose it is. */
  readonly gradNorm: number
  readonly worstGradient: string
  /** Null if the reference wrote none. */
  readonly greedyTokensDiffering: number | null
}

interface Input {
  readonly params: Params
  readonly ids: tf.Tensor
  readonly mask: tf.Tensor
  readonly positions: tf.Tensor
  readonly rotary: RotaryTables
}

/**
 * Logits everywhere, and the mean next-token cross-entropy over real tokens with the norms of its
 * gradients.
 */
const evaluate = (config: DecoderConfig) =>
  jit((input: Input) => {
    const [rows, length] = input.ids.shape as [number, number] // [B, T] below
    const { value, grads, aux } = valueAndGrad(input.params, (params) => {
      const { hidden } = forwardSegment(params, config, {
        ids: tf.reshape(input.ids, [rows, 1, length]),
        positions: tf.reshape(input.positions, [rows, 1, length]),
        ownBias: promptBias(input.mask),
        past: [],
        rotary: input.rotary,
      })
      const logits = tf.reshape(logitsOf(params, config, hidden), [rows, length, config.vocabularySize])
      const flat = (x: tf.Tensor, start: number): tf.Tensor =>
        tf.reshape(tf.slice(x, [0, start], [rows, length - 1]), [rows * (length - 1)])
      const predicting = tf.slice(logits, [0, 0, 0], [rows, length - 1, config.vocabularySize])
      const logProbs = gatherLogProbs(tf.reshape(predicting, [-1, config.vocabularySize]), flat(input.ids, 1))
      return { value: tf.neg(maskedMean(logProbs, flat(input.mask, 1))), aux: { logits } }
    })
    const norms = Object.fromEntries(Object.entries(grads).map(([name, g]) => [name, tf.sqrt(tf.sum(tf.square(g)))]))
    return { loss: value, logits: aux.logits, norms }
  })

const maxDifference = (actual: ArrayLike<number>, expected: readonly number[]): number =>
  expected.reduce((worst, x, i) => Math.max(worst, Math.abs(actual[i]! - x)), 0)

const worstOf = (gaps: readonly (readonly [string, number])[]): readonly [string, number] =>
  gaps.reduce((worst, gap) => (gap[1] <= worst[1] ? worst : gap), ['', 0] as const) // NaN is the worst

/**
 * Smaller norms count as this: some gradients, as of a bias of keys without positions, are zero but
 * for rounding.
 */
const SMALLEST_NORM = 0.05

/** Relative difference of the norm of a gradient. */
export const normGap = (actual: number, expected: number): number =>
  Math.abs(actual - expected) / Math.max(expected, SMALLEST_NORM)

/** The number of greedy tokens that differ from the reference. */
const differingTokens = async (config: DecoderConfig, params: Params, expected: Expected): Promise<number | null> => {
  const { greedy } = expected
  if (greedy === null) return null
  const generator = makeGenerator(config)
  const prompts = expected.input_ids.map((row, i) => row.filter((_, t) => expected.attention_mask[i]![t] === 1))
  const count = greedy[0]!.length
  // As the reference does: `min_new_tokens` keeps it from ending early.
  const options = { temperature: 0, maxNewTokens: count, minNewTokens: count, stopTokens: config.endTokens }
  const keys = completionKeys(keyFromSeed(0), prompts.length, 1)
  const completions = await generator.generate(params, { prompts, group: 1, keys, options }, async () => undefined)
  generator.release()
  return completions.flatMap(({ ids }, i) => Array.from(ids).filter((id, t) => id !== greedy[i]![t])).length
}

/** Computes everything that `expected.json` has, on the active backend. */
export const compareWithReference = async (folder: string): Promise<ReferenceGap> => {
  const loaded = await loadWeights(folder)()
  if (isLeft(loaded)) throw new Error(`${loaded.left.file}: ${loaded.left.reason}`)
  const { config, arrays } = loaded.right
  const expected = readExpected(folder)
  using params = own(scope(() => makeParams(arrays)))
  const shape: [number, number] = [expected.input_ids.length, expected.input_ids[0]!.length]
  const positions = expected.attention_mask.map((row) => {
    let seen = 0
    return row.map((m) => {
      seen += m
      return Math.max(0, seen - 1)
    })
  })
  const compiled = evaluate(config)
  const gap = scope(() => {
    const result = compiled({
      params: params.value,
      ids: tf.tensor2d(expected.input_ids.flat(), shape, 'int32'),
      mask: tf.tensor2d(expected.attention_mask.flat(), shape, 'float32'),
      positions: tf.tensor2d(positions.flat(), shape, 'int32'),
      rotary: rotaryTables(config, shape[1]),
    })
    const [worstGradient, gradNorm] = worstOf(
      Object.entries(expected.grad_norms).map(([name, norm]) => [
        name,
        normGap(result.norms[name]!.dataSync()[0]!, norm),
      ]),
    )
    return {
      logits: maxDifference(result.logits.dataSync(), expected.logits.flat(2)),
      loss: Math.abs(result.loss.dataSync()[0]! - expected.loss),
      gradNorm,
      worstGradient,
    }
  })
  compiled.release()
  return { ...gap, greedyTokensDiffering: await differingTokens(config, params.value, expected) }
}
