/** Entries of a collected batch, by path. */
import type { Ragged } from '../../data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/** Returns a `Ragged` entry, or `undefined`. */
export const raggedAt = (td: TensorDict, path: readonly string[]): Ragged | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? (entry as Ragged) : undefined // by its tag
}
