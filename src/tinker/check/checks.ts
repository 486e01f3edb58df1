/** The checks of the conformance kit, by name. */
import { GRADIENT_CHECKS } from './gradientChecks.js'
import type { Bench, CheckOutcome } from './measure.js'
import { REQUEST_CHECKS } from './requestChecks.js'
import { SAMPLER_CHECKS } from './samplerChecks.js'

/** Every check of the kit, in order. */
export const CHECKS: Readonly<Record<string, (bench: Bench) => Promise<CheckOutcome>>> = {
  ...GRADIENT_CHECKS,
  ...SAMPLER_CHECKS,
  ...REQUEST_CHECKS,
}
