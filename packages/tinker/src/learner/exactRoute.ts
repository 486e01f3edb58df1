/** Any loss of log-probabilities on a Tinker server: its gradient is computed here. */
import { type Either, isLeft, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { LogProbGradient } from 'tandem-rl/objectives'
import type { TinkerFailure } from '../client/calls.js'
import { undoFactors } from '../client/gradientSums.js'
import type { Pending } from '../client/pending.js'
import { type TinkerTrainer, weightless } from '../client/trainer.js'
import { type Datum, type ForwardBackwardOutput, floatTensor } from '../protocol/values.js'

/** A gradient that the server has accepted. */
export interface ExactBackward<G extends LogProbGradient> {
  /** The result of the loss function. */
  readonly computed: G
  readonly pending: Pending<ForwardBackwardOutput>
}

/** Data whose gradient is that of a loss with the given derivatives. */
const gradientData = (
  { gradients: sums }: TinkerTrainer,
  data: readonly Datum[],
  { logProbs, gradients }: { readonly logProbs: readonly Float32Array[] } & LogProbGradient,
): readonly Datum[] => {
  const factors = undoFactors(sums, data)
  return data.map(({ tokens, inputs }, i) => {
    const weights = floatTensor(Float32Array.from(gradients[i]!, (x) => -x * factors[i]!))
    const target_tokens = inputs.target_tokens!
    return sums.lossFn === 'cross_entropy'
      ? { tokens, inputs: { target_tokens, weights } }
      : { tokens, inputs: { target_tokens, logprobs: floatTensor(logProbs[i]!), advantages: weights } }
  })
}

/** Log-probabilities of the targets, in nats: one row for each datum. */
export const forwardLogProbs =
  (trainer: TinkerTrainer, data: readonly Datum[]): TaskEither<TinkerFailure, readonly Float32Array[]> =>
  async () => {
    const pending = await trainer.forward({ data: data.map(weightless), lossFn: 'cross_entropy' })()
    if (isLeft(pending)) return pending
    const output = await pending.right.result()
    return isLeft(output)
      ? output
      : right(output.right.outputs.map(({ logprobs }) => Float32Array.from(logprobs!.data)))
  }

/**
 * Computes the gradient of any loss of log-probabilities on a server that has only cross-entropy.
 *
 * The server computes log-probabilities, `loss` their derivative, and the server the gradient of
 * `sum_t w_t (-log p_t)` with `w_t = -dL / dlog p_t`, which is the gradient of the loss. A server
 * that divides by the sum of weights gets `w_t` as advantages of `importance_sampling` with these
 * log-probabilities. Its ratio is 1, so it has the same gradient. Averages are undone by factors,
 * so call this once for each optimizer step there.
 *
 * Equation $\nabla_\theta L = \sum_t \frac{\partial L}{\partial \log p_t} \nabla_\theta \log p_t$
 * Cost     one forward pass more than a loss that the server has.
 * Source   `forward_backward_custom` of the Python SDK.
 */
export const exactBackward =
  <F, G extends LogProbGradient>(
    trainer: TinkerTrainer,
    data: readonly Datum[],
    loss: (logProbs: readonly Float32Array[]) => Either<F, G>,
  ): TaskEither<TinkerFailure | F, ExactBackward<G>> =>
  async () => {
    const logProbs = await forwardLogProbs(trainer, data)()
    if (isLeft(logProbs)) return logProbs
    const computed = loss(logProbs.right)
    if (isLeft(computed)) return computed
    const { gradients } = computed.right
    const weighted = gradientData(trainer, data, { logProbs: logProbs.right, gradients })
    const pending = await trainer.forwardBackward({ data: weighted, lossFn: trainer.gradients.lossFn })()
    return isLeft(pending) ? pending : right({ computed: computed.right, pending: pending.right })
  }
