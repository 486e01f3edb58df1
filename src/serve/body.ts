/**
 * Request bodies: JSON of limited size and depth, checked independently of what the headers claim.
 */

import * as E from 'fp-ts/lib/Either.js'
import { joinBytes } from '../core/joinBytes.js'
import { parseJson } from '../core/json.js'
import { type ApiFailure, apiFailure } from './requests/failure.js'

/** Maximum nesting depth of JSON. Real requests are less deep; the limit allows recursive code. */
const MAX_DEPTH = 128

type Read<T> = E.Either<ApiFailure, T>

const tooLarge = (maxBytes: number): Read<never> =>
  E.left(apiFailure(413, `The request body is larger than ${maxBytes} bytes.`))

/** Reads the bytes of a body. Fails as soon as there are more than allowed. */
export const readBodyBytes = async (request: Request, maxBytes: number): Promise<Read<Uint8Array>> => {
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) return tooLarge(maxBytes)
  if (request.body === null) return E.right(new Uint8Array())
  const parts: Uint8Array[] = []
  let size = 0
  const reader = request.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      size += value.length
      if (size > maxBytes) {
        await reader.cancel()
        return tooLarge(maxBytes)
      }
      parts.push(value)
    }
  } catch {
    return E.left(apiFailure(400, 'The request body is incomplete.'))
  }
  return E.right(joinBytes(parts))
}

/**
 * Returns the nesting depth of arrays and objects in a JSON text, without parsing it.
 *
 * @example
 * jsonDepth('[{"a": "[["}]') // 2
 */
export const jsonDepth = (text: string): number => {
  let [depth, deepest] = [0, 0]
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === 0x5c) i++
      else if (code === 0x22) inString = false
    } else if (code === 0x22) inString = true
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x5d || code === 0x7d) depth--
  }
  return deepest
}

const textOf = (bytes: Uint8Array): Read<string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true }).decode(bytes),
    () => apiFailure(400, 'The request body is not UTF-8.'),
  )

/** Parses a JSON text of at most 128 levels. */
export const parseJsonText = (text: string): Read<unknown> => {
  if (jsonDepth(text) > MAX_DEPTH) {
    return E.left(apiFailure(400, `The request body is nested deeper than ${MAX_DEPTH} levels.`))
  }
  return E.mapLeft((reason: string) => apiFailure(400, `The request body is ${reason}`))(parseJson(text))
}

/**
 * Parses the JSON value of bytes.
 *
 * Errors   `Left(ApiFailure)` for bytes that are not UTF-8 or JSON, and for more than 128 levels.
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
 * Reads the JSON value of a request's body.
 *
 * Errors   `Left(ApiFailure)`: 413 for a body over `maxBytes`, detected from its header or while it
 *          arrives; 400 for another content type, an incomplete body, bytes that are not UTF-8,
 *          text that is not JSON, and more than 128 levels.
 * Cost     linear in the body. Holds at most `maxBytes`.
 */
export const readJsonBody = async (
  request: Request,
  { maxBytes }: { readonly maxBytes: number },
): Promise<Read<unknown>> => {
  if (!isJson(request.headers.get('content-type'))) {
    return E.left(apiFailure(400, "Unsupported Media Type: Only 'application/json' is allowed"))
  }
  const bytes = await readBodyBytes(request, maxBytes)
  return E.isLeft(bytes) ? bytes : parseJsonBody(bytes.right)
}
