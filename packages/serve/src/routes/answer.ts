/** Endpoints that sample: they answer whole, or as a stream of chunks. */
import type { GenerationEvent } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, errorBody, jsonResponse, jsonTextResponse } from '../requests/failure.js'
import type { StreamUsage } from '../requests/fields.js'
import {
  afterFirst,
  failureOf,
  type Job,
  type RunningJob,
  startJob,
  type TokenUsage,
  usageJson,
  type WholePrompt,
  wholeJob,
} from '../requests/generation.js'
import type { Served } from '../requests/served.js'
import { DONE, eventStream, frame } from '../requests/streams.js'
import type { TokenWriting } from './logProbs.js'

/** A request that was accepted. */
interface Accepted {
  readonly job: Job
  /** `null` for an answer that is not streamed. */
  readonly stream: StreamUsage | null
}

/** One choice of a stream. */
export interface Chunk {
  readonly choice: object
  /** Token counts so far, sent if the client requests continuous usage. */
  readonly usage: TokenUsage
  /** More fields of the frame. */
  readonly fields?: object
}

/** Turns the events of a job into the chunks of a stream. */
export interface ChunkWriter {
  /** The fields of every frame. */
  readonly head: object
  /** Returns the chunks that an event of a prompt adds. */
  readonly chunksOf: (prompt: number, event: GenerationEvent) => readonly Chunk[]
  /** Returns the token counts of the whole job so far. */
  readonly total: () => TokenUsage
}

/** The two forms of an answer: one JSON object or its text, or the frames of a stream. */
interface Answer {
  readonly whole: (prompts: readonly WholePrompt[]) => object | string
  readonly frames: (running: RunningJob, usage: StreamUsage) => AsyncGenerator<string>
}

/** Handles the requests of one endpoint that samples. `read` is the result of its reader. */
export type Endpoint<T> = (served: Served, read: T, request: Request) => Promise<E.Either<ApiFailure, Response>>

/**
 * Yields server-sent events: the chunks of each event, then the final usage or the failure, then
 * `[DONE]`.
 */
async function* chunkFrames(
  { head, chunksOf, total }: ChunkWriter,
  { continuous, final }: StreamUsage,
  running: RunningJob,
): AsyncGenerator<string> {
  let failure: ApiFailure | undefined
  for await (const [prompt, event] of running.events) {
    failure = failureOf(event)
    if (failure !== undefined) break
    for (const { choice, usage, fields } of chunksOf(prompt, event))
      yield frame({ ...head, choices: [choice], ...fields, ...(continuous && { usage: usageJson(usage) }) })
  }
  if (failure !== undefined) yield frame(errorBody(failure))
  else if (final) yield frame({ ...head, choices: [], usage: usageJson(total()) })
  yield DONE
}

/** Streams the chunks of a writer in the format of vLLM and OpenAI's chat endpoint. */
export const streamed =
  (writer: () => ChunkWriter): Answer['frames'] =>
  (running, usage) =>
    chunkFrames(writer(), usage, running)

/**
 * Makes the handler of an endpoint: checks a request, runs its job, and answers whole or as a
 * stream.
 *
 * Errors   `Left(ApiFailure)` for rejected requests and for failures before the response starts. A
 *          stream that fails later sends an error frame.
 * Effects  the job runs in the engine until it ends or the request is aborted.
 */
export const endpoint =
  <T, R extends Accepted>(
    check: (...input: Parameters<Endpoint<T>>) => E.Either<ApiFailure, R>,
    answerOf: (served: Served, wanted: R) => Answer,
  ): Endpoint<T> =>
  async (served, read, request) => {
    const result = check(served, read, request)
    if (E.isLeft(result)) return result
    const { job, stream } = result.right
    const { whole, frames } = answerOf(served, result.right)
    const running = startJob(served, job, request.signal)
    if (stream === null) {
      return E.map((prompts: readonly WholePrompt[]) => {
        const body = whole(prompts)
        return typeof body === 'string' ? jsonTextResponse(body) : jsonResponse(body)
      })(await wholeJob(running, job))
    }
    return E.map((begun: RunningJob) => eventStream(frames(begun, stream), begun.stop))(await afterFirst(running))
  }

/** Returns the format of tokens in an answer. Without log-probabilities no tokens are written. */
export const writingOf = (
  served: Served,
  { logProbs, tokensAs }: { readonly logProbs: number | null; readonly tokensAs: TokenWriting['tokens'] },
): TokenWriting => ({
  tokenizer: served.text.tokenizer,
  mode: served.features.logProbsMode,
  tokens: tokensAs,
  count: logProbs === -1 ? served.engine.info.vocabularySize : (logProbs ?? 0),
})
