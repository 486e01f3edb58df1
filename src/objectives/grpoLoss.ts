/** The clipped policy-gradient loss of GRPO with its metrics. */
import * as tf from '@tensorflow/tfjs'
import { masked, maskedLogSumExp, maskedSum } from '../engine/masked.js'

export interface GRPOLossOptions {
  /** How far the ratio may go: `e` for `1 - e .. 1 + e`, or `[low, high]` for `1 - low .. 1 + high`. Default 0.2. */
  readonly clipEpsilon?: number | readonly [low: number, high: number]
  /** Mean over all tokens, or mean over completions of their means. Default `token-mean`. */
  readonly aggregation?: 'token-mean' | 'prompt-mean'
  /** Weight of the entropy bonus. Default 0: none. */
  readonly entropyCoefficient?: number
  /** Weight of the divergence to the reference model (k3). Default 0: none. */
  readonly klToRefCoefficient?: number
  /** Weight of the divergence to the policy that sampled (k3). Default 0: none. */
  readonly klToInferenceCoefficient?: number
  /** Leave out tokens with `(log pi - log pi_old)^2 / 2` above this. */
  readonly klMaskThreshold?: number
}

/** Axes: B completions, T tokens. All float32; log-probabilities in nats. */
export interface GRPOLossInput {
  /** `[B, T]` under the policy that is trained. */
  readonly logProbs: tf.Tensor
  /** `[B, T]` under the policy that sampled. */
  readonly oldLogProbs: tf.Tensor
  /** `[B, 1]`, or `[B, T]`. */
  readonly advantages: tf.Tensor
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /** `[B, T]`, for the divergence to the reference. */
  readonly refLogProbs?: tf.Tensor
  /** `[B, T]`, for the bonus and the metric. */
  readonly entropy?: tf.Tensor
  /**
   * What to divide by, scalars: tokens and completions of the whole mini-batch, so that micro-batches add up to it. By default those
   * of this input.
   */
  readonly counts?: GRPOCounts
}

export interface GRPOCounts {
  readonly tokens: tf.Tensor
  readonly completions: tf.Tensor
}

/**
 * TorchRL's fields. The losses are scalars to be added up (`totalLoss`). Metrics are means over the tokens that count: neither the
 * prompt nor padding dilutes them. TorchRL divides by all `B * T` places: multiply by `tokens / (B * T)` to compare.
 */
export interface GRPOLossOutput {
  readonly lossObjective: tf.Tensor
  /** Share of tokens whose ratio is outside the clip range. */
  readonly clipFraction: tf.Tensor
  /** Mean of `log pi_old - log pi`. */
  readonly klApprox: tf.Tensor
  /** `log sum w` and `log sum w^2` of the ratios: their effective sample size is `essOf`. */
  readonly logSumWeights: tf.Tensor
  readonly logSumSquaredWeights: tf.Tensor
  readonly tokens: tf.Tensor
  readonly entropy?: tf.Tensor
  readonly lossEntropy?: tf.Tensor
  readonly klToRef?: tf.Tensor
  readonly lossKlToRef?: tf.Tensor
  readonly klToInference?: tf.Tensor
  readonly lossKlToInference?: tf.Tensor
}

/** A loss with its settings checked. */
export interface GRPOLoss {
  readonly options: GRPOLossOptions
  /** The tokens that count, float32 `[B, T]`: those of the mask that `klMaskThreshold` keeps. A constant: no gradient flows into it. */
  readonly counted: (input: Pick<GRPOLossInput, 'logProbs' | 'oldLogProbs' | 'mask'>) => tf.Tensor
  readonly apply: (input: GRPOLossInput) => GRPOLossOutput
}

const clipRange = (epsilon: number | readonly [number, number]): readonly [number, number] => {
  const [low, high] = typeof epsilon === 'number' ? [epsilon, epsilon] : epsilon
  if (!(low >= 0 && low < 1 && high >= 0)) {
    throw new RangeError(`GRPOLoss: clipEpsilon must have 0 <= low < 1 and high >= 0, got ${low} and ${high}`)
  }
  return [low, high]
}

