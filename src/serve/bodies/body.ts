/**
 * Request bodies: JSON of limited size, depth and number of values, checked independently of what
 * the headers claim.
 */
import { jsonSizeProblem, parseJson } from '@tandem-rl/base'
import { writtenArguments } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure } from '../requests/failure.js'

/** Bytes up to which a body is read on the thread of the server. */
export const SMALL_BODY = 256 * 1024

type Read<T> = E.Either<ApiFailure, T>

const tooLarge = (maxBytes: number): Read<never> =>
  E.left(apiFailure(413, `The request body is larger than ${maxBytes} bytes.`))

/** Bytes of the first buffer of a body without a known length. */
const FIRST_BUFFER = 2 ** 16

/** Returns a buffer with the same beginning and room for `needed` bytes. */
const grown = (bytes: Uint8Array<ArrayBuffer>, needed: number, maxBytes: number): Uint8Array<ArrayBuffer> => {
  const larger = new Uint8Array(Math.min(maxBytes, Math.max(needed, 2 * bytes.length)))
  larger.set(bytes)
  return larger
}

/**
 * Reads the bytes of a body into a buffer of their own. Fails as soon as there are more than
 * allowed.
 */
export const readBodyBytes = async (request: Request, maxBytes: number): Promise<Read<Uint8Array<ArrayBuffer>>> => {
  const declared = Number(request.headers.get('content-length') ?? 0)
  if (declared > maxBytes) return tooLarge(maxBytes)
  if (request.body === null) return E.right(new Uint8Array())
  let bytes = new Uint8Array(Number.isInteger(declared) && declared > 0 ? declared : Math.min(FIRST_BUFFER, maxBytes))
  let size = 0
  const reader = request.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      if (size + value.length > maxBytes) {
        await reader.cancel()
        return tooLarge(maxBytes)
      }
      if (size + value.length > bytes.length) bytes = grown(bytes, size + value.length, maxBytes)
      bytes.set(value, size)
      size += value.length
    }
  } catch {
    return E.left(apiFailure(400, 'The request body is incomplete.'))
  }
  return E.right(bytes.subarray(0, size))
}

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
    ? readBodyBytes(request, maxBytes)
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
