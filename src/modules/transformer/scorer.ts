/** Log-probabilities of given completions, compiled, in pieces of bounded size. */
import * as tf from '@tensorflow/tfjs-core'
import { jit } from '../../engine/jit.js'
import { gatherLogProbs } from '../../engine/ops/logProbs.js'
import { scope } from '../../engine/scope.js'
import type { DecoderConfig } from './config.js'
import { completionBatch, type PromptGroups, packCompletions } from './pack.js'
import type { Params } from './params.js'
import { type ScoredBatch, temperedLogits } from './score.js'
import { checkIds, checkPrompts } from './tokenIds.js'

interface ScoreInput extends ScoredBatch {
  readonly params: Params
}

/** A group of completions for each prompt. */
interface ScoreRequest {
  readonly groups: PromptGroups
  readonly completions: readonly ArrayLike<number>[]
  readonly temperature: number
}

export interface Scorer {
  /**
   * Computes the log-probability of each completion token at a temperature, in nats: one row for each completion.
   *
   * A row's numbers depend on the other rows by rounding only, except under `dynamic` and `longrope` rope: if one row exceeds the
   * trained length, the frequencies of the longest row are used for all rows.
   *
   * Errors   throws RangeError unless there is a group of completions for each prompt, for an empty prompt, and for an id that the
   *          vocabulary does not have.
   */
  readonly score: (params: Params, request: ScoreRequest) => readonly Float32Array[]
  readonly release: () => void
}

/** About how many tokens are scored in one run: enough to be fast, few enough to stay in the caches. */
const TOKENS_PER_RUN = 4096

/** How many prompts with their groups make one run of about `tokens` tokens. At least one. */
export const promptsPerRun = (
  groups: PromptGroups,
  completions: readonly ArrayLike<number>[],
  tokens: number,
): number => {
  const longest = (rows: readonly ArrayLike<number>[]): number => rows.reduce((n, row) => Math.max(n, row.length), 1)
  return Math.max(1, Math.floor(tokens / (longest(groups.prompts) + groups.group * longest(completions))))
}

/** A number for each token of completions: what a scorer and a value function are. */
interface TokenReader {
  /** Errors: throws RangeError unless there is a group of completions for each prompt. */
  readonly read: (params: Params, request: ScoreRequest) => readonly Float32Array[]
  readonly release: () => void
}

/** Compiles what reads one number for each completion token, `[P * G * Tr]`, and runs it in pieces of bounded size. */
export const makeTokenReader = (
  config: DecoderConfig,
  numbers: (params: Params, scored: ScoredBatch) => tf.Tensor,
): TokenReader => {
  const compiled = jit(({ params, ...scored }: ScoreInput) => numbers(params, scored))
  const readPart = (params: Params, { groups, completions, temperature }: ScoreRequest): readonly Float32Array[] => {
    const packed = packCompletions(groups, completions)
    const flat = scope(() =>
      compiled({
        params,
        batch: completionBatch(packed, config),
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

/** Makes a scorer; graphs are compiled when first needed and kept. */
export const makeScorer = (config: DecoderConfig): Scorer => {
  const { read, release } = makeTokenReader(config, (params, scored) =>
    gatherLogProbs(temperedLogits(params, config, scored), tf.reshape(scored.batch.completionIds, [-1])),
  )
  return { score: read, release }
}
