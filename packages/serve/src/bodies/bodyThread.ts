/** Large bodies of requests, which are parsed, checked, rendered and encoded on another thread. */
import type { ThreadPort, ThreadProgram } from '@tandem-rl/base'
import { answerJobs, LARGE_BODIES, SMALL_BODY, type ThreadJobs, threadJobs, unreadBody } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { ApiFailure } from '../requests/failure.js'
import { bodyFailure, parseJsonBody, parseJsonText } from './body.js'

/** A body to read. Bytes are those of a request, a text that of a frame. */
export interface BodyJob {
  /** Name of the reader in the program of the thread. */
  readonly reader: string
  /** `json`: the JSON of a body that the reader accepts. Default: what the reader gives. */
  readonly gives?: 'json'
  readonly body: Uint8Array<ArrayBuffer> | string
}

/** A value that was read, or the JSON of a body that only the thread of the server can read. */
export type BodyAnswer = E.Either<
  ApiFailure,
  { readonly _tag: 'Read'; readonly value: unknown } | { readonly _tag: 'Parsed'; readonly json: unknown }
>

/** A thread that reads large bodies. */
export type BodyThread = ThreadJobs<BodyJob, BodyAnswer>

/** Makes a thread that reads bodies, from the first one on. Its program calls `answerBodies`. */
export const bodyThread = (program: ThreadProgram, input: unknown): BodyThread =>
  threadJobs(program, { input, ...LARGE_BODIES })

/** The answer for a value that was read. */
export const readValue = (result: E.Either<ApiFailure, unknown>): BodyAnswer =>
  E.map((value: unknown) => ({ _tag: 'Read' as const, value }))(result)

const jsonOf = (body: Uint8Array | string): E.Either<ApiFailure, unknown> =>
  typeof body === 'string' ? parseJsonText(body) : parseJsonBody(body)

/** Answers the bodies of a thread. */
export const answerBodies = (
  port: ThreadPort,
  read: (job: Omit<BodyJob, 'body'>, json: unknown) => BodyAnswer | Promise<BodyAnswer>,
): void =>
  answerJobs(port, ({ body, ...job }: BodyJob): BodyAnswer | Promise<BodyAnswer> => {
    const json = jsonOf(body)
    return E.isLeft(json) ? json : read(job, json.right)
  })

/** The two ways to read a body. */
interface Reading<T> extends Pick<BodyJob, 'reader' | 'gives'> {
  /** Null if all bodies are read by `here`. */
  readonly thread: BodyThread | null
  readonly here: (json: unknown) => E.Either<ApiFailure, T> | Promise<E.Either<ApiFailure, T>>
}

/**
 * Reads the JSON of a body, or of a text: here if it is small, otherwise on the thread. The bytes
 * of a large body are moved to the thread.
 *
 * Errors   `Left(ApiFailure)`: those of the reader, 400 for bytes that are not JSON within the
 *          limits, and for a body that takes too long.
 */
export const readBody = async <T>(
  body: BodyJob['body'],
  { thread, here, ...job }: Reading<T>,
): Promise<E.Either<ApiFailure, T>> => {
  const size = body.length
  if (thread === null || size <= SMALL_BODY) {
    const json = jsonOf(body)
    return E.isLeft(json) ? json : here(json.right)
  }
  const transfer = typeof body === 'string' ? [] : [body.buffer]
  const done = await thread.run({ ...job, body }, { size, transfer })
  if (E.isLeft(done)) return E.left(bodyFailure(unreadBody(done.left)))
  const read = done.right
  if (E.isLeft(read)) return read
  return read.right._tag === 'Read' ? E.right(read.right.value as T) : here(read.right.json) // of the same reader
}
