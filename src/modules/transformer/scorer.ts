/** Compiled log-probabilities of given completions, in parts of bounded size. */
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type Completions, sharedRows } from '../../data/completions.js'
import type { DecoderConfig } from './config.js'
import { headScores } from './headScores.js'
import { checkCompletions, filledBatch, packCompletions, varyingPlaces } from './pack.js'
import type { Params } from './params.js'
import { type ScoredBatch, scoredStates } from './score.js'
import { checkIds, checkPrompts } from './tokenIds.js'

interface ScoreInput extends ScoredBatch {
  readonly params: Params
}

export interface Scorer {
  /**
   * Computes the log-probability of each completion token at a temperature, in nats, row by row.
   *
   * A row's numbers depend on the other rows by rounding only, except with `dynamic` and `longrope`
   * scaling: if one row exceeds the trained length, the frequencies of the longest row are used for
   * all rows.
   *
   * Neighboring rows with equal prompts share the prompt's computation.
   *
   * Errors   throws RangeError without a prompt for each completion, for an empty prompt, and for
   *          an id outside the vocabulary.
   */
  readonly score: (params: Params, request: Completions) => readonly Float32Array[]
  readonly release: () => void
}

/** A scorer that may wait, for example for other threads. */
export interface CompletionScorer {
  /** Like `Scorer.score`. */
  readonly score: (params: Params, request: Completions) => Promise<readonly Float32Array[]>
  readonly release: () => void
}

/**
 * Approximate number of tokens per run: enough to be fast, and few enough to stay in the CPU
 * caches.
 */
const TOKENS_PER_RUN = 4096

/**
 * Returns the number of prompts, with the completions that share them, that make a run of about
 * `tokens` tokens; at least one.
 */
export const promptsPerRun = (
  { prompts, completions, shared }: Omit<Required<Completions>, 'temperature'>,
  tokens: number,
): number => {
  const longest = (rows: readonly ArrayLike<number>[]): number => rows.reduce((n, row) => Math.max(n, row.length), 1)
  return Math.max(1, Math.floor(tokens / (longest(prompts) + shared * longest(completions))))
}

/** Returns the rows `from` to `to`, in groups that share a prompt. */
export const rowRange = <R extends Omit<Required<Completions>, 'temperature'>>(
  rows: R,
  from: number,
  to: number,
): R => ({
  ...rows,
  prompts: rows.prompts.slice(from * rows.shared, to * rows.shared),
  completions: rows.completions.slice(from * rows.shared, to * rows.shared),
})

/** A function of one number per completion token, such as a scorer or a value function. */
interface TokenReader {
  /** Throws RangeError without a prompt for each completion. */
  readonly read: (params: Params, request: Completions) => readonly Float32Array[]
  readonly release: () => void
}

/**
 * Compiles a function of one number per completion token, `[P * G * Tr]`, and runs it in parts of
 * bounded size.
 */
export const makeTokenReader = (
  config: DecoderConfig,
  numbers: (params: Params, scored: ScoredBatch) => tf.Tensor,
): TokenReader => {
  const compiled = jit(({ params, ...scored }: ScoreInput) => numbers(params, scored), {
    memory: 'automatic',
    varying: varyingPlaces,
  })
  const readPart = (params: Params, rows: Completions): readonly Float32Array[] => {
    const packed = packCompletions(rows)
    const flat = scope(() =>
      compiled({
        params,
        batch: filledBatch(packed, config),
        inverseTemperature: tf.scalar(1 / rows.temperature),
      }).dataSync(),
    )
    return rows.completions.map((row, i) =>
      Float32Array.from(flat.subarray(i * packed.completionLength, i * packed.completionLength + row.length)),
    )
  }
  return {
    read: (params, request) => {
      const { prompts, completions, shared = sharedRows(prompts) } = request
      const rows = { ...request, shared }
      checkCompletions('score', rows)
      checkPrompts('score', prompts, config.vocabularySize)
      checkIds('score', 'completion', { rows: completions, vocabularySize: config.vocabularySize })
      const count = promptsPerRun(rows, TOKENS_PER_RUN)
      const results: Float32Array[] = []
      for (let start = 0; start * shared < prompts.length; start += count)
        results.push(...readPart(params, rowRange(rows, start, start + count)))
      return results
    },
    release: () => compiled.release(),
  }
}

/** Makes a scorer. Graphs are compiled on first use and kept. */
export const makeScorer = (config: DecoderConfig): Scorer => {
  const { read, release } = makeTokenReader(
    config,
    (params, scored) => headScores(params, config, scoredStates(params, config, scored)).logProbs,
  )
  return { score: read, release }
}
