/** Parts of a run that rate batches by a model before the advantage: values, and log-probabilities of a reference or a teacher. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { temperatureOf } from '../collectors/learners/batchEntries.js'
import type { LocalLearner } from '../collectors/learners/localLearner.js'
import type { CompletionEntries, PreferenceBatch } from '../collectors/learners/lossKinds.js'
import type { Failure } from '../core/failure.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { LogProbModel } from '../data/policy.js'
import type { Data, Ragged } from '../data/tensorDict/leaf.js'
import { get, type TensorDict } from '../data/tensorDict/tensorDict.js'

/** Entries that a rater adds: rows and plain values, which need no owner. */
export interface RatedEntries {
  readonly [name: string]: Ragged | Data<unknown> | RatedEntries
}

/** Adds entries to every batch of a run before the advantage sees it. */
export interface Rater<in B, out E extends RatedEntries> {
  /** Its settings, for run folders. */
  readonly description: Json
  readonly rate: (batch: TensorDict<B>) => TE.TaskEither<Failure, E>
  /** Called once, at the end of the run. */
  readonly close?: () => Promise<void> | void
}

type Response = { readonly response: Ragged<'float32'> }

/** A model that gives log-probabilities, and may hold weights. */
type Scorer = LogProbModel & { readonly release?: () => void }

const scored = (model: Scorer, batch: TensorDict<CompletionEntries>): TE.TaskEither<Failure, Ragged<'float32'>> =>
  model.score(get(batch, 'tokens', 'prompt'), get(batch, 'tokens', 'response'), temperatureOf(batch))

const described = (rater: string, { name }: LogProbModel) => ({ rater, model: name })

/**
 * Writes `values` of every sampled token, by the value head that the learner trains: what `GAE` and `ppoLoss` read.
 *
 * Errors   `rate` throws RangeError for a learner without a value head.
 */
export const valueRater = (
  learner: Pick<LocalLearner<never, unknown>, 'values'>,
): Rater<CompletionEntries, { readonly values: Ragged<'float32'> }> => ({
  description: { rater: 'valueRater' },
  rate: (batch) => TE.fromIO(() => ({ values: learner.values(batch) })),
})

/** Writes `teacherLogProbs.response`, for `DistillationLoss`. Takes the teacher over. */
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

/** Writes `refLogProbs.response` of both sides of preference pairs, for `dpoLoss`. Takes the reference over. */
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
