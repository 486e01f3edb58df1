/** Conversations as plain JSON, without loss: written conversations are read back equal. */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { History, type Message } from './history.js'

const isJson = (value: unknown): boolean => {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (Array.isArray(value)) return value.every(isJson)
  return isRecord(value) && Object.values(value).every(isJson)
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value) as null) // either is plain

/** A JSON object, unchanged: no key is renamed, reordered or lost. */
export const jsonObject = z.custom<Readonly<Record<string, unknown>>>(
  (value) => isRecord(value) && !Array.isArray(value) && isJson(value),
  'expected a JSON object',
)

const source = z.union([
  z.strictObject({ url: z.string() }),
  z.strictObject({ base64: z.base64(), mediaType: z.string() }),
])

const part = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({ type: z.literal('image'), source }),
  z.strictObject({ type: z.literal('audio'), source }),
  z.strictObject({ type: z.literal('video'), source }),
  z.strictObject({ type: z.literal('file'), source, name: z.string().exactOptional() }),
])

const toolCall = z.strictObject({
  id: z.string().exactOptional(),
  name: z.string(),
  arguments: jsonObject,
  written: z.string().exactOptional(),
})

const messageSchema = z.strictObject({
  role: z.string(),
  content: z.array(part),
  toolCalls: z.array(toolCall),
  isComplete: z.boolean(),
  reasoning: z.string().exactOptional(),
  toolCallId: z.string().exactOptional(),
  name: z.string().exactOptional(),
})

/** Converts all problems of a schema check to a failure, with their paths. */
export const problemsOf = (format: string, { issues }: z.ZodError): FormatFailure => {
  const flat = issues.map(({ path, message }) => `${path.length === 0 ? '' : `${path.join('.')}: `}${message}`)
  return { _tag: 'FormatFailure', format, reason: flat.join('; ') }
}

/**
 * Returns the messages of a conversation as plain JSON.
 *
 * @example
 * historyToJson(History([]))  // []
 */
export const historyToJson = (history: History): readonly Message[] => history.messages.toArray()

/**
 * Reads a conversation from the result of `historyToJson`, directly or from a file.
 *
 * Errors   `Left(FormatFailure)` with every problem and its path, including unknown fields.
 *
 * @example
 * historyFromJson([]) // right(History([]))
 */
export const historyFromJson = (json: unknown): E.Either<FormatFailure, History> => {
  const parsed = z.array(messageSchema).safeParse(json)
  return parsed.success ? E.right(History(parsed.data)) : E.left(problemsOf('history', parsed.error))
}
