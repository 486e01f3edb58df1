/** Converts names of scalars to valid metric names. */
import { cell } from '@tandem-rl/base'

/** Scalars that are also summed by default: sampled tokens, trained tokens and failed groups. */
export const TOTALS: readonly string[] = ['rollout/sampling/tokens', 'train/tokens', 'rollout/overlap/failed']

/**
 * Converts a name to lower case, with `_` before former capitals.
 *
 * @example
 * snakeCase('train/maxLogProbGap') // 'train/max_log_prob_gap'
 */
export const snakeCase = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase()

export interface DistinctNamesOptions {
  /** Suffix of every name. */
  readonly suffix: string
  /** Returns `true` for names that are already in use. */
  readonly isTaken: (name: string) => boolean
}

/**
 * Returns a function that assigns unique, stable names. If `clean` maps several originals to the
 * same name, later ones are numbered from 2.
 *
 * Effects  remembers the assigned names.
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
