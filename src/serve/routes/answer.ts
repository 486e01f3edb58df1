/** Answering a request that was accepted: whole, or as a stream. */
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, errorBody, jsonResponse } from '../requests/failure.js'
import type { StreamUsage } from '../requests/fields.js'
import { afterFirst, type Job, type RunningJob, startJob, type WholePrompt, wholeJob } from '../requests/generation.js'
import type { Served } from '../requests/served.js'
import { DONE, eventStream, frame } from '../requests/streams.js'
import type { TokenWriting } from './logProbs.js'

/** What an endpoint makes of its job. */
export interface Answer {
  readonly job: Job
  /** Null for a whole answer. */
  readonly stream: StreamUsage | null
  readonly whole: (prompts: readonly WholePrompt[]) => object
  readonly frames: (running: RunningJob, usage: StreamUsage) => AsyncGenerator<string>
}

/**
 * Runs a job and answers with what came of it.
 *
 * Errors   `Left(ApiFailure)` for what fails before anything was answered; a stream that fails later tells so in a frame of its own.
 * Effects  the job runs in the engine until it ends, or until `signal` aborts.
 */
export const answerJob = async (
  served: Served,
  { job, stream, whole, frames }: Answer,
  signal: AbortSignal,
): Promise<E.Either<ApiFailure, Response>> => {
  const running = startJob(served, job, signal)
  if (stream === null)
    return E.map((all: readonly WholePrompt[]) => jsonResponse(whole(all)))(await wholeJob(running, job))
  return E.map((begun: RunningJob) => eventStream(frames(begun, stream), begun.stop))(await afterFirst(running))
}

/** The end of a stream: the failure that ended it, or else what is told last. */
export function* lastFrames(failure: ApiFailure | undefined, last: object | undefined): Generator<string> {
  if (failure !== undefined) yield frame(errorBody(failure))
  else if (last !== undefined) yield frame(last)
  yield DONE
}

/** How an answer writes tokens. Without log-probabilities nothing is written. */
export const writingOf = (
  served: Served,
  { logProbs, tokensAs }: { readonly logProbs: number | null; readonly tokensAs: TokenWriting['tokens'] },
): TokenWriting => ({
  tokenizer: served.text.tokenizer,
  mode: served.features.logProbsMode,
  tokens: tokensAs,
  count: logProbs === -1 ? served.engine.info.vocabularySize : (logProbs ?? 0),
})
