/** A policy loss composed of a token objective, an aggregation, KL terms and entropy. */
import { checkOptions, exportOf, moduleExport, notAWeight, refuse } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { masked, maskedLogSumExp } from '../data/tensorDict/masked.js'
import { defineLoss, type Loss, type LossOutput, type ModelOutputs } from './loss.js'
import type { EntriesOf } from './lossRows.js'
import { POLICY_LOSS_KL_OPTIONS, POLICY_LOSS_OPTIONS } from './optionKinds.js'
import { combineUpdates, POLICY_REDUCTIONS, policyMetrics, type StepMetrics } from './policyMetrics.js'
import {
  type Aggregation,
  aggregate,
  checkAggregation,
  countsOf,
  type LossCounts,
  tokenMean,
} from './tokenLosses/aggregation.js'
import { clippedSurrogate } from './tokenLosses/clippedSurrogate.js'
import { type KLForm, klTerm } from './tokenLosses/klForms.js'
import { limited, type TokenObjective, type TokenTerms } from './tokenLosses/tokenObjective.js'

/** A KL divergence that is added to the loss. */
export interface KLTerm {
  /** The reference model, or the policy that sampled. */
  readonly to: 'reference' | 'behavior'
  /** Default k3. */
  readonly form?: KLForm
  /** With 0 the divergence is only measured. */
  readonly coefficient: number
  /** `loss` uses the aggregation of the objective. Default `loss`. */
  readonly aggregation?: 'loss' | 'token-mean'
  /**
   * `ratio` multiplies each token's divergence by `pi / pi_old`, with its gradient: unbiased if
   * `pi_old` sampled the tokens (DeepSeek-V3.2, arXiv:2512.02556, section 3.1). Default `none`.
   */
  readonly correction?: 'none' | 'ratio'
}

export interface PolicyLossOptions {
  /** Default `clippedSurrogate()`. */
  readonly objective?: TokenObjective
  /** Default: the aggregation that the objective requires, else `token-mean`. */
  readonly aggregation?: Aggregation
  /** At most one for each of the two policies. */
  readonly kl?: readonly KLTerm[]
  /** Weight of the entropy bonus. Default 0: none. */
  readonly entropyCoefficient?: number
  /** `loss` uses the aggregation of the objective. Default `loss`. */
  readonly entropyAggregation?: 'loss' | 'token-mean'
  /** Masks tokens with `(log pi - log pi_old)^2 / 2` above this threshold. */
  readonly klMaskThreshold?: number
}

/** Axes: B completions, T tokens. All float32; log-probabilities in nats. */
export interface PolicyLossInput {
  /** `[B, T]`: the denominator of the ratio, of the sampler or of the trainer before the update. */
  readonly oldLogProbs: tf.Tensor
  /** `[B, T]` under the policy that sampled, if `oldLogProbs` are of another policy. */
  readonly behaviorLogProbs?: tf.Tensor
  /** `[B, 1]`, or `[B, T]`. */
  readonly advantages: tf.Tensor
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /** `[B, T]`, for the divergence to the reference. */
  readonly refLogProbs?: tf.Tensor
  /** `[B, T]`: factors of the objectives, such as those of `rolloutCorrection`. Default 1. */
  readonly weights?: tf.Tensor
  /** `[B, T]`, uniform in [0, 1), for objectives that choose tokens at random. */
  readonly noise?: tf.Tensor
  /** `[B, T]`: the tokens that `choose` chose in the mini-batch. Default: chosen in this input. */
  readonly chosen?: tf.Tensor
  /** The divisors, so that micro-batches add up to a mini-batch. Default: those of this input. */
  readonly counts?: LossCounts
}

/**
 * The fields of TorchRL and further ones. The losses are scalars to add up (`totalLoss`). Metrics
 * are means over the unmasked tokens. TorchRL divides by all positions instead, prompt and padding
 * included: multiply by `tokens / (B * T)` to compare.
 */
export interface PolicyLossOutput extends LossOutput {
  readonly lossObjective: tf.Tensor
  /** Share of tokens whose ratio is outside the objective's range. */
  readonly clipFraction: tf.Tensor
  /** Share of tokens whose gradient was clipped to 0, and `[B, T]`: 1 for these tokens, else 0. */
  readonly pgClipFraction: tf.Tensor
  readonly clippedTokens: tf.Tensor
  /** Mean of `log pi_old - log pi`. */
  readonly klApprox: tf.Tensor
  /** `log sum w` and `log sum w^2` of the ratios, for their effective sample size (`essOf`). */
  readonly logSumWeights: tf.Tensor
  readonly logSumSquaredWeights: tf.Tensor
  readonly tokens: tf.Tensor
  /** Largest distance of log-probabilities from those of the policy that sampled, in nats. */
  readonly maxLogProbGap: tf.Tensor
  readonly entropy?: tf.Tensor
  readonly lossEntropy?: tf.Tensor
  readonly klToRef?: tf.Tensor
  readonly lossKlToRef?: tf.Tensor
  readonly klToInference?: tf.Tensor
  readonly lossKlToInference?: tf.Tensor
}

