/** Compiled log-probabilities of given completions, in parts of bounded size. */
import * as tf from '@tensorflow/tfjs-core'
import { jit } from '../../engine/jit.js'
import { gatherLogProbs } from '../../engine/ops/logProbs.js'
import { scope } from '../../engine/scope.js'
import type { DecoderConfig } from './config.js'
import { filledBatch, type PromptGroups, packCompletions, varyingPlaces } from './pack.js'
import type { Params } from './params.js'
import { type ScoredBatch, temperedLogits } from './score.js'
import { checkIds, checkPrompts } from './tokenIds.js'

interface ScoreInput extends ScoredBatch {
  readonly params: Params
}

/** Prompts with a group of completions each. */
export interface ScoreRequest {
  readonly groups: PromptGroups
  readonly completions: readonly ArrayLike<number>[]
  readonly temperature: number
}

export interface Scorer {
  /**
   * Computes the log-probability of each completion token at a temperature, in nats, row by row.
   *
   * A row's numbers depend on the other rows by rounding only, except with `dynamic` and `longrope`
   * scaling: if one row exceeds the trained length, the frequencies of the longest row are used for
   * all rows.
   *
   * Errors   throws RangeError without a group of completions for each prompt, for an empty prompt,
   *          and for an id outside the vocabulary.
   */
  readonly score: (params: Params, request: ScoreRequest) => readonly Float32Array[]
  readonly release: () => void
}

/** A scorer that may wait, for example for other threads. */
export interface CompletionScorer {
  /** Like `Scorer.score`. */
  readonly score: (params: Params, request: ScoreRequest) => Promise<readonly Float32Array[]>
  readonly release: () => void
}

/**
 * Approximate number of tokens per run: enough to be fast, and few enough to stay in the CPU
 * caches.
 */
const TOKENS_PER_RUN = 4096

/**
 * Returns the number of prompts, with their groups, that make a run of about `tokens` tokens; at
 * least one.
 */
export const promptsPerRun = (
  groups: PromptGroups,
  completions: readonly ArrayLike<number>[],
  tokens: number,
): number => {
  const longest = (rows: readonly ArrayLike<number>[]): number => rows.reduce((n, row) => Math.max(n, row.length), 1)
  return Math.max(1, Math.floor(tokens / (longest(groups.prompts) + groups.group * longest(completions))))
}

/** A function of one number per completion token, such as a scorer or a value function. */
interface TokenReader {
  /** Throws RangeError without a group of completions for each prompt. */
  readonly read: (params: Params, request: ScoreRequest) => readonly Float32Array[]
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
  const readPart = (params: Params, { groups, completions, temperature }: ScoreRequest): readonly Float32Array[] => {
    const packed = packCompletions(groups, completions)
    const flat = scope(() =>
      compiled({
        params,
        batch: filledBatch(packed, config),
        inverseTemperature: tf.scalar(1 / temperature),
      }).dataSync(),
    )
    return completions.map((row, i) =>
      Float32Array.from(flat.subarray(i * packed.completionLength, i * packed.completionLength + row.length)),
    )
  }
  return {
    read: (params, { groups, completions, temperature }) => {
      checkPrompts('score', groups.prompts, config.vocabularySize)
      checkIds('score', 'completion', { rows: completions, vocabularySize: config.vocabularySize })
      const count = promptsPerRun(groups, completions, TOKENS_PER_RUN)
      const results: Float32Array[] = []
      for (let start = 0; start < groups.prompts.length; start += count) {
        const prompts = groups.prompts.slice(start, start + count)
        const rows = completions.slice(start * groups.group, (start + prompts.length) * groups.group)
        results.push(...readPart(params, { groups: { prompts, group: groups.group }, completions: rows, temperature }))
      }
      return results
    },
    release: () => compiled.release(),
  }
}

/** Makes a scorer. Graphs are compiled on first use and kept. */
export const makeScorer = (config: DecoderConfig): Scorer => {
  const { read, release } = makeTokenReader(config, (params, scored) =>
    gatherLogProbs(temperedLogits(params, config, scored), tf.reshape(scored.batch.completionIds, [-1])),
  )
  return { score: read, release }
}
