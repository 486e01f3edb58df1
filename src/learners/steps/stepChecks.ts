/** Checks of the settings of a training step. */
import { refuse } from '@tandem-rl/base'
import type { NamedTensors } from '../../data/weights.js'

/** Throws RangeError that lists all invalid settings. */
export const checkStepOptions = (
  step: string,
  { maxGradNorm, microBatchTokens }: { readonly maxGradNorm: number; readonly microBatchTokens: number },
): void =>
  refuse(step, [
    !(maxGradNorm > 0) && `maxGradNorm must be positive, got ${maxGradNorm}`,
    !(microBatchTokens >= 1) && `microBatchTokens must be at least 1, got ${microBatchTokens}`,
  ])

/** Throws RangeError if a name is both trained and frozen. */
export const checkApart = (step: string, params: NamedTensors, frozen: NamedTensors): void => {
  const both = Object.keys(params).filter((name) => Object.hasOwn(frozen, name))
  if (both.length > 0)
    throw new RangeError(`${step}: ${both.map((name) => `'${name}'`).join(', ')} cannot be trained: it is frozen`)
}
