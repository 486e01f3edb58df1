/** Values from outside, checked by schemas, such as those of zod. */
import * as E from 'fp-ts/lib/Either.js'
import { parseJson } from './json.js'

/** A problem of a value, and its path. */
interface Issue {
  readonly message: string
  readonly path: readonly PropertyKey[]
}

/** The problems of a value, such as an error of zod. */
export interface Issues {
  readonly issues: readonly Issue[]
}

/** The part of a schema of zod that is used here. */
export interface Schema<T> {
  readonly safeParse: (
    value: unknown,
  ) => { readonly success: true; readonly data: T } | { readonly success: false; readonly error: Issues }
}

/** Writes a path as `rows[0].name`. */
const pathText = (path: readonly PropertyKey[]): string =>
  path
    .map((step, i) => {
      if (typeof step === 'number') return `[${step}]`
      const name = String(step)
      if (!/^[\w$]+$/.test(name)) return `[${JSON.stringify(name)}]`
      return i === 0 ? name : `.${name}`
    })
    .join('')

/** Lists problems with their places, those of outer values first. */
const issuesText = (issues: readonly Issue[]): string =>
  issues
    .toSorted((a, b) => a.path.length - b.path.length)
    .flatMap(({ message, path }) => [`✖ ${message}`, ...(path.length > 0 ? [`  → at ${pathText(path)}`] : [])])
    .join('\n')

/**
 * Checks a value against a schema.
 *
 * Errors   `Left` with every problem in the schema's words.
 *
 * @example
 * fitSchema(z.object({ n: z.number() }), { n: 1 }) // right({ n: 1 })
 */
export const fitSchema = <T>(schema: Schema<T>, value: unknown): E.Either<string, T> => {
  const parsed = schema.safeParse(value)
  return parsed.success ? E.right(parsed.data) : E.left(issuesText(parsed.error.issues))
}

/**
 * Parses a JSON text and checks its value against a schema.
 *
 * Errors   `Left` with the reason if the text is not JSON or the value does not fit.
 *
 * @example
 * parseJsonAs(z.array(z.number()), '[1]') // right([1])
 */
export const parseJsonAs = <T>(schema: Schema<T>, text: string): E.Either<string, T> => {
  const json = parseJson(text)
  return E.isLeft(json) ? json : fitSchema(schema, json.right)
}
