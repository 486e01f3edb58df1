/**
 * Bodies of requests. Those with data may be large, and are then read on another thread, so that
 * others are answered meanwhile.
 */
import { jsonSizeProblem, parseJson, type ThreadPort } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { answerJobs, LARGE_BODIES, SMALL_BODY, type ThreadJobs, threadJobs, unreadBody } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { z } from 'zod'
import { forwardBackwardSchema, forwardSchema, REQUESTS } from '../protocol/jsonWire.js'
import { decodeForwardBackward, PROTOBUF } from '../protocol/protobufWire.js'
import type { ForwardBackwardRequest } from '../protocol/values.js'

/** A refused body, with the status of the answer. */
export interface RefusedBody {
  readonly status: number
  readonly reason: string
}

type Result<T> = E.Either<RefusedBody, T>

const refused = (status: number, reason: string): Result<never> => E.left({ status, reason })

const textOf = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Parses the JSON value of bytes, of limited depth and number of values. */
const parsed = (bytes: Uint8Array): Result<unknown> => {
  const text = textOf(bytes)
  if (text === undefined) return refused(400, 'The request body is not UTF-8.')
  const problem = jsonSizeProblem(text)
  if (problem !== undefined) return refused(400, `The request body ${problem}.`)
  return E.mapLeft((reason: string) => ({ status: 400, reason: `The request body is ${reason}` }))(parseJson(text))
}

/** The bytes of a body and its content type. */
export interface RawBody {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly type: string
}

const problemsOf = (error: z.ZodError): string =>
  error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.')}: ${message}`)
    .join('; ')

/** Reads a JSON body of a schema. Errors: 415 for another content type, 400 and 422. */
export const jsonBodyAs = <S extends z.ZodType>({ bytes, type }: RawBody, schema: S): Result<z.output<S> & object> => {
  if (type !== 'application/json')
    return refused(415, `the content type must be application/json, got ${type || 'none'}`)
  const json = parsed(bytes)
  if (E.isLeft(json)) return json
  if (typeof json.right !== 'object' || json.right === null) return refused(422, 'the body must be an object')
  const read = schema.safeParse(json.right)
  return read.success ? E.right(read.data as z.output<S> & object) : refused(422, problemsOf(read.error)) // of an object
}

const lossReader =
  (schema: typeof forwardBackwardSchema | typeof forwardSchema) =>
  (body: RawBody): Result<ForwardBackwardRequest> => {
    if (body.type !== PROTOBUF) return jsonBodyAs(body, schema)
    const decoded = decodeForwardBackward(body.bytes)
    return E.isLeft(decoded) ? refused(422, decoded.left.reason) : decoded
  }

/** The readers of routes with data. */
const READERS = {
  '/forward_backward': lossReader(forwardBackwardSchema),
  '/forward': lossReader(forwardSchema),
  '/asample': (body: RawBody) => jsonBodyAs(body, REQUESTS.asample),
} as const

/** A route with data. */
export type DataPath = keyof typeof READERS

type ReadData<P extends DataPath> = Extract<ReturnType<(typeof READERS)[P]>, { readonly _tag: 'Right' }>['right']

/** A body that was read, and its digest. */
interface Read<T> {
  readonly digest: string
  readonly value: T
}

interface DataJob extends RawBody {
  readonly path: DataPath
}

/** A thread that reads large bodies. */
export type DataThread = ThreadJobs<DataJob, Result<Read<unknown>>>

/** Makes a thread that reads large bodies. It starts with the first one. */
export const dataThread = (): DataThread =>
  threadJobs({ module: import.meta.url, exportName: 'readDataBodies' }, { input: null, ...LARGE_BODIES })

const readHere = <P extends DataPath>(path: P, body: RawBody): Result<Read<ReadData<P>>> =>
  E.map((value: unknown) => ({ digest: liveDigest(body.bytes), value: value as ReadData<P> }))(READERS[path](body)) // of this path

/**
 * Answers the jobs of a server's thread.
 *
 * @public by its name, in the thread
 */
export const readDataBodies = (port: ThreadPort): void =>
  answerJobs(port, ({ path, ...body }: DataJob): Result<Read<unknown>> => readHere(path, body))

/**
 * Reads a body with data: here if it is small, otherwise on the thread, to which its bytes are
 * moved.
 *
 * Errors   those of `jsonBodyAs` and of the protobuf form, and 400, 413 or 503 for a body that
 *          takes too long, too much memory, or has to wait behind too many others.
 */
export const readData = async <P extends DataPath>(
  path: P,
  body: RawBody,
  thread: DataThread,
): Promise<Result<Read<ReadData<P>>>> => {
  const size = body.bytes.length
  if (size <= SMALL_BODY) return readHere(path, body)
  const done = await thread.run({ path, ...body }, { size, transfer: [body.bytes.buffer] })
  return E.isLeft(done) ? E.left(unreadBody(done.left)) : (done.right as Result<Read<ReadData<P>>>) // of this path
}
