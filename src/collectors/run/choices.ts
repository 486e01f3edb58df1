/** What settings choose: the parts that a run is made of. Where they leave something to the algorithm, its own choice counts. */
import { checkOverlong, type OverlongOptions } from '../../envs/rewards/overlong.js'
import { ALGORITHMS, algorithmLoss } from '../../objectives/algorithms.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import type { RunSettings } from './settingsSchema.js'

/** The loss of settings. Errors: throws RangeError for a clip range that the algorithm cannot have. */
export const lossOf = ({
  algorithm,
  clipLow,
  clipHigh,
  maxNewTokens,
}: Pick<RunSettings, 'algorithm' | 'clipLow' | 'clipHigh' | 'maxNewTokens'>): PolicyLoss =>
  algorithmLoss(algorithm, { clipLow, clipHigh, longest: maxNewTokens })

/** How often is sampled for one batch at most. */
export const samplingRoundsOf = ({
  algorithm,
  dynamicSampling,
}: Pick<RunSettings, 'algorithm' | 'dynamicSampling'>): number =>
  dynamicSampling ?? ALGORITHMS[algorithm].samplingRounds ?? 1

/** The soft end of completions; null if their length costs nothing. Errors: throws RangeError for a cache that is longer than a completion may be. */
export const overlongOf = ({
  algorithm,
  maxNewTokens,
  overlongCache,
  overlongFactor,
}: Pick<RunSettings, 'algorithm' | 'maxNewTokens' | 'overlongCache' | 'overlongFactor'>): OverlongOptions | null => {
  const cache = overlongCache ?? Math.round((ALGORITHMS[algorithm].overlongShare ?? 0) * maxNewTokens)
  if (cache === 0) return null
  const options = { longest: maxNewTokens, cache, factor: overlongFactor }
  checkOverlong('overlongCache', options)
  return options
}
