/**
 * Raters: parts of a run that add model outputs to a batch, such as values or log-probabilities.
 */
import type { Failure, Json } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { temperatureOf } from '../../data/batchRows.js'
import type { LogProbModel } from '../../data/policy.js'
import type { Data, Ragged } from '../../data/tensorDict/leaf.js'
import { get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { LocalLearner } from '../../learners/localLearner.js'
import type { CompletionEntries, PreferenceBatch } from '../../objectives/lossRows.js'

/** Entries that a rater adds: ragged rows and plain values, which need no owner. */
export interface RatedEntries {
  readonly [name: string]: Ragged | Data<unknown> | RatedEntries
}

/** Adds entries to every batch of a run before advantages are computed. */
export interface Rater<in B, out E extends RatedEntries> {
  /** The rater's settings, stored in the run folder. */
  readonly description: Json
  readonly rate: (batch: TensorDict<B>) => TE.TaskEither<Failure, E>
  /** Called once, at the end of the run. */
  readonly close?: () => Promise<void> | void
}

type Response = { readonly response: Ragged<'float32'> }

/** A model that computes log-probabilities, and may hold weights. */
type Scorer = LogProbModel & { readonly release?: () => void }

const scored = (model: Scorer, batch: TensorDict<CompletionEntries>): TE.TaskEither<Failure, Ragged<'float32'>> =>
  model.score(get(batch, 'tokens', 'prompt'), get(batch, 'tokens', 'response'), temperatureOf(batch))

const described = (rater: string, { name }: LogProbModel) => ({ rater, model: name })

/**
 * Makes a rater that writes `values` of every sampled token, from the value head that the learner
 * trains. `GAE` and `ppoLoss` read them.
 *
 * Errors   `rate` throws RangeError if the learner has no value head.
 */
export const valueRater = (
  learner: Pick<LocalLearner<never, unknown>, 'values'>,
): Rater<CompletionEntries, { readonly values: Ragged<'float32'> }> => ({
  description: { rater: 'valueRater' },
  rate: (batch) => TE.fromIO(() => ({ values: learner.values(batch) })),
})

/**
 * Makes a rater that writes `teacherLogProbs.response` for `DistillationLoss`. Owns the teacher.
 */
export const teacherRater = (teacher: Scorer): Rater<CompletionEntries, { readonly teacherLogProbs: Response }> => ({
  description: described('teacherRater', teacher),
  rate: (batch) =>
    pipe(
      scored(teacher, batch),
      TE.map((response) => ({ teacherLogProbs: { response } })),
    ),
  close: () => teacher.release?.(),
})

type PairLogProbs = {
  readonly chosen: { readonly refLogProbs: Response }
  readonly rejected: { readonly refLogProbs: Response }
}

/**
 * Makes a rater that writes `refLogProbs.response` of both sides of preference pairs, for
 * `dpoLoss`. Owns the reference.
 */
export const pairRater = (reference: Scorer): Rater<PreferenceBatch, PairLogProbs> => ({
  description: described('pairRater', reference),
  rate: (batch) =>
    pipe(
      TE.Do,
      TE.bind('chosen', () => scored(reference, get(batch, 'chosen'))),
      TE.bind('rejected', () => scored(reference, get(batch, 'rejected'))),
      TE.map(({ chosen, rejected }) => ({
        chosen: { refLogProbs: { response: chosen } },
        rejected: { refLogProbs: { response: rejected } },
      })),
    ),
  close: () => reference.release?.(),
})
