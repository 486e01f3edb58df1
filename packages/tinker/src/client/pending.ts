/** Requests whose results are fetched later. */
import type { FormatFailure } from '@tandem-rl/base'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { PROTOBUF } from '../protocol/protobufWire.js'
import {
  backoffMs,
  type CallReply,
  type CallRequest,
  type Calls,
  replyJson,
  replyReason,
  type TinkerFailure,
  UNCERTAIN,
} from './calls.js'

/** A request that the server has accepted. */
export interface Pending<T> {
  readonly requestId: string
  /** Waits for the result, which is fetched once. */
  readonly result: TaskEither<TinkerFailure, T>
}

/** Parsers of a result from JSON and, if it has that form, from protobuf. */
export interface ResultForm<T> {
  readonly json: z.ZodType<T>
  readonly protobuf?: (bytes: Uint8Array) => Either<FormatFailure, T>
}

const promiseSchema = z.object({ request_id: z.union([z.string(), z.number()]).transform(String) })

/**
 * A pause after answers that come at once, so that a server that does not wait is not asked without
 * end.
 */
const QUICK_MS = 20
const MOST_BAD_REQUESTS = 3
const MOST_RESUBMISSIONS = 3

type Step<T> =
  | { readonly _tag: 'Done'; readonly result: Either<TinkerFailure, T> }
  | { readonly _tag: 'Again'; readonly pause: 'none' | 'growing' }
  | { readonly _tag: 'Whole' }
  | { readonly _tag: 'BadRequest' }
  | { readonly _tag: 'Resubmit' }

const again = <T>(pause: 'none' | 'growing'): Step<T> => ({ _tag: 'Again', pause })

const problems = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')

/** The meaning of an answer to a poll. */
const readPoll = <T>(
  calls: Calls,
  reply: CallReply,
  { call, form }: { readonly call: string; readonly form: ResultForm<T> },
): Step<T> => {
  const { status } = reply
  const fail = (kind: TinkerFailure['kind'], reason: string): Step<T> => ({
    _tag: 'Done',
    result: left(calls.failure(kind, { call, reason, status })),
  })
  if (status === 408) return again('none')
  if (status === 429 || status === 402 || status >= 500) return again('growing')
  if (status === 400) return { _tag: 'BadRequest' }
  if (status === 410) return { _tag: 'Resubmit' }
  if (status === 404) return fail('lost', replyReason(reply))
  if (status < 200 || status >= 300) return fail('refused', replyReason(reply))
  if (reply.type.includes(PROTOBUF)) {
    if (form.protobuf === undefined)
      return fail('protocol', 'the server answered with protobuf, which was not requested')
    const read = form.protobuf(reply.bytes)
    return isLeft(read) ? fail('protocol', read.left.reason) : { _tag: 'Done', result: right(read.right) }
  }
  const json = replyJson(reply)
  if (typeof json !== 'object' || json === null) return fail('protocol', 'the answer is not a JSON object')
  if ('type' in json && json.type === 'try_again') return again('none')
  if ('status' in json && json.status === 'complete_metadata') return { _tag: 'Whole' }
  if ('error' in json) return fail('failed', String(json.error))
  const read = form.json.safeParse(json)
  return read.success ? { _tag: 'Done', result: right(read.data) } : fail('protocol', problems(read.error))
}

/** A submitted request, to be submitted again if the server loses its promise. */
interface Submitted<T> {
  readonly request: CallRequest
  readonly requestId: string
  readonly form: ResultForm<T>
}

const submitOnce = async (calls: Calls, request: CallRequest): Promise<Either<TinkerFailure, string>> => {
  const reply = await calls.json(request)
  if (isLeft(reply)) return reply
  const read = promiseSchema.safeParse(reply.right)
  if (read.success) return right(read.data.request_id)
  return left(
    calls.failure('protocol', { call: request.path, reason: `the answer has no request_id: ${problems(read.error)}` }),
  )
}

/** Polls until there is a result. */
const poll = async <T>(calls: Calls, { request, requestId, form }: Submitted<T>): Promise<Either<TinkerFailure, T>> => {
  const { path: call, signal } = request
  const { deadlineMs } = calls.options
  let [id, metadata, bad, resubmitted, troubles, waited] = [requestId, true, 0, 0, 0, 0]
  const accept = form.protobuf !== undefined && request.protobuf !== undefined ? PROTOBUF : undefined
  for (let iteration = 0; ; iteration++) {
    if (signal?.aborted) return left(calls.failure('closed', { call, reason: 'cancelled by the caller' }))
    const reply = await calls.attempt({
      path: '/retrieve_future',
      json: { request_id: id, allow_metadata_only: metadata },
      headers: { ...(accept && { accept }), 'x-tinker-request-iteration': String(iteration) },
      effect: 'none',
      ...(signal && { signal }),
    })
    const step: Step<T> = isLeft(reply) ? again('growing') : readPoll(calls, reply.right, { call, form })
    if (step._tag === 'Done') return step.result
    if (step._tag === 'Whole') metadata = false
    if (step._tag === 'BadRequest' && !isLeft(reply) && ++bad > MOST_BAD_REQUESTS)
      return left(calls.failure('failed', { call, reason: replyReason(reply.right), status: 400 }))
    if (step._tag === 'Resubmit') {
      if (!calls.mayRepeat(request))
        return left(calls.failure('uncertain', { call, reason: `the promise is lost; ${UNCERTAIN}`, status: 410 }))
      if (++resubmitted > MOST_RESUBMISSIONS)
        return left(calls.failure('lost', { call, reason: 'the server no longer holds the result', status: 410 }))
      const submitted = await submitOnce(calls, request)
      if (isLeft(submitted)) return submitted
      id = submitted.right
      continue
    }
    troubles = step._tag === 'Again' && step.pause === 'growing' ? troubles + 1 : 0
    const pause = troubles === 0 ? QUICK_MS : backoffMs(troubles - 1)
    waited += pause + (troubles === 0 ? 0 : QUICK_MS)
    if (waited > deadlineMs) {
      const why = isLeft(reply) ? reply.left.reason : replyReason(reply.right)
      return left(calls.failure('unreachable', { call, reason: `no result within ${deadlineMs} ms: ${why}` }))
    }
    await calls.wait(pause)
  }
}

/**
 * Submits a request and returns its promise of a result.
 *
 * A lost answer is requested again with the same idempotency key, and a lost promise (410) is made
 * again by the same request, unless the server may carry it out twice.
 *
 * Errors   `Left` if the server does not accept the request.
 */
export const submitRequest = async <T>(
  calls: Calls,
  given: CallRequest,
  form: ResultForm<T>,
): Promise<Either<TinkerFailure, Pending<T>>> => {
  const request = { ...given, idempotencyKey: given.idempotencyKey ?? calls.options.ids.fresh() }
  const submitted = await submitOnce(calls, request)
  if (isLeft(submitted)) return submitted
  let result: Promise<Either<TinkerFailure, T>> | undefined
  return right({
    requestId: submitted.right,
    result: () => {
      result ??= poll(calls, { request, requestId: submitted.right, form })
      return result
    },
  })
}
