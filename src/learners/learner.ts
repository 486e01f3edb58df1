/** The contract of a learner: batches in, weights out. */
import type { Failure, FileFailure, Files, Json, ModelFailure } from '@tandem-rl/base'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Absent, Needs } from '../data/needs.js'
import type { Ragged } from '../data/tensorDict/leaf.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../data/weights.js'
import type { CompletionEntries } from '../objectives/lossRows.js'
import type { CorrectionMetrics } from '../objectives/rolloutCorrection.js'
import type { TrainedTokens } from './steps/trainedTokens.js'

/**
 * A failed operation of a learner. `non-finite`: the loss or the gradient is NaN or infinite.
 * `thread`: a thread could not start or has ended. `state`: a checkpoint or a batch does not belong
 * to this learner. `server`: the server that trains failed.
 */
export interface LearnerFailure {
  readonly _tag: 'LearnerFailure'
  readonly learner: string
  readonly kind: 'non-finite' | 'thread' | 'state' | 'server'
  readonly reason: string
  readonly cause?: Failure
}

/** The result of one update. `M` are the metrics of an optimizer step. */
export interface Update<out M> {
  /** Number of updates done, including this one. */
  readonly version: number
  readonly learningRate: number
  /** The metrics of all optimizer steps combined. */
  readonly metrics: M
  /** One entry for each optimizer step, in order. */
  readonly steps: readonly M[]
  /** Statistics of the off-policy correction, or `null` without one. */
  readonly correction: CorrectionMetrics | null
  /** Numbers of the batch's tokens, if the learner measures them. */
  readonly tokens?: TrainedTokens
}

declare const BATCH: unique symbol

/**
 * A learner: it computes gradients and owns the weights and the optimizer state.
 *
 * Two learners with equal descriptions that train on equal batches in the same order have equal
 * weights, bit for bit. The same holds for a learner restored from the files of another.
 */
export interface Learner<in B, out M> {
  /** Present in types only. */
  readonly [BATCH]?: ((entries: B) => void) | undefined
  readonly name: string
  /** Its settings, without functions. Runs store it, and compare it when they resume. */
  readonly description: Json
  /** Lines about options that were left open, each with its value and the reason, for people. */
  readonly choices?: readonly string[]
  /** Dotted names of the entries that every batch must have. */
  readonly reads: readonly string[]
  /**
   * Trains on a batch.
   *
   * Errors   `Left(LearnerFailure)`; the weights are then those of the last successful optimizer
   *          step. Rejects with RangeError for a batch with missing entries (all are listed), for
   *          rows that do not match each other, and while another update is running.
   */
  readonly update: <S extends Needs<Absent<B, S>, B>>(batch: TensorDict<S>) => TaskEither<LearnerFailure, Update<M>>
  /**
   * Computes log-probabilities of `tokens.response` under the current weights, in nats, at the
   * temperature of the batch.
   */
  readonly logProbs: (batch: TensorDict<CompletionEntries>) => TaskEither<LearnerFailure, Ragged<'float32'>>
  /**
   * Returns all weights that a policy needs, including frozen ones. Valid until the next update;
   * `own` keeps them longer.
   */
  readonly weights: () => NamedTensors
  /** Returns the number of updates done. */
  readonly version: () => number
  /**
   * Returns the contents of a checkpoint by file name: the model or adapter, the optimizer, and
   * `learner.json`.
   */
  readonly files: () => Readonly<Record<string, Uint8Array | string>>
  /**
   * Continues from the files of a checkpoint.
   *
   * Errors   `Left` that names the missing or malformed file, or the one of another model or
   *          optimizer. The learner is then unchanged.
   */
  readonly restore: (folder: string, files: Files) => TaskEither<FileFailure | ModelFailure | LearnerFailure, void>
  /** Ends its threads and frees its tensors. */
  readonly close: () => Promise<void>
}
