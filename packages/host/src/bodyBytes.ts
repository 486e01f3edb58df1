/** Bodies of HTTP requests as bytes, of limited size independently of what the headers claim. */
import * as E from 'fp-ts/lib/Either.js'
import type { JobFailure } from './threadJobs.js'

/** A body that cannot be read, with the status of the answer. */
export interface BodyFailure {
  readonly _tag: 'BodyFailure'
  readonly status: 400 | 413 | 500 | 503
  readonly reason: string
}

type Read = E.Either<BodyFailure, Uint8Array<ArrayBuffer>>

const bodyFailure = (status: BodyFailure['status'], reason: string): BodyFailure => ({
  _tag: 'BodyFailure',
  status,
  reason,
})

const refused = (status: BodyFailure['status'], reason: string): Read => E.left(bodyFailure(status, reason))

const tooLarge = (maxBytes: number): Read => refused(413, `The request body is larger than ${maxBytes} bytes.`)

/** Bytes of the first buffer of a body without a known length. */
const FIRST_BUFFER = 2 ** 16

/** Returns a buffer with the same beginning and room for `needed` bytes. */
const grown = (bytes: Uint8Array<ArrayBuffer>, needed: number, maxBytes: number): Uint8Array<ArrayBuffer> => {
  const larger = new Uint8Array(Math.min(maxBytes, Math.max(needed, 2 * bytes.length)))
  larger.set(bytes)
  return larger
}

/**
 * Reads the bytes of a body into a buffer of their own.
 *
 * Errors   `Left(BodyFailure)`: 413 as soon as there are more bytes than allowed, 400 for an
 *          incomplete body.
 */
export const readBodyBytes = async (request: Request, maxBytes: number): Promise<Read> => {
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
    return refused(400, 'The request body is incomplete.')
  }
  return E.right(bytes.subarray(0, size))
}

/** Bytes up to which a body is read on the thread of the server. */
export const SMALL_BODY = 256 * 1024

/** Limits of a thread for large bodies: of each, of all that wait, and of its idle time. */
export const LARGE_BODIES = {
  limitMs: 60_000,
  heapMegabytes: 1024,
  mostSize: 256 * 2 ** 20,
  idleMs: 10_000,
} as const

/** The failure of a request whose body could not be read on the thread. */
export const unreadBody = ({ kind, reason }: JobFailure): BodyFailure => {
  switch (kind) {
    case 'timeout':
      return bodyFailure(
        400,
        `The request body could not be read within ${LARGE_BODIES.limitMs / 1000} seconds: send a smaller one.`,
      )
    case 'memory':
      return bodyFailure(413, 'The request body needs too much memory to be read: send a smaller one.')
    case 'busy':
      return bodyFailure(503, `Other large requests are being read: ${reason}. Send the request again later.`)
    default:
      return bodyFailure(500, `The request body could not be read: ${reason}`)
  }
}
