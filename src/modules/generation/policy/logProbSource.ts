/** Whether an engine can tell what a policy loss needs: log-probabilities at the temperature, before cuts. */
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities } from '../../../data/engineClient.js'
import type { GeneratedToken, SamplingParams } from '../../../data/generation.js'

/** The field of a sampled token that has them. */
export type LogProbSource = keyof Pick<GeneratedToken, 'rawLogProb' | 'temperedLogProb' | 'processedLogProb'>

/** Settings that change what a token is drawn from, besides the temperature. */
const changesOf = (sampling: SamplingParams): readonly string[] => {
  const { topK, topP, minP, minTokens, repetitionPenalty, presencePenalty, frequencyPenalty } = sampling
  const isOn: Readonly<Record<string, boolean>> = {
    topK: topK !== 0,
    topP: topP !== 1,
    minP: minP !== 0,
    minTokens: minTokens !== 0,
    repetitionPenalty: repetitionPenalty !== 1,
    presencePenalty: presencePenalty !== 0,
    frequencyPenalty: frequencyPenalty !== 0,
    logitBias: sampling.logitBias.size > 0,
    allowedTokens: sampling.allowedTokens !== null,
  }
  return Object.keys(isOn).filter((name) => isOn[name])
}

/**
 * Which number of a sampled token is its log-probability at the temperature used (at 1 for temperature 0), before anything is cut.
 *
 * Raw ones are, at temperature 1 or 0. Processed ones are, where nothing but the temperature changes the distribution.
 *
 * Errors   `Left` with what the engine cannot tell, and the ways out.
 *
 * @example
 * logProbSource('raw', { ...DEFAULT_SAMPLING, temperature: 1 }) // right('rawLogProb')
 */
export const logProbSource = (
  told: EngineAbilities['logProbs'],
  sampling: SamplingParams,
): E.Either<string, LogProbSource> => {
  const { temperature } = sampling
  switch (told) {
    case 'all':
    case 'tempered':
      return E.right('temperedLogProb')
    case 'raw':
      return temperature === 1 || temperature === 0
        ? E.right('rawLogProb')
        : E.left(
            `the engine tells log-probabilities before temperature (raw), so that those at temperature ${temperature} are unknown: ` +
              'sample at temperature 1 or 0, or start it with --logprobs-mode processed_logprobs',
          )
    case 'processed': {
      const changes = changesOf(sampling)
      return changes.length === 0
        ? E.right('processedLogProb')
        : E.left(
            `the engine tells log-probabilities after cuts and penalties (processed), so that those before ${changes.join(', ')} are unknown: ` +
              'leave these out, or start it with --logprobs-mode raw_logprobs and sample at temperature 1',
          )
    }
  }
}