const checkShapes = ({ logProbs, oldLogProbs, advantages, mask }: GRPOLossInput): void => {
  const [b, t] = logProbs.shape
  const same = [oldLogProbs, mask].every((x) => x.shape.join() === logProbs.shape.join())
  const fits =
    advantages.rank === 2 && advantages.shape[0] === b && (advantages.shape[1] === 1 || advantages.shape[1] === t)
  if (logProbs.rank !== 2 || !same || !fits) {
    throw new Error(
      `GRPOLoss: expected logProbs, oldLogProbs and mask [B, T] and advantages [B, 1] or [B, T], got ` +
        [logProbs, oldLogProbs, mask, advantages].map((x) => `[${x.shape.join()}]`).join(', '),
    )
  }
}

/** `e^d - 1 - d`: unbiased and never negative (Schulman 2020, "Approximating KL divergence", k3). `d = log target - log pi`. */
export const k3 = (difference: tf.Tensor): tf.Tensor => tf.sub(tf.sub(tf.exp(difference), 1), difference)

/**
 * Effective sample size as a share of the tokens, in (0, 1]: `(sum w)^2 / (n sum w^2)`. 0 if no token counts.
 *
 * @example
 * essOf({ logSumWeights: Math.log(2), logSumSquaredWeights: Math.log(2), tokens: 2 }) // 1
 */
export const essOf = (parts: {
  readonly logSumWeights: number
  readonly logSumSquaredWeights: number
  readonly tokens: number
}): number => (parts.tokens === 0 ? 0 : Math.exp(2 * parts.logSumWeights - parts.logSumSquaredWeights) / parts.tokens)

/** The sum of all loss terms: what is differentiated. */
export const totalLoss = (output: GRPOLossOutput): tf.Tensor =>
  [output.lossEntropy, output.lossKlToRef, output.lossKlToInference].reduce<tf.Tensor>(
    (sum, term) => (term === undefined ? sum : tf.add(sum, term)),
    output.lossObjective,
  )

interface Context {
  readonly input: GRPOLossInput
  readonly mask: tf.Tensor
  readonly counts: GRPOCounts
  /** Mean over tokens that count. */
  readonly mean: (x: tf.Tensor) => tf.Tensor
  /** The loss's own aggregation. */
  readonly aggregate: (x: tf.Tensor) => tf.Tensor
}

const divergence = (
  context: Context,
  target: tf.Tensor,
  coefficient: number,
): { readonly kl: tf.Tensor; readonly loss: tf.Tensor } => {
  const difference = masked(tf.sub(target, context.input.logProbs), context.mask)
  const kl = context.mean(k3(difference))
  return { kl, loss: tf.mul(kl, coefficient) }
}

const optionalTerms = (context: Context, options: GRPOLossOptions): Partial<GRPOLossOutput> => {
  const { entropyCoefficient = 0, klToRefCoefficient = 0, klToInferenceCoefficient = 0 } = options
  const { entropy, refLogProbs, oldLogProbs } = context.input
  if (entropyCoefficient !== 0 && entropy === undefined) throw new Error('GRPOLoss: the entropy bonus needs `entropy`')
  if (klToRefCoefficient !== 0 && refLogProbs === undefined) throw new Error('GRPOLoss: klToRef needs `refLogProbs`')
  const toRef = refLogProbs && divergence(context, refLogProbs, klToRefCoefficient)
  const toInference = klToInferenceCoefficient !== 0 && divergence(context, oldLogProbs, klToInferenceCoefficient)
  return {
    ...(entropy && { entropy: context.mean(entropy) }),
    ...(entropy &&
      entropyCoefficient !== 0 && { lossEntropy: tf.mul(context.aggregate(entropy), -entropyCoefficient) }),
    ...(toRef && { klToRef: toRef.kl }),
    ...(toRef && klToRefCoefficient !== 0 && { lossKlToRef: toRef.loss }),
    ...(toInference && { klToInference: toInference.kl, lossKlToInference: toInference.loss }),
  }
}

