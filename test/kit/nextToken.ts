/** The next-token scores of a row, in float64 from the definitions. */
import type { SamplingParams } from '@tandem-rl/text'
import type { NextToken } from '../../src/modules/generation/runner/modelRunner.js'

/** `log sum exp(logits * inverse)`; NaN if a logit is. */
const logSumExp = (logits: Float32Array, inverse: number): number => {
  const max = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY)
  const sum = logits.reduce((total, logit) => total + Math.exp((logit - max) * inverse), 0)
  return Number.isFinite(max) ? max * inverse + Math.log(sum) : max
}

/**
 * The row as a runner gives it for this temperature; sums of blocks are float32, as a runner's are.
 */
export const nextTokenOf = (
  logits: Float32Array,
  { temperature }: Pick<SamplingParams, 'temperature'>,
  blockSize = 4,
): NextToken => {
  const inverse = temperature === 0 ? 1 : 1 / temperature
  const argMax = logits.reduce((best, logit, id) => (logit > logits[best]! ? id : best), 0)
  const blocks = Math.ceil(logits.length / blockSize)
  const blockMasses = Float32Array.from({ length: blocks }, (_, block) =>
    logits
      .subarray(block * blockSize, (block + 1) * blockSize)
      .reduce((sum, logit) => sum + Math.exp((logit - logits[argMax]!) * inverse), 0),
  )
  return {
    logits,
    argMax,
    logNormalizer: logSumExp(logits, 1),
    temperedLogNormalizer: logSumExp(logits, inverse),
    blockMasses,
    blockSize,
  }
}
