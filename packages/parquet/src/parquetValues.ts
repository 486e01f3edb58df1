/** Plain values of what the Parquet decoder returns. */
import * as E from 'fp-ts/lib/Either.js'

/**
 * Converts values: without bigints (unless requested) and without undefined. `Left` is the path of
 * the first integer that is too large.
 */
export const plainValue = (value: unknown, int64: 'number' | 'bigint', path: string): E.Either<string, unknown> => {
  if (value === undefined) return E.right(null)
  if (typeof value === 'bigint') {
    if (int64 === 'bigint') return E.right(value)
    const number = Number(value)
    return Number.isSafeInteger(number)
      ? E.right(number)
      : E.left(`${path}: ${value} is not a safe integer; read 64-bit integers as bigints`)
  }
  if (typeof value !== 'object' || value === null || value instanceof Date || value instanceof Uint8Array)
    return E.right(value)
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const items = Array.from(value as ArrayLike<unknown>, (item, i) => plainValue(item, int64, `${path}.${i}`)) // an array of either kind
    const wrong = items.find(E.isLeft)
    return wrong ?? E.right(items.map((item) => (E.isRight(item) ? item.right : null)))
  }
  const fields = Object.entries(value).map(([key, item]) => [key, plainValue(item, int64, `${path}.${key}`)] as const)
  const wrong = fields.map(([, item]) => item).find(E.isLeft)
  return wrong ?? E.right(Object.fromEntries(fields.map(([key, item]) => [key, E.isRight(item) ? item.right : null])))
}
