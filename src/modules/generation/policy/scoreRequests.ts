/** Scores of given completions from an engine. The completion is sent as the end of a prompt. */
import { joinInts, problemList } from '@tandem-rl/base'
import type { GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities } from '../../../data/engineClient.js'
import { DEFAULT_SAMPLING } from '../sampling/params.js'

export interface ScoreOptions {
  readonly temperature: number
  readonly abilities: Pick<EngineAbilities, 'logProbs' | 'promptLogProbs' | 'maxModelLength' | 'vocabularySize'>
}

const abilityProblems = ({ temperature, abilities }: ScoreOptions): readonly string[] => {
  if (abilities.promptLogProbs === 'no')
    return ['the engine does not report log-probabilities of prompts, which scoring needs']
  if (!(temperature >= 0 && Number.isFinite(temperature))) {
    return [`temperature must be a finite number of at least 0, got ${temperature}`]
  }
  return abilities.logProbs !== 'all' && temperature !== 1 && temperature !== 0
    ? [
        `the engine reports log-probabilities of prompts only at temperature 1, got ${temperature}: score in this process`,
      ]
    : []
}

/**
 * Makes one request per completion, with prompt and completion together. It samples one token,
 * which is ignored.
 *
 * Temperature 0 scores at temperature 1, as recorded by sampling.
 *
 * Errors   `Left` with the reason why the engine cannot score, and with every row that is empty,
 *          too long or has ids outside the vocabulary.
 */
export const scoreRequests = (
  prompts: readonly Int32Array[],
  completions: readonly Int32Array[],
  options: ScoreOptions,
): E.Either<string, readonly Omit<GenerationRequest, 'id'>[]> => {
  const { temperature, abilities } = options
  const general = abilityProblems(options)
  if (general.length > 0) return E.left(problemList(general))
  if (prompts.length !== completions.length) {
    return E.left(`${prompts.length} prompts need as many completions, got ${completions.length} completions`)
  }
  const sequences = prompts.map((prompt, i) => joinInts([prompt, completions[i]!]))
  const { maxModelLength, vocabularySize } = abilities
  const problems = sequences.flatMap((sequence, i) => {
    if (prompts[i]!.length === 0) return [`prompt ${i} is empty`]
    if (sequence.length >= maxModelLength) {
      return [
        `row ${i} has ${sequence.length} tokens, which leaves no room for one more below the limit of ${maxModelLength}`,
      ]
    }
    const wrong = sequence.findIndex((id) => id < 0 || id >= vocabularySize)
    return wrong < 0
      ? []
      : [`row ${i} has id ${sequence[wrong]} at ${wrong}, the vocabulary has ${vocabularySize} tokens`]
  })
  if (problems.length > 0) return E.left(problemList(problems))
  const sampling = {
    ...DEFAULT_SAMPLING,
    maxTokens: 1,
    temperature: temperature === 0 ? 1 : temperature,
    promptLogProbs: 0,
    logProbsMode: 'tempered',
  } as const
  return E.right(sequences.map((prompt) => ({ prompt, sampling, adapter: null, cacheSalt: '' })))
}
