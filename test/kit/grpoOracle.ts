/** GRPO's loss in float64 on plain arrays: slow and obvious. */
import type { GRPOLossOptions } from '../../src/objectives/grpoLoss.js'

export interface GRPOCase {
  /** `[B * T * V]` */
  readonly logits: readonly number[]
  /** `[B * T]` */
  readonly tokens: readonly number[]
  readonly mask: readonly number[]
  readonly old: readonly number[]
  readonly reference: readonly number[]
  /** `[B]` */
  readonly advantages: readonly number[]
  readonly vocabulary: number
}

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0)

/** All outputs of the loss by name, `ess` included. */
export const grpoOracle = (given: GRPOCase, options: GRPOLossOptions): Readonly<Record<string, number>> => {
  const { aggregation = 'token-mean', klMaskThreshold = Number.POSITIVE_INFINITY, clipEpsilon = 0.2 } = options
  const [low, high] = typeof clipEpsilon === 'number' ? [clipEpsilon, clipEpsilon] : clipEpsilon
  const places = given.tokens.map((_, i) => i)
  const width = places.length / given.advantages.length
  const logSoftmax = places.map((i) => {
    const row = given.logits.slice(i * given.vocabulary, (i + 1) * given.vocabulary)
    const logSum = Math.log(sum(row.map(Math.exp)))
    return row.map((x) => x - logSum)
  })
  const logProbs = places.map((i) => logSoftmax[i]![given.tokens[i]!]!)
  const counted = places.filter((i) => given.mask[i] === 1)
  const ratio = (i: number): number => logProbs[i]! - given.old[i]!
  const kept = counted.filter((i) => 0.5 * ratio(i) ** 2 <= klMaskThreshold)
  const clip = (x: number): number => Math.min(Math.max(x, Math.log(1 - low)), Math.log(1 + high))
  const mean = (f: (i: number) => number, over: readonly number[]): number =>
    sum(over.map(f)) / Math.max(1, over.length)
  const aggregate = (f: (i: number) => number): number =>
    aggregation === 'token-mean'
      ? mean(f, kept)
      : sum(
          given.advantages.map((_, b) =>
            mean(
              f,
              kept.filter((i) => Math.floor(i / width) === b),
            ),
          ),
        ) / given.advantages.length
  const objective = (i: number): number => {
    const advantage = given.advantages[Math.floor(i / width)]!
    return Math.min(Math.exp(ratio(i)) * advantage, Math.exp(clip(ratio(i))) * advantage)
  }
  const entropy = (i: number): number => -sum(logSoftmax[i]!.map((x) => Math.exp(x) * x))
  const k3 =
    (target: readonly number[]) =>
    (i: number): number => {
      const d = target[i]! - logProbs[i]!
      return Math.exp(d) - 1 - d
    }
  const weights = kept.map((i) => Math.exp(ratio(i)))
  const toRef = mean(k3(given.reference), kept)
  const toInference = mean(k3(given.old), kept)
  return {
    lossObjective: -aggregate(objective),
    clipFraction: mean((i) => (clip(ratio(i)) === ratio(i) ? 0 : 1), counted),
    klApprox: mean((i) => -ratio(i), counted),
    ess: weights.length === 0 ? 0 : sum(weights) ** 2 / sum(weights.map((w) => w * w)) / weights.length,
    entropy: mean(entropy, kept),
    lossEntropy: -(options.entropyCoefficient ?? 0) * aggregate(entropy),
    klToRef: toRef,
    lossKlToRef: (options.klToRefCoefficient ?? 0) * toRef,
    klToInference: toInference,
    lossKlToInference: (options.klToInferenceCoefficient ?? 0) * toInference,
  }
}
