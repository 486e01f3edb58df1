/** Rows of batch entries on the host, by dotted names. */
import { type Ragged, raggedArray, raggedLength } from './tensorDict/leaf.js'
import { find, findData, type TensorDict } from './tensorDict/tensorDict.js'

/** Returns `true` if a batch has an entry with a dotted name. */
const has = (batch: TensorDict, entry: string): boolean => find(batch, entry.split('.')) !== undefined

/** Throws RangeError that lists all missing entries of a batch. */
export const requireEntries = (learner: string, batch: TensorDict, reads: readonly string[]): void => {
  const missing = reads.filter((entry) => !has(batch, entry))
  if (missing.length > 0)
    throw new RangeError(
      `${learner}: the batch has no ${missing.map((entry) => `'${entry}'`).join(', ')}; it reads ${reads.join(', ')}`,
    )
}

/** Returns the rows of a ragged leaf, without a copy. */
const rowsOf = (leaf: Ragged): readonly ArrayLike<number>[] => {
  const all = raggedArray(leaf)
  return Array.from({ length: raggedLength(leaf) }, (_, i) => all.subarray(leaf.offsets[i], leaf.offsets[i + 1]))
}

/**
 * Returns the ragged rows under a dotted name, or `undefined`. Throws RangeError for an entry of
 * another kind.
 */
export const findRows = (batch: TensorDict, entry: string): readonly ArrayLike<number>[] | undefined => {
  const leaf = find(batch, entry.split('.'))
  if (leaf === undefined) return undefined
  if (!('_tag' in leaf) || leaf._tag !== 'Ragged')
    throw new RangeError(`the entry '${entry}' of a batch must be ragged rows`)
  return rowsOf(leaf)
}

/** Returns the rows of an entry that `requireEntries` has checked. */
export const batchRowsAt = (batch: TensorDict, entry: string): readonly ArrayLike<number>[] => findRows(batch, entry)!

/** Returns the masks, or `undefined` if they mask no token. */
const gappy = (masks: readonly ArrayLike<number>[]): readonly ArrayLike<number>[] | undefined =>
  masks.some((row) => Array.prototype.includes.call(row, 0)) ? masks : undefined

/**
 * Returns the loss mask over `tokens.response`: `masks.loss`, else the part of `masks.assistant`
 * over the response. Returns `undefined` if all tokens count.
 */
export const lossMasks = (batch: TensorDict): readonly ArrayLike<number>[] | undefined => {
  const own = findRows(batch, 'masks.loss')
  if (own !== undefined) return gappy(own)
  const assistant = findRows(batch, 'masks.assistant')
  if (assistant === undefined) return undefined
  const responses = batchRowsAt(batch, 'tokens.response')
  return gappy(assistant.map((row, i) => Array.prototype.slice.call(row, row.length - responses[i]!.length)))
}

/**
 * Returns the temperature at which all rows were sampled. It is 1 without `sampling` and for greedy
 * rows.
 *
 * Errors   throws RangeError if the rows have different temperatures, because their
 *          log-probabilities cannot be compared in one update.
 */
export const temperatureOf = (batch: TensorDict): number => {
  const records = findData<{ readonly temperature: number }>(batch, 'sampling') ?? []
  const all = [...new Set(records.map(({ temperature }) => temperature))]
  if (all.length > 1)
    throw new RangeError(`the rows of a batch were sampled at several temperatures: ${all.join(', ')}; split the batch`)
  const [temperature = 1] = all
  return temperature === 0 ? 1 : temperature
}

/**
 * Returns the unit of each row that mini-batches keep together: group, else trajectory, else row.
 */
export const batchUnitsOf = (batch: TensorDict): readonly string[] =>
  findData<string>(batch, 'groupId') ??
  findData<string | number>(batch, 'trajectoryId')?.map(String) ??
  Array.from({ length: batch.batchShape[0]! }, (_, i) => String(i))
