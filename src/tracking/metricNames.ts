/** Names of scalars as systems of metrics allow them. */
import { cell } from '../core/cell.js'

/** Scalars of a run that are worth adding up: tokens sampled and learned from, and groups that failed. */
export const TOTALS: readonly string[] = ['rollout/sampling/tokens', 'train/tokens', 'rollout/overlap/failed']

/**
 * A name in small letters, with `_` before what was a capital.
 *
 * @example
 * snakeCase('train/maxLogProbGap') // 'train/max_log_prob_gap'
 */
export const snakeCase = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase()

export interface DistinctNamesOptions {
  /** What every name ends with. */
  readonly suffix: string
  /** Names that others have. */
  readonly isTaken: (name: string) => boolean
}

/**
 * Names for what is named otherwise: always the same for the same, and none for two. Of those that `clean` makes alike, later ones are
 * numbered from 2.
 *
 * Effects  remembers what it has named.
 *
 * @example
 * distinctNames((name) => name[0], { suffix: '_total', isTaken: (name) => name === 'a_total' })('ab') // 'a_2_total'
 */
export const distinctNames = (
  clean: (name: string) => string,
  { suffix, isTaken }: DistinctNamesOptions,
): ((name: string) => string) => {
  const given = cell<ReadonlyMap<string, string>>(new Map())
  return (original) => {
    const known = given.get().get(original)
    if (known !== undefined) return known
    const used = new Set(given.get().values())
    const wanted = clean(original)
    let name = wanted + suffix
    for (let i = 2; used.has(name) || isTaken(name); i++) name = `${wanted}_${i}${suffix}`
    given.update((names) => new Map([...names, [original, name]]))
    return name
  }
}
