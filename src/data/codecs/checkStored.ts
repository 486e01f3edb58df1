import { type ConfigFailure, problemList } from '@tandem-rl/base'
import type { PlainArray } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { allFinite, type StoredArray } from './storage.js'

/**
 * Returns the arrays of a file if they match the expected parameters.
 *
 * Errors   `Left(ConfigFailure)` that lists all problems by name: missing, extra, of another shape
 *          or type, NaN or infinite.
 */
export const checkStored = (
  shapes: ReadonlyMap<string, readonly number[]>,
  arrays: ReadonlyMap<string, StoredArray>,
): E.Either<ConfigFailure, ReadonlyMap<string, PlainArray>> => {
  const checked = new Map<string, PlainArray>()
  const problems = [...shapes].flatMap(([name, shape]) => {
    const array = arrays.get(name)
    if (array === undefined) return [`'${name}' is missing`]
    if (array.type !== 'F32' && array.type !== 'F16' && array.type !== 'BF16') {
      return [`'${name}' is ${array.type}, not F32, F16 or BF16`]
    }
    if (array.shape.join() !== shape.join()) {
      return [`'${name}' is [${array.shape.join()}], the config requires [${shape.join()}]`]
    }
    checked.set(name, { shape, data: array.data })
    return allFinite(array.data) ? [] : [`'${name}' contains NaN or infinite numbers`]
  })
  const extra = [...arrays.keys()].filter((name) => !shapes.has(name))
  const all = [...problems, ...extra.map((name) => `'${name}' is not a parameter of this architecture`)]
  return all.length === 0 ? E.right(checked) : E.left({ _tag: 'ConfigFailure', reason: problemList(all) })
}
