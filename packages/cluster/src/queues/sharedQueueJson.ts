/** Conversions between shared queues, their events, and text. */
import { type FormatFailure, type Json, parseJson, problemList } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { OrderedMap } from 'immutable'
import { z } from 'zod'
import { groupQueue } from './groupQueue.js'
import type { ClientMemory, RecordedEvent, SharedQueue } from './queueEvents.js'
import { groupQueueFromJson, groupQueueToJson, storedCause, storedEnd, storedQueueSettings } from './queueJson.js'
import type { GroupQueueSettings } from './queueState.js'

const FORMAT = 'tandem shared queue 1'

const fail = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: FORMAT, reason })

const natural = z.int().min(0)
const ends = z.array(z.object({ ticket: natural, how: storedEnd }))
const name = z.object({ ticket: natural, place: natural, lease: natural })
const json: z.ZodType<Json> = z.json() as z.ZodType<Json> // the same values, written as another type
const what = z.discriminatedUnion('_tag', [
  z.object({ _tag: z.literal('Begin'), ends, trained: natural }),
  z.object({ _tag: z.literal('Add'), ticket: natural, task: json }),
  z.object({ _tag: z.literal('Take'), count: natural }),
  z.object({ _tag: z.literal('Settle'), ends }),
  z.object({ _tag: z.literal('Drop'), ticket: natural, cause: storedCause, reason: z.string() }),
  z.object({ _tag: z.literal('Evict'), version: natural }),
  z.object({ _tag: z.literal('Lease') }),
  z.object({ _tag: z.literal('Renew'), leases: z.array(name) }),
  z.object({ _tag: z.literal('Deliver'), policyVersion: natural, ...name.shape }),
  z.object({ _tag: z.literal('Fail'), reason: z.string(), ...name.shape }),
  z.object({ _tag: z.literal('Return'), ...name.shape }),
])
const recorded = z.object({ client: z.string(), event: natural, what })

const parsed = <T>(text: string, schema: z.ZodType<T>): E.Either<FormatFailure, T> => {
  const value = parseJson(text)
  if (E.isLeft(value)) return fail(value.left)
  const found = schema.safeParse(value.right)
  return found.success
    ? E.right(found.data)
    : fail(problemList(found.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)))
}

/** Encodes an event as text, without its time, which the log adds. */
export const eventText = ({ client, event, what: done }: Omit<RecordedEvent, 'at'>): string =>
  JSON.stringify({ client, event, what: done })

/** Decodes a text of `eventText`. Errors: `Left(FormatFailure)` with all problems; never throws. */
export const eventFromText = (text: string): E.Either<FormatFailure, Omit<RecordedEvent, 'at'>> =>
  parsed(text, recorded)

const opening = z.object({ format: z.literal(FORMAT), settings: storedQueueSettings })

/** Encodes the first record of a queue. */
export const openingText = (given: GroupQueueSettings): string => JSON.stringify({ format: FORMAT, settings: given })

/** Decodes the settings in the first record of a queue. */
export const openingFromText = (text: string): E.Either<FormatFailure, GroupQueueSettings> =>
  pipe(
    parsed(text, opening),
    E.chain(({ settings: found }) =>
      E.tryCatch(
        () => groupQueue(found).settings,
        (error): FormatFailure => ({ _tag: 'FormatFailure', format: FORMAT, reason: String(error) }),
      ),
    ),
  )

const refusal = z.object({
  _tag: z.literal('QueueRefusal'),
  kind: z.enum([
    ...(['full', 'empty', 'unknown', 'superseded', 'delivered', 'settled', 'not-taken', 'taken', 'invalid'] as const),
  ]),
  reason: z.string(),
})
const lease = name.extend({ task: json, attempt: natural, expires: z.number() })
const answer = z.union([
  z.object({ _tag: z.literal('Left'), left: refusal }),
  z.object({ _tag: z.literal('Right'), right: z.union([z.null(), z.number(), z.array(z.number()), lease]) }),
])
const stored = z.object({
  format: z.literal(FORMAT),
  queue: z.unknown(),
  trainer: z.string().nullable(),
  clients: z.array(z.tuple([z.string(), z.object({ event: natural, answer })])),
})

const isJson = (value: unknown): value is Json => json.safeParse(value).success
const isNumber = (value: unknown): value is number => typeof value === 'number'

/** Encodes the complete state of a shared queue. Errors: those of `groupQueueToJson`. */
export const sharedQueueText = ({ queue, trainer, clients }: SharedQueue): E.Either<FormatFailure, string> =>
  pipe(
    groupQueueToJson(queue),
    E.map((written) => JSON.stringify({ format: FORMAT, queue: written, trainer, clients: [...clients] })),
  )

/**
 * Decodes a text of `sharedQueueText`. Errors: `Left(FormatFailure)` with all problems; never
 * throws.
 */
export const sharedQueueFromText = (text: string): E.Either<FormatFailure, SharedQueue> =>
  pipe(
    parsed(text, stored),
    E.chain(({ queue, trainer, clients }) =>
      pipe(
        groupQueueFromJson<Json, number>(queue, { task: isJson, rollout: isNumber }),
        E.map((read) => ({ queue: read, trainer, clients: OrderedMap<string, ClientMemory>(clients) })),
      ),
    ),
  )
