/**
 * Comparing floating-point results: the kit's own comparison, under the name that reads well beside
 * `expect`.
 */
export { type CloseTolerance, requireClose as expectClose } from '@tandem-rl/testing'
