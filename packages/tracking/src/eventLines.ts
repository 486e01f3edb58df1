/** Converts events to lines of JSON and back. */
import { type FormatFailure, parseJsonAs } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { z } from 'zod'
import type { TrackedEvent } from './sink.js'

const NUMBERS = ['NaN', 'Infinity', '-Infinity'] as const

const number = z.union([z.number(), z.enum(NUMBERS).transform(Number)])
const named = z.record(z.string(), number)
const spans = z.array(z.strictObject({ name: z.string(), from: z.number(), to: z.number() })).exactOptional()
const place = { at: z.number(), step: z.number() }
const trouble = { ...place, name: z.string(), text: z.string() }

const schema: z.ZodType<TrackedEvent> = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('start'),
    at: z.number(),
    run: z.string(),
    from: z.number(),
    settings: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
  }),
  z.strictObject({ type: z.literal('scalars'), ...place, values: named, seconds: named, spans }),
  z.strictObject({
    type: z.literal('samples'),
    ...place,
    samples: z.array(z.strictObject({ name: z.string(), text: z.string() })),
  }),
  z.strictObject({ type: z.literal('saved'), ...place, what: z.string(), path: z.string(), spans }),
  z.strictObject({ type: z.literal('alarm'), ...trouble }),
  z.strictObject({ type: z.literal('failure'), ...trouble }),
  z.strictObject({ type: z.literal('end'), ...place, status: z.enum(['finished', 'interrupted', 'failed']) }),
])

/**
 * Formats an event as JSON without a line break. Numbers that JSON lacks become strings: `"NaN"`.
 *
 * @example
 * eventLine({ type: 'end', at: 5, step: 2, status: 'finished' }) // '{"type":"end","at":5,"step":2,"status":"finished"}'
 */
export const eventLine = (event: TrackedEvent): string =>
  JSON.stringify(event, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  )

/**
 * Parses a line as an event.
 *
 * Errors   `Left(FormatFailure)` if the line is not JSON or not an event.
 *
 * @example
 * parseEventLine('{"type":"end","at":5,"step":2,"status":"finished"}') // right({ type: 'end', at: 5, step: 2, status: 'finished' })
 */
export const parseEventLine = (line: string): E.Either<FormatFailure, TrackedEvent> =>
  pipe(
    parseJsonAs(schema, line),
    E.mapLeft((reason): FormatFailure => ({ _tag: 'FormatFailure', format: 'tracked event', reason })),
  )