/** The batch of a policy loss: a collected batch with advantages. */
export type PolicyBatch = EntriesOf<'oldLogProbs' | 'advantages'>

/** The outputs of the model that policy losses use. */
export type PolicyOutputs = Pick<ModelOutputs, 'logProbs'> & Partial<Pick<ModelOutputs, 'entropy'>>

/** A policy loss with validated settings. */
export interface PolicyLoss extends Loss<PolicyBatch, StepMetrics, PolicyLossInput> {
  readonly apply: (model: PolicyOutputs, batch: PolicyLossInput) => PolicyLossOutput
}

const shapesOf = (tensors: readonly (tf.Tensor | undefined)[]): string =>
  tensors.map((x) => (x === undefined ? 'none' : `[${x.shape.join()}]`)).join(', ')

const checkShapes = (name: string, { logProbs, entropy }: PolicyOutputs, input: PolicyLossInput): void => {
  const { oldLogProbs, advantages, mask } = input
  const [b, t] = logProbs.shape
  const optional = [input.behaviorLogProbs, input.refLogProbs, entropy, input.noise, input.weights, input.chosen]
  const isSame = [oldLogProbs, mask, ...optional].every(
    (x) => x === undefined || x.shape.join() === logProbs.shape.join(),
  )
  const fits =
    advantages.rank === 2 && advantages.shape[0] === b && (advantages.shape[1] === 1 || advantages.shape[1] === t)
  if (logProbs.rank !== 2 || !isSame || !fits) {
    throw new RangeError(
      `${name}: expected logProbs, oldLogProbs and mask [B, T] and advantages [B, 1] or [B, T], got ` +
        `${shapesOf([logProbs, oldLogProbs, mask, advantages])}; behaviorLogProbs, refLogProbs, entropy, noise, weights and chosen ${shapesOf(optional)}`,
    )
  }
}

/** Errors: as `checkOptions`, for the settings and for each divergence. */
const checkKinds = (name: string, options: PolicyLossOptions): void => {
  checkOptions(name, options, POLICY_LOSS_OPTIONS)
  for (const term of options.kl ?? []) checkOptions(`${name}, kl`, term, POLICY_LOSS_KL_OPTIONS)
}

const checkedAggregation = (name: string, options: PolicyLossOptions, objective: TokenObjective): Aggregation => {
  checkKinds(name, options)
  const { aggregation = objective.aggregation ?? 'token-mean', kl = [] } = options
  const { entropyCoefficient = 0, klMaskThreshold = 0 } = options
  checkAggregation(name, aggregation)
  const targets = kl.map(({ to }) => to)
  refuse(name, [
    objective.aggregation !== null &&
      aggregation !== objective.aggregation &&
      `${objective.name} is a loss of sequences: its aggregation is ${objective.aggregation}`,
    new Set(targets).size < targets.length && 'two divergences to the same policy',
    ...kl.map(({ to, coefficient }) =>
      notAWeight(`the coefficient of the divergence to the ${to} policy`, coefficient),
    ),
    !Number.isFinite(entropyCoefficient) && `entropyCoefficient must be finite, got ${entropyCoefficient}`,
    notAWeight('klMaskThreshold', klMaskThreshold),
  ])
  return aggregation
}

/** The tensors of a loss: outputs of the model, and those of the batch. */
interface Given extends PolicyLossInput {
  readonly logProbs: tf.Tensor
  readonly entropy?: tf.Tensor
}

/** Replaces an empty input by one masked token, because operations fail without elements. */
const withPlaces = (input: Given): Given => {
  const [b = 0, t = 0] = input.logProbs.shape
  if (b > 0 && t > 0) return input
  const none = tf.zeros([Math.max(b, 1), Math.max(t, 1)])
  return {
    logProbs: tf.add(none, tf.sum(input.logProbs)),
    oldLogProbs: none,
    advantages: none,
    mask: none,
    counts: input.counts ?? countsOf(input.mask),
    ...(input.refLogProbs && { refLogProbs: none }),
    ...(input.entropy && { entropy: none }),
    ...(input.noise && { noise: none }),
  }
}

interface Context {
  readonly input: Given
  readonly mask: tf.Tensor
  /** Computes the mean over unmasked tokens. */
  readonly mean: (x: tf.Tensor) => tf.Tensor
  /** Applies the loss's own aggregation. */
  readonly aggregate: (x: tf.Tensor) => tf.Tensor
}

