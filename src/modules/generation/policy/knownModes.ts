/** The kinds of log-probabilities that can be derived from a server's. */
import type { LogProbsMode, SamplingParams } from '@tandem-rl/text'

/** The stage at which a vLLM server computes log-probabilities: `--logprobs-mode`. */
export type ServerLogProbs = 'raw' | 'processed'

/**
 * Returns true if only the temperature changes the distribution of a token. Cuts have no effect at
 * temperature 0.
 */
const isPlain = (p: SamplingParams): boolean =>
  p.repetitionPenalty === 1 &&
  p.presencePenalty === 0 &&
  p.frequencyPenalty === 0 &&
  p.logitBias.size === 0 &&
  p.allowedTokens === null &&
  p.minTokens <= 0 &&
  (p.temperature <= 0 || (p.topK <= 0 && p.topP >= 1 && p.minP <= 0))

/** Returns true if logits are not scaled. At temperature 0 they are used unchanged. */
const isUnit = ({ temperature }: SamplingParams): boolean => temperature === 0 || temperature === 1

const MODES: readonly LogProbsMode[] = ['raw', 'tempered', 'processed']

/**
 * Returns the modes whose numbers equal those of the server.
 *
 * @example
 * [...knownModes('raw', { ...DEFAULT_SAMPLING, temperature: 0.5 })] // ['raw']
 * [...knownModes('raw', DEFAULT_SAMPLING)]                          // ['raw', 'tempered', 'processed']
 */
export const knownModes = (server: ServerLogProbs, sampling: SamplingParams): ReadonlySet<LogProbsMode> => {
  const [plain, unit] = [isPlain(sampling), isUnit(sampling)]
  const holds: Readonly<Record<ServerLogProbs, Readonly<Record<LogProbsMode, boolean>>>> = {
    raw: { raw: true, tempered: unit, processed: unit && plain },
    processed: { raw: unit && plain, tempered: plain, processed: true },
  }
  return new Set(MODES.filter((mode) => holds[server][mode]))
}
