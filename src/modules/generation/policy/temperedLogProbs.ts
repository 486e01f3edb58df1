/**
 * Checks that an engine reports the log-probabilities that a policy loss needs: at the temperature,
 * before cuts.
 */
import type { SamplingParams } from '@tandem-rl/text'
import type { EngineAbilities } from '../../../data/engineClient.js'
import { DEFAULT_SAMPLING } from '../sampling/params.js'
import { knownModes } from './knownModes.js'

/** Settings other than the temperature that change the distribution of a token. */
const CHANGES = [
  ...(['topK', 'topP', 'minP'] as const),
  ...(['minTokens', 'repetitionPenalty', 'presencePenalty', 'frequencyPenalty', 'allowedTokens'] as const),
]

const changesOf = (sampling: SamplingParams): string =>
  [
    ...CHANGES.filter((name) => sampling[name] !== DEFAULT_SAMPLING[name]),
    ...(sampling.logitBias.size > 0 ? ['logitBias'] : []),
  ].join(', ')

/**
 * Returns why an engine cannot report log-probabilities at the sampling temperature (at 1 for
 * temperature 0) before cuts and other changes, with possible solutions, or null if it can.
 *
 * Raw ones equal these at temperature 1 and 0. Processed ones do if only the temperature changes
 * the distribution.
 *
 * @example
 * missingTemperedLogProbs('raw', { ...DEFAULT_SAMPLING, topK: 5 }) // null
 */
export const missingTemperedLogProbs = (
  reported: EngineAbilities['logProbs'],
  sampling: SamplingParams,
): string | null => {
  if (reported === 'all' || knownModes(reported, sampling).has('tempered')) return null
  return reported === 'raw'
    ? `the engine reports log-probabilities before temperature (raw), so those at temperature ${sampling.temperature} are unknown: ` +
        'sample at temperature 1 or 0, or start it with --logprobs-mode processed_logprobs'
    : `the engine reports log-probabilities after cuts and penalties (processed), so those before ${changesOf(sampling)} are unknown: ` +
        'leave these out, or start it with --logprobs-mode raw_logprobs and sample at temperature 1'
}