/** Computes the KL terms, and the one to the reference as a metric if its input is present. */
const klTerms = (
  { input, mask, mean, aggregate }: Context,
  requested: readonly KLTerm[],
): Partial<PolicyLossOutput> => {
  const isRequested = requested.some(({ to }) => to === 'reference')
  const metric: readonly KLTerm[] =
    isRequested || input.refLogProbs === undefined ? [] : [{ to: 'reference', coefficient: 0 }]
  const ordered = [...requested, ...metric].toSorted(
    (a, b) => Number(a.to === 'behavior') - Number(b.to === 'behavior'),
  ) // the order of the sum
  const outputs = ordered.map(({ to, form = 'k3', coefficient, aggregation = 'loss', correction = 'none' }) => {
    const target = to === 'reference' ? input.refLogProbs! : (input.behaviorLogProbs ?? input.oldLogProbs) // checked by `apply`
    const away = (from: tf.Tensor): tf.Tensor => masked(tf.sub(input.logProbs, from), mask)
    const plain = klTerm(form, away(target))
    const each = correction === 'none' ? plain : tf.mul(plain, tf.exp(limited(away(input.oldLogProbs))))
    const kl = mean(each)
    const loss = tf.mul(aggregation === 'loss' ? aggregate(each) : kl, coefficient)
    const hasLoss = coefficient !== 0
    return to === 'reference'
      ? { klToRef: kl, ...(hasLoss && { lossKlToRef: loss }) }
      : { klToInference: kl, ...(hasLoss && { lossKlToInference: loss }) }
  })
  return Object.assign({}, ...outputs) as Partial<PolicyLossOutput> // the fields of each are fields of it
}

const termsOf = ({ input, mask }: Context): TokenTerms => {
  const { noise, chosen } = input
  const logProbs = masked(input.logProbs, mask)
  const oldLogProbs = masked(input.oldLogProbs, mask)
  return {
    logProbs,
    oldLogProbs,
    logRatio: tf.sub(logProbs, oldLogProbs),
    advantages: masked(input.advantages, mask),
    mask,
    tokens: tf.sum(mask),
    ...(noise && { noise: masked(noise, mask) }),
    ...(chosen && { chosen: masked(chosen, mask) }),
  }
}

const missingNoise = (objective: TokenObjective, { noise }: PolicyLossInput): string | false =>
  objective.noise === 'uniform' && noise === undefined && `${objective.name} needs \`noise\``

/** Returns the measures of the tokens of a micro-batch. */
const tokensOf: NonNullable<PolicyLoss['measures']['tokens']> = (
  { logProbs, entropy },
  { oldLogProbs, mask },
  output,
) => ({
  logProbs,
  entropies: entropy,
  ratios: tf.exp(limited(tf.mul(tf.sub(logProbs, oldLogProbs), mask))),
  clipped: output.clippedTokens!, // `apply` has it
})

const POLICY_MEASURES: PolicyLoss['measures'] = {
  reduce: POLICY_REDUCTIONS,
  metrics: policyMetrics,
  combine: combineUpdates,
  tokens: tokensOf,
}

/**
 * Creates a policy-gradient loss.
 *
 * The objective gives a loss for each token, and the aggregation reduces the unmasked ones to one
 * number. An entropy bonus and KL divergences are added if their coefficients are not 0, in the
 * same aggregation unless set otherwise.
 *
 * Equation $L = \operatorname{agg}_t(u_t \ell_t) - c_H \operatorname{agg}_t(H_t) + \sum_q c_q \operatorname{agg}_t(k(\log \pi_t - \log q_t))$
 * Gradient $\partial L / \partial \log \pi_t$ is the sum of the gradients of its parts, each times
 *          the weight that the aggregation gives to token t
 * When     always: every objective below is a part of it. KL terms and entropy have coefficients
 *          here; weights of off-policy tokens are an input.
 * Used by  all algorithms of `ALGORITHMS`; verl has the same parts as `policy_loss.loss_mode`, `loss_agg_mode`, `use_kl_loss` and `entropy_coeff`
 * Shapes   see `PolicyLossInput` and `PolicyLossOutput`.
 * Errors   throws RangeError for invalid settings, all at creation: an aggregation that the
 *          objective does not support, two divergences to one policy, numbers that are not finite.
 *          `apply` throws RangeError for shapes that do not fit (all named) or a term without its
 *          input. With an objective without a `module`, one thread computes gradients.
 * Edges    without unmasked tokens, every loss and metric is 0 and so is the gradient; masked
 *          values have no effect.
 *
 * @example
 * policyLoss({ aggregation: 'seq-mean-token-mean', kl: [{ to: 'reference', coefficient: 0.04 }] }).name // 'clippedSurrogate'
 */
