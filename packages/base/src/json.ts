/** JSON text from outside. */
import * as E from 'fp-ts/lib/Either.js'
import { errorMessage } from './failure.js'
import { lfsProblem } from './lfsPointer.js'

/** A value that JSON.stringify writes without loss. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/**
 * Parses a JSON text. Of two equal keys the last one counts.
 *
 * Errors   `Left` with one sentence for text that is not JSON.
 *
 * @example
 * parseJson('[1]') // right([1])
 */
export const parseJson = (text: string): E.Either<string, unknown> =>
  E.tryCatch(
    () => JSON.parse(text) as unknown,
    (error) => lfsProblem(text) ?? `not JSON: ${errorMessage(error)}`,
  )

/** A replacer for `JSON.stringify` that converts numbers that JSON lacks to text. */
export const plainNumbers = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value
