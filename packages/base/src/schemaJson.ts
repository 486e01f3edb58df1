/** Values from outside, checked by zod schemas. */

import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { parseJson } from './json.js'

/**
 * Checks a value against a schema.
 *
 * Errors   `Left` with every problem in zod's words.
 *
 * @example
 * fitSchema(z.object({ n: z.number() }), { n: 1 }) // right({ n: 1 })
 */
export const fitSchema = <T>(schema: z.ZodType<T>, value: unknown): E.Either<string, T> => {
  const parsed = schema.safeParse(value)
  return parsed.success ? E.right(parsed.data) : E.left(z.prettifyError(parsed.error))
}

/**
 * Parses a JSON text and checks its value against a schema.
 *
 * Errors   `Left` with the reason if the text is not JSON or the value does not fit.
 *
 * @example
 * parseJsonAs(z.array(z.number()), '[1]') // right([1])
 */
export const parseJsonAs = <T>(schema: z.ZodType<T>, text: string): E.Either<string, T> => {
  const json = parseJson(text)
  return E.isLeft(json) ? json : fitSchema(schema, json.right)
}
