/** YAML text from outside, as plain JSON data. */
import { errorMessage, type Json } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Document } from 'yaml'

/** The most characters of a text, and levels of lists and records in it. */
const LONGEST = 2 ** 18
const DEEPEST = 64

/** A reason why a text is not plain data. */
class NotPlain extends Error {}

/** Copies a parsed value. An alias inside its own anchor has no end, so levels are counted. */
const plain = (value: unknown, level: number): Json => {
  if (level > DEEPEST) throw new NotPlain(`lists and records are nested deeper than ${DEEPEST} levels`)
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value
  if (Array.isArray(value)) return value.map((each: unknown) => plain(each, level + 1))
  if (typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype)
    throw new NotPlain('a value is neither text, number, boolean, null, list nor record')
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => {
      if (key === '__proto__') throw new NotPlain("the key '__proto__' is not allowed")
      return [key, plain(each, level + 1)]
    }),
  )
}

/** Refuses a key that occurs twice in a record. The check of the package takes quadratic time. */
const checkKeys = async (document: Document): Promise<void> => {
  const { isScalar, visit } = await import('yaml')
  visit(document, {
    Map: (_, { items }) => {
      const keys = new Set<unknown>()
      for (const { key } of items) {
        if (!isScalar(key)) continue
        if (keys.has(key.value)) throw new NotPlain(`the key '${String(key.value)}' occurs twice`)
        keys.add(key.value)
      }
    },
  })
}

/**
 * Parses a text of YAML, which includes JSON. Anchors and aliases are resolved to copies.
 *
 * Errors   `Left` with one sentence for text that is not YAML, more than 256 KiB of it, more than
 *          64 levels, too many aliases, a key that occurs twice, and the key `__proto__`.
 */
export const parseYaml = async (text: string): Promise<E.Either<string, Json>> => {
  if (text.length > LONGEST) return E.left(`YAML of ${text.length} characters, more than ${LONGEST}`)
  const { parseDocument } = await import('yaml')
  try {
    const document = parseDocument(text, { uniqueKeys: false })
    const [problem] = document.errors
    if (problem !== undefined) throw problem
    await checkKeys(document)
    return E.right(plain(document.toJS(), 0))
  } catch (error) {
    return E.left(error instanceof NotPlain ? error.message : `not YAML: ${errorMessage(error).trim()}`)
  }
}
