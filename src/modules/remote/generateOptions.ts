/** Conversion of TorchRL's generation options to settings of a policy. */
import { problemList } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineSampling } from '../generation/policy/enginePolicy.js'

/** The common `generate_kwargs` of TorchRL's wrappers, in camel case. */
export interface GenerateOptions {
  readonly maxNewTokens?: number
  /** Must be 1. For several completions of a prompt, use several rows. */
  readonly numReturnSequences?: number
  readonly temperature?: number
  readonly topP?: number
  readonly topK?: number
  readonly repetitionPenalty?: number
  /** False selects the most probable token at each step. */
  readonly doSample?: boolean
  /** Must be 1, because beam search is not supported. */
  readonly numBeams?: number
  readonly stopSequences?: readonly string[]
  /** Must be true, because log-probabilities are part of every action. */
  readonly logprobs?: boolean
}

const KNOWN: ReadonlySet<string> = new Set([
  ...['maxNewTokens', 'numReturnSequences', 'temperature', 'topP', 'topK', 'repetitionPenalty', 'doSample'],
  ...['numBeams', 'stopSequences', 'logprobs'],
])

/**
 * Converts TorchRL's options to settings.
 *
 * Errors   `Left` with every unknown name, and with unsupported options: beams, several sequences
 *          per row, no log-probabilities, no sampling at a temperature. Values are checked on use.
 * Source   TorchRL's wrappers, in which a legacy name silently takes precedence over the standard
 *          one.
 *
 * @example
 * samplingOf({ maxNewTokens: 8, doSample: false }) // right({ maxTokens: 8, temperature: 0 })
 */
export const samplingOf = (options: GenerateOptions): E.Either<string, EngineSampling> => {
  const { maxNewTokens, numReturnSequences = 1, temperature, topP, topK, repetitionPenalty, doSample } = options
  const { numBeams = 1, stopSequences, logprobs = true } = options
  const problems = [
    ...Object.keys(options).flatMap((name) => (KNOWN.has(name) ? [] : [`${name} is not a generation option`])),
    ...(numReturnSequences === 1
      ? []
      : [
          `numReturnSequences must be 1, got ${numReturnSequences}: repeat the row, neighbors with equal prompts are one request`,
        ]),
    ...(numBeams === 1 ? [] : [`numBeams must be 1, got ${numBeams}: a beam is not a sample of the policy`]),
    ...(logprobs ? [] : ['logprobs must be true: a policy without them cannot be trained']),
    ...(doSample === false && temperature !== undefined && temperature !== 0
      ? [`doSample false is temperature 0, got temperature ${temperature}`]
      : []),
    ...(doSample === true && temperature === 0 ? ['doSample true needs a temperature above 0'] : []),
  ]
  if (problems.length > 0) return E.left(problemList(problems))
  return E.right({
    ...(maxNewTokens !== undefined && { maxTokens: maxNewTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(doSample === false && { temperature: 0 }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && { topK }),
    ...(repetitionPenalty !== undefined && { repetitionPenalty }),
    ...(stopSequences !== undefined && { stop: stopSequences }),
  })
}
