/** Shared parts of sinks that log to a server. */
import { type FormatFailure, type HttpFailure, type HttpRequest, parseJsonAs, type Transport } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { SinkFailure } from './sink.js'

export type CallFailure = HttpFailure | FormatFailure

/** A request to a server and its parsed response. */
export type Call<T> = TE.TaskEither<CallFailure, T>

/** Time limit of a request, including all attempts. */
const DEADLINE_MS = 60_000

/** A number in JSON. Numbers that JSON lacks are strings. */
export type MetricNumber = number | 'NaN' | 'Infinity' | '-Infinity'

/**
 * Converts a number to JSON.
 *
 * @example
 * [jsonNumber(1), jsonNumber(-1 / 0)] // [1, '-Infinity']
 */
export const jsonNumber = (value: number): MetricNumber => {
  if (Number.isFinite(value)) return value
  if (Number.isNaN(value)) return 'NaN'
  return value > 0 ? 'Infinity' : '-Infinity'
}

/** Calls a server and parses its response. `format` names the server in failures. */
export const serviceCall =
  (transport: Transport, format: string) =>
  <T>(request: Pick<HttpRequest, 'method' | 'path' | 'json' | 'repeat'>, schema: z.ZodType<T>): Call<T> =>
    pipe(
      transport.send({ ...request, deadlineMs: DEADLINE_MS }),
      TE.chainEitherKW(({ text }) =>
        pipe(
          parseJsonAs(schema, text),
          E.mapLeft(
            (reason): FormatFailure => ({ _tag: 'FormatFailure', format, reason: `${request.path}: ${reason}` }),
          ),
        ),
      ),
    )

/** Returns `never` if the server has rejected the events themselves, else `later`. */
export const againAfter = (failure: CallFailure): SinkFailure['again'] => {
  if (failure._tag !== 'HttpFailure') return 'never'
  const { status = 0 } = failure
  return status >= 400 && status < 500 && ![401, 403, 404, 408, 409, 425, 429].includes(status) ? 'never' : 'later'
}
