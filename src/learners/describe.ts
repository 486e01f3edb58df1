/** Converts settings to JSON. */
import type { Json } from '@tandem-rl/base'

/**
 * Converts a value to JSON. Functions and absent fields are left out, and numbers that are not
 * finite become text.
 *
 * @example
 * jsonOf({ a: 1, f: () => 1, limit: Number.POSITIVE_INFINITY }) // { a: 1, limit: 'Infinity' }
 */
export const jsonOf = (value: unknown): Json => {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value
  if (Array.isArray(value)) return value.map(jsonOf)
  if (typeof value !== 'object') return null
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]: [string, unknown]) =>
      each === undefined || typeof each === 'function' ? [] : [[name, jsonOf(each)]],
    ),
  )
}
