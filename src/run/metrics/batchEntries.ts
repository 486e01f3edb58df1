/** Entries of a collected batch, by path. */
import type { Data, Ragged } from '../../data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/** Returns the items of a `Data` entry, or `undefined` if there is no such entry. */
export const itemsAt = <T = unknown>(td: TensorDict, path: readonly string[]): readonly T[] | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data'
    ? (entry as Data<T>).items.toArray() // the reader names the type that the entry has by contract
    : undefined
}

/** Returns a `Ragged` entry, or `undefined`. */
export const raggedAt = (td: TensorDict, path: readonly string[]): Ragged | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? (entry as Ragged) : undefined // by its tag
}