/**
 * The loss of GRPO.
 *
 * Per token, with the ratio `w = pi / pi_old`: `J = min(w A, clip(w, 1 - low, 1 + high) A)`; the loss is `-J`, aggregated over the tokens that
 * count. To it come, where their coefficients are not 0: `- entropyCoefficient * H` in the same aggregation, and k3 divergences to
 * the reference and to the sampling policy as means over tokens.
 *
 * Shapes   see `GRPOLossInput` and `GRPOLossOutput`.
 * Errors   throws RangeError for a clip range that makes no sense, Error for shapes that do not fit (both named) or a term without its input.
 * Edges    without any token that counts, every loss and metric is 0 and so is the gradient; what is under the mask never matters.
 * Source   Shao et al. 2024, arXiv:2402.03300, equation 3; asymmetric clipping: Yu et al. 2025, arXiv:2503.14476 (DAPO), section 3.1;
 *          TorchRL `GRPOLoss`, undiluted.
 */
export const GRPOLoss = (options: GRPOLossOptions = {}): GRPOLoss => {
  const { clipEpsilon = 0.2, aggregation = 'token-mean', klMaskThreshold } = options
  const [low, high] = clipRange(clipEpsilon)
  const [logLow, logHigh] = [Math.log1p(-low), Math.log1p(high)]

  const counted: GRPOLoss['counted'] = ({ logProbs, oldLogProbs, mask }) => {
    if (klMaskThreshold === undefined) return mask
    // A function of a constant: the tape does not see that its value depends on the parameters.
    const constant = tf.customGrad(() => {
      const logRatio = masked(tf.sub(logProbs, oldLogProbs), mask)
      const near = tf.lessEqual(tf.mul(tf.square(logRatio), 0.5), klMaskThreshold)
      return { value: tf.mul(mask, tf.cast(near, 'float32')), gradFunc: (dy: tf.Tensor) => tf.zerosLike(dy) }
    })
    return constant(tf.scalar(0))
  }

  const contextOf = (input: GRPOLossInput): Context => {
    const mask = counted(input)
    const counts = input.counts ?? { tokens: tf.sum(mask), completions: tf.scalar(input.logProbs.shape[0]!) }
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(maskedSum(x, mask), tf.maximum(counts.tokens, 1))
    const meanOfMeans = (x: tf.Tensor): tf.Tensor => {
      const rows = tf.div(tf.sum(masked(x, mask), -1), tf.maximum(tf.sum(mask, -1), 1))
      return tf.div(tf.sum(rows), tf.maximum(counts.completions, 1))
    }
    return { input, mask, counts, mean, aggregate: aggregation === 'token-mean' ? mean : meanOfMeans }
  }

  return {
    options,
    counted,
    apply: (input) => {
      checkShapes(input)
      const logRatio = masked(tf.sub(input.logProbs, input.oldLogProbs), input.mask)
      const clipped = tf.clipByValue(logRatio, logLow, logHigh)
      const context = contextOf(input)
      const advantages = masked(input.advantages, input.mask)
      const objective = tf.minimum(tf.mul(tf.exp(logRatio), advantages), tf.mul(tf.exp(clipped), advantages))
      return {
        lossObjective: tf.neg(context.aggregate(objective)),
        clipFraction: context.mean(tf.cast(tf.notEqual(logRatio, clipped), 'float32')),
        klApprox: context.mean(tf.neg(logRatio)),
        logSumWeights: maskedLogSumExp(logRatio, context.mask),
        logSumSquaredWeights: maskedLogSumExp(tf.mul(logRatio, 2), context.mask),
        tokens: tf.sum(context.mask),
        ...optionalTerms(context, options),
      }
    },
  }
}
