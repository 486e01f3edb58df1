/** Parts of rewards whose names become known when they are scored. */
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { findData, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Scored } from '../rewards/reward.js'
import { rewardKey } from './rewardEntries.js'

/** The parts of one score that have no entry of their own. */
type ExtraParts = Readonly<Record<string, number>>

/** The entry of rewards with `extras: 'parts'`, empty for elements that were not scored. */
export type ExtraPartEntries = { readonly extraParts: Data<ExtraParts> }

/** Makes the entry from the scores of a batch. `keys` has the parts with entries of their own. */
export const extraParts = (
  scores: readonly (Scored | null)[],
  keys: ReadonlyMap<string, string>,
): TensorDict<ExtraPartEntries> => {
  const extrasOf = ({ parts }: Scored): ExtraParts =>
    Object.fromEntries(Object.entries(parts).filter(([name]) => !keys.has(name)))
  return TensorDict({ extraParts: data(scores.map((score) => (score === null ? {} : extrasOf(score)))) }, [
    scores.length,
  ])
}

/** Returns the reason why two parts of a score would share an entry, or `null`. */
export const extraProblem = ({ parts }: Scored, keys: ReadonlyMap<string, string>): string | null => {
  const names = [...keys.keys(), ...Object.keys(parts).filter((name) => !keys.has(name))]
  const same = names.find((name, i) => names.findIndex((other) => rewardKey(other) === rewardKey(name)) < i)
  return same === undefined ? null : `the part '${same}' is not the only one under '${rewardKey(same)}'`
}

/** Returns the extra parts of the next states by name, one number per element. */
export const readExtraParts = (next: TensorDict): ReadonlyMap<string, readonly number[]> => {
  const each = findData<ExtraParts>(next, 'extraParts') ?? []
  const names = [...new Set(each.flatMap((parts) => Object.keys(parts)))]
  return new Map(names.map((name) => [name, each.map((parts) => (Object.hasOwn(parts, name) ? parts[name]! : 0))]))
}
