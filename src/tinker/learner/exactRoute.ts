/**
 * Any loss of log-probabilities on a Tinker server: its gradient is computed here.
 *
 * This folder holds a learner and a policy on a Tinker server. It does not hold the client
 * (`../client`) or losses (`src/objectives`).
 */
import { type Either, isLeft, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TinkerFailure } from '../client/calls.js'
import type { Pending } from '../client/pending.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { type Datum, type ForwardBackwardOutput, floatTensor } from '../protocol/values.js'

/** A loss of log-probabilities, and its derivative by each of them. */
export interface LogProbGradient {
  /** One row for each datum, one number for each token. */
  readonly gradients: readonly ArrayLike<number>[]
}

/** A gradient that the server has accepted. */
export interface ExactBackward<G extends LogProbGradient> {
  /** The result of the loss function. */
  readonly computed: G
  readonly pending: Pending<ForwardBackwardOutput>
}

/** Log-probabilities of the targets, in nats: one row for each datum. */
export const forwardLogProbs =
  (trainer: TinkerTrainer, data: readonly Datum[]): TaskEither<TinkerFailure, readonly Float32Array[]> =>
  async () => {
    const weightless = data.map(({ tokens, inputs }) => ({
      tokens,
      inputs: { target_tokens: inputs.target_tokens!, weights: floatTensor(new Float32Array(tokens.length)) },
    }))
    const pending = await trainer.forward({ data: weightless, lossFn: 'cross_entropy' })()
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
 * `sum_t w_t (-log p_t)` with `w_t = -dL / dlog p_t`, which is the gradient of the loss.
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
    const weighted = data.map(({ tokens, inputs }, i) => ({
      tokens,
      inputs: {
        target_tokens: inputs.target_tokens!,
        weights: floatTensor(Float32Array.from(computed.right.gradients[i]!, (x) => -x)),
      },
    }))
    const pending = await trainer.forwardBackward({ data: weighted, lossFn: 'cross_entropy' })()
    return isLeft(pending) ? pending : right({ computed: computed.right, pending: pending.right })
  }
