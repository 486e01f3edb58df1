/**
 * Request bodies: JSON of limited size, depth and number of values, checked independently of what
 * the headers claim.
 */
import { jsonSizeProblem, parseJson } from '@tandem-rl/base'
import { type BodyFailure, readBodyBytes } from '@tandem-rl/host'
import { writtenArguments } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure } from '../requests/failure.js'

type Read<T> = E.Either<ApiFailure, T>

/** Makes the failure of a request whose body cannot be read. */
export const bodyFailure = ({ status, reason }: BodyFailure): ApiFailure => apiFailure(status, reason)

const textOf = (bytes: Uint8Array): Read<string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true }).decode(bytes),
    () => apiFailure(400, 'The request body is not UTF-8.'),
  )

/** Parses a JSON text within the limits of every body. Arguments of calls keep their numbers. */
export const parseJsonText = (text: string): Read<unknown> => {
  const problem = jsonSizeProblem(text)
  if (problem !== undefined) return E.left(apiFailure(400, `The request body ${problem}.`))
  return E.mapLeft((reason: string) => apiFailure(400, `The request body is ${reason}`))(
    parseJson(writtenArguments(text)),
  )
}

/**
 * Parses the JSON value of bytes.
 *
 * Errors   `Left(ApiFailure)` for bytes that are not UTF-8 or JSON, and for more levels or values
 *          than `JSON_LIMITS`.
 */
export const parseJsonBody = (bytes: Uint8Array): Read<unknown> => {
  const text = textOf(bytes)
  return E.isLeft(text) ? text : parseJsonText(text.right)
}

const isJson = (contentType: string | null): boolean => {
  const [type = ''] = (contentType ?? '').split(';')
  return type.trim().toLowerCase() === 'application/json'
}

/**
 * Reads the bytes of a body whose content type is JSON.
 *
 * Errors   `Left(ApiFailure)`: 413 for a body over `maxBytes`, detected from its header or while it
 *          arrives; 400 for another content type and for an incomplete body.
 */
export const readJsonBytes = async (
  request: Request,
  { maxBytes }: { readonly maxBytes: number },
): Promise<Read<Uint8Array<ArrayBuffer>>> =>
  isJson(request.headers.get('content-type'))
    ? E.mapLeft(bodyFailure)(await readBodyBytes(request, maxBytes))
    : E.left(apiFailure(400, "Unsupported Media Type: Only 'application/json' is allowed"))

/**
 * Reads the JSON value of a request's body.
 *
 * Errors   `Left(ApiFailure)`: those of `readJsonBytes` and `parseJsonBody`.
 * Cost     linear in the body. Holds at most `maxBytes`.
 */
export const readJsonBody = async (request: Request, limit: { readonly maxBytes: number }): Promise<Read<unknown>> => {
  const bytes = await readJsonBytes(request, limit)
  return E.isLeft(bytes) ? bytes : parseJsonBody(bytes.right)
}
