/** TorchRL's names for how to generate, as settings of a policy. */
import * as E from 'fp-ts/lib/Either.js'
import { problemList } from '../../core/failure.js'
import type { EngineSampling } from '../generation/policy/enginePolicy.js'

/** The common `generate_kwargs` of TorchRL's wrappers, in camel case. */
export interface GenerateOptions {
  readonly maxNewTokens?: number
  /** 1: several completions of a prompt are several rows. */
  readonly numReturnSequences?: number
  readonly temperature?: number
  readonly topP?: number
  readonly topK?: number
  readonly repetitionPenalty?: number
  /** False takes the most probable token at each step. */
  readonly doSample?: boolean
  /** 1: there is no beam search. */
  readonly numBeams?: number
  readonly stopSequences?: readonly string[]
  /** True: log-probabilities are part of every action. */
  readonly logprobs?: boolean
}

const KNOWN: ReadonlySet<string> = new Set([
  ...['maxNewTokens', 'numReturnSequences', 'temperature', 'topP', 'topK', 'repetitionPenalty', 'doSample'],
  ...['numBeams', 'stopSequences', 'logprobs'],
])

/**
 * The settings that TorchRL's names stand for.
 *
 * Errors   `Left` with every name that is unknown, and with what policies do not do: beams, several sequences for a row, no log-probabilities, no
 *          sampling at a temperature. Values are checked where they are used.
 * Source   TorchRL's wrappers, in which a legacy name silently wins over the standard one.
 *
 * @example
 * samplingOf({ maxNewTokens: 8, doSample: false }) // right({ maxTokens: 8, temperature: 0 })
 */
export const samplingOf = (options: GenerateOptions): E.Either<string, EngineSampling> => {
  const { maxNewTokens, numReturnSequences = 1, temperature, topP, topK, repetitionPenalty, doSample } = options
  const { numBeams = 1, stopSequences, logprobs = true } = options
  const problems = [
    ...Object.keys(options).flatMap((name) => (KNOWN.has(name) ? [] : [`${name} is no option of generation`])),
    ...(numReturnSequences === 1
      ? []
      : [
          `numReturnSequences must be 1, got ${numReturnSequences}: repeat the row, neighbours with equal prompts are one request`,
        ]),
    ...(numBeams === 1 ? [] : [`numBeams must be 1, got ${numBeams}: a beam is no sample of the policy`]),
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
