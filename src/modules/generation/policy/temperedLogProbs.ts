/** Whether an engine can tell what a policy loss needs: log-probabilities at the temperature, before anything is cut. */
import type { EngineAbilities } from '../../../data/engineClient.js'
import type { SamplingParams } from '../../../data/generation.js'
import { knownModes } from '../../remote/vllm/serverLogProbs.js'
import { DEFAULT_SAMPLING } from '../sampling/params.js'

/** Settings that change what a token is drawn from, besides the temperature. */
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
 * Why an engine cannot tell log-probabilities at the temperature used (at 1 for temperature 0) before anything is cut or changed, and the
 * ways out; null if it can.
 *
 * Raw ones are these at temperature 1 and 0; processed ones where nothing but the temperature changes the distribution; an engine that tells
 * tempered ones may have penalties, biases and bans in them, as SGLang has.
 *
 * @example
 * missingTemperedLogProbs('raw', { ...DEFAULT_SAMPLING, topK: 5 }) // null
 */
export const missingTemperedLogProbs = (told: EngineAbilities['logProbs'], sampling: SamplingParams): string | null => {
  if (told === 'all' || knownModes(told, sampling).has('tempered')) return null
  switch (told) {
    case 'raw':
      return (
        `the engine tells log-probabilities before temperature (raw), so that those at temperature ${sampling.temperature} are unknown: ` +
        'sample at temperature 1 or 0, or start it with --logprobs-mode processed_logprobs'
      )
    case 'processed':
      return (
        `the engine tells log-probabilities after cuts and penalties (processed), so that those before ${changesOf(sampling)} are unknown: ` +
        'leave these out, or start it with --logprobs-mode raw_logprobs and sample at temperature 1'
      )
    case 'tempered':
      return (
        `the engine tells log-probabilities after penalties, biases and bans, so that those before ${changesOf(sampling)} are unknown: ` +
        'leave these out; cuts (topK, topP, minP) may stay'
      )
  }
}