export const policyLoss = (options: PolicyLossOptions = {}, name = 'policyLoss'): PolicyLoss => {
  const { objective = clippedSurrogate(), kl = [], entropyCoefficient = 0, klMaskThreshold } = options
  const isTokenMean = options.entropyAggregation === 'token-mean'
  const aggregation = checkedAggregation(name, options, objective)
  const needsReference = kl.some(({ to }) => to === 'reference')
  const isObjectiveAlone = entropyCoefficient === 0 && kl.every(({ coefficient }) => coefficient === 0)

  const counted: NonNullable<PolicyLoss['selection']['counted']> = ({ logProbs }, { oldLogProbs, mask }) => {
    if (klMaskThreshold === undefined) return mask
    const logRatio = masked(tf.sub(logProbs, oldLogProbs), mask)
    const near = tf.lessEqual(tf.mul(tf.square(logRatio), 0.5), klMaskThreshold)
    return stopGradient(tf.mul(mask, tf.cast(near, 'float32')))
  }

  const contextOf = (input: Given): Context => {
    const mask = counted(input, input)
    const counts = input.counts ?? countsOf(mask)
    return {
      input,
      mask,
      mean: (x) => tokenMean(x, { mask, counts }),
      aggregate: (x) => aggregate(x, { mask, counts, aggregation }),
    }
  }

  const bonus = ({ input, mean, aggregate }: Context): Partial<PolicyLossOutput> =>
    input.entropy === undefined
      ? {}
      : {
          entropy: mean(input.entropy),
          ...(entropyCoefficient !== 0 && {
            lossEntropy: tf.mul((isTokenMean ? mean : aggregate)(input.entropy), -entropyCoefficient),
          }),
        }

  const check = (model: PolicyOutputs, input: PolicyLossInput): void => {
    checkShapes(name, model, input)
    refuse(name, [
      needsReference && input.refLogProbs === undefined && 'klToRef needs `refLogProbs`',
      missingNoise(objective, input),
      entropyCoefficient !== 0 && model.entropy === undefined && 'the entropy bonus needs `entropy`',
    ])
  }

  const apply: PolicyLoss['apply'] = (model, batch) => {
    check(model, batch)
    const { logProbs, entropy } = model
    const input = withPlaces({ ...batch, logProbs, ...(entropy && { entropy }) })
    const context = contextOf(input)
    const terms = termsOf(context)
    const { losses, outside, cut } = objective.apply(terms)
    const weighted = input.weights === undefined ? losses : tf.mul(losses, masked(input.weights, context.mask))
    const sampled = input.behaviorLogProbs ?? input.oldLogProbs
    return {
      lossObjective: context.aggregate(weighted),
      clipFraction: context.mean(outside),
      pgClipFraction: context.mean(cut),
      clippedTokens: cut,
      klApprox: context.mean(tf.neg(terms.logRatio)),
      logSumWeights: maskedLogSumExp(terms.logRatio, context.mask),
      logSumSquaredWeights: maskedLogSumExp(tf.mul(terms.logRatio, 2), context.mask),
      tokens: tf.sum(context.mask),
      maxLogProbGap: tf.max(masked(tf.abs(tf.sub(input.logProbs, sampled)), input.mask)),
      ...bonus(context),
      ...klTerms(context, kl),
    }
  }

  const [{ choose }, from] = [objective, exportOf(objective)]
  return {
    ...defineLoss<'oldLogProbs' | 'advantages' | 'refLogProbs', StepMetrics, PolicyLossInput, PolicyBatch>({
      name: objective.name,
      options: { ...options, objective: { name: objective.name, options: objective.options ?? null } },
      ...(from && { module: moduleExport(import.meta.url, 'policyLoss', { ...options, objective: from }) }),
      reads: ['oldLogProbs', 'advantages', ...(needsReference ? ['refLogProbs' as const] : [])],
      optional: ['refLogProbs', 'weights'],
      needs: { entropy: entropyCoefficient === 0 ? 'metric' : 'differentiable', noise: objective.noise },
      apply,
      selection: {
        ...(klMaskThreshold !== undefined && { counted }),
        ...(choose && {
          choose: ({ logProbs }, batch) => {
            checkShapes(name, { logProbs }, batch)
            refuse(name, [missingNoise(objective, batch)])
            return batch.mask.size === 0 ? tf.clone(batch.mask) : choose(termsOf(contextOf({ ...batch, logProbs })))
          },
        }),
        atZeroAdvantage: isObjectiveAlone ? (objective.apply.atZeroAdvantage ?? 'computed') : 'computed',
      },
      measures: POLICY_MEASURES,
    }),
    apply,
  }
}
