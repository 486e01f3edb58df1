/** Conversion of a batch's turns to one row for each trajectory, and back. */
import * as tf from '@tensorflow/tfjs-core'
import { type Ragged, ragged, raggedArray, raggedLength } from '../../data/tensorDict/leaf.js'
import { find, findData, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { TokenRows } from './rows.js'

/** A trajectory of a batch: the first row of each of its turns, in order. */
export interface BatchTrajectory {
  readonly id: string
  readonly groupId: string
  readonly rows: readonly number[]
}

/** Reads the entries of a batch token by token. Rows are those of the batch. */
export interface TurnReader {
  /** 1 for each trained token of the response. */
  readonly mask: TokenRows
  /**
   * Returns ragged rows over the response. Errors: throws RangeError for an entry that is missing
   * or of other lengths.
   */
  readonly tokens: (entry: string) => TokenRows
  /**
   * Returns a number for each turn. Errors: throws RangeError for an entry that is missing or has
   * another shape.
   */
  readonly numbers: (entry: string) => ArrayLike<number>
  readonly has: (entry: string) => boolean
}

const rowsOf = (leaf: Ragged): TokenRows => {
  const all = raggedArray(leaf)
  return Array.from({ length: raggedLength(leaf) }, (_, i) => all.subarray(leaf.offsets[i], leaf.offsets[i + 1]))
}

/** Throws RangeError naming every entry that the batch lacks. */
export const requireRead = (name: string, batch: TensorDict, reads: readonly string[]): void => {
  const missing = reads.filter((entry) => find(batch, entry.split('.')) === undefined)
  if (missing.length > 0)
    throw new RangeError(`${name}: the batch has no ${missing.map((entry) => `'${entry}'`).join(', ')}`)
}

/**
 * Creates a reader of a batch. Errors: throws RangeError for entries that do not fit the response.
 */
export const turnReader = (name: string, batch: TensorDict): TurnReader => {
  const entryAt = (entry: string) => find(batch, entry.split('.'))
  const raggedAt = (entry: string): TokenRows => {
    const leaf = entryAt(entry)
    if (leaf === undefined || !('_tag' in leaf) || leaf._tag !== 'Ragged')
      throw new RangeError(`${name}: the entry '${entry}' must be ragged rows`)
    return rowsOf(leaf)
  }
  const hasTokens = entryAt('tokens.response') !== undefined
  const response: TokenRows = hasTokens
    ? raggedAt('tokens.response')
    : Array.from({ length: batch.batchShape[0] ?? 0 }, () => [0])
  const fitting = (entry: string, rows: TokenRows): TokenRows => {
    const wrong = rows.findIndex((row, i) => row.length !== response[i]!.length)
    if (wrong >= 0)
      throw new RangeError(
        `${name}: row ${wrong} has ${response[wrong]!.length} tokens but ${rows[wrong]!.length} numbers in '${entry}'`,
      )
    return rows
  }
  const has = (entry: string): boolean => entryAt(entry) !== undefined
  const masks = (): TokenRows => {
    if (has('masks.loss')) return fitting('masks.loss', raggedAt('masks.loss'))
    if (!has('masks.assistant')) return response.map((row) => new Uint8Array(row.length).fill(1))
    const all = raggedAt('masks.assistant')
    return all.map((row, i) => Array.prototype.slice.call(row, row.length - response[i]!.length))
  }
  return {
    mask: masks(),
    tokens: (entry) => fitting(entry, raggedAt(entry)),
    numbers: (entry) => {
      const leaf = entryAt(entry)
      if (!(leaf instanceof tf.Tensor) || leaf.shape.join() !== batch.batchShape.join())
        throw new RangeError(`${name}: the entry '${entry}' must be a tensor [${batch.batchShape.join()}]`)
      return leaf.dataSync()
    },
    has,
  }
}

/** Orders ids by the text before the last colon, then by the number after it. */
const byId = (a: string, b: string): number => {
  const [left, right] = [a, b].map((id) => {
    const at = id.lastIndexOf(':')
    const number = Number(id.slice(at + 1))
    return { head: Number.isFinite(number) ? id.slice(0, at + 1) : id, number: Number.isFinite(number) ? number : 0 }
  }) as [{ head: string; number: number }, { head: string; number: number }]
  if (left.head !== right.head) return left.head < right.head ? -1 : 1
  return left.number - right.number || (a < b ? -1 : a > b ? 1 : 0)
}

const valuesOf = <T>(batch: TensorDict, entry: string): readonly T[] => {
  const items = findData<T>(batch, entry)
  if (items === undefined) throw new RangeError(`the entry '${entry}' of a batch must be data`)
  return items
}

/**
 * Returns the trajectories of a batch in the order of their ids, whatever the order of the rows.
 *
 * Errors   throws RangeError for a trajectory in two groups, or with a missing turn between two
 *          others.
 */
export const trajectoriesOf = (name: string, batch: TensorDict): readonly BatchTrajectory[] => {
  const [ids, groups] = [valuesOf<string>(batch, 'trajectoryId'), valuesOf<string>(batch, 'groupId')]
  const turns = valuesOf<number>(batch, 'turn')
  const found = new Map<string, Map<number, number>>()
  for (const [row, id] of ids.entries()) {
    const own = found.get(id) ?? new Map<number, number>()
    if (!own.has(turns[row]!)) own.set(turns[row]!, row)
    found.set(id, own)
  }
  return [...found]
    .map(([id, rows]) => {
      const ordered = [...rows].sort(([a], [b]) => a - b)
      const gap = ordered.findIndex(([turn], i) => i > 0 && turn !== ordered[i - 1]![0] + 1)
      if (gap > 0)
        throw new RangeError(`${name}: trajectory '${id}' has no turn ${ordered[gap - 1]![0] + 1}: sample whole groups`)
      const groupId = groups[ordered[0]![1]]!
      if (ordered.some(([, row]) => groups[row] !== groupId))
        throw new RangeError(`${name}: trajectory '${id}' is in several groups`)
      return { id, groupId, rows: ordered.map(([, row]) => row) }
    })
    .sort((a, b) => byId(a.id, b.id))
}

/** Concatenates the rows of a trajectory's turns. */
export const joinedRow = (rows: TokenRows, members: readonly number[]): readonly number[] =>
  members.flatMap((row) => Array.from(rows[row]!))

/**
 * Distributes numbers of turns to tokens: each is placed at the last trained token of its turn. A
 * turn without trained tokens uses the last one before it, else the first one after it.
 */
export const atLastTokens = (
  numbers: ArrayLike<number>,
  mask: TokenRows,
  members: readonly number[],
): readonly number[] => {
  const joined = joinedRow(mask, members)
  const values = new Array<number>(joined.length).fill(0)
  let start = 0
  for (const row of members) {
    const end = start + mask[row]!.length
    const before = joined.lastIndexOf(1, end - 1)
    const place = before >= 0 && end > 0 ? before : joined.indexOf(1)
    if (place >= 0) values[place]! += numbers[row]!
    start = end
  }
  return values
}

/**
 * The rows of a result, by the trajectory and turn of each, and the turns and lengths of all rows
 * of the batch.
 */
interface CutRows {
  readonly ids: readonly string[]
  readonly turns: readonly number[]
  readonly rowTurns: readonly number[]
  readonly lengths: readonly number[]
}

/** Splits numbers of trajectories into turns: one row for each of `ids`. */
export const cutIntoTurns = (
  values: TokenRows,
  trajectories: readonly BatchTrajectory[],
  { ids, turns, rowTurns, lengths }: CutRows,
): Ragged<'float32'> => {
  const own = new Map<string, ArrayLike<number>>()
  for (const [i, { id, rows }] of trajectories.entries()) {
    let start = 0
    for (const row of rows) {
      const end = start + lengths[row]!
      own.set(`${id}\n${rowTurns[row]}`, Array.prototype.slice.call(values[i]!, start, end))
      start = end
    }
  }
  return ragged(
    'float32',
    ids.map((id, i) => own.get(`${id}\n${turns[i]}`)!),
  )
}

/** Returns the ids and turns of the rows of a batch. */
export const rowNames = (
  batch: TensorDict,
): { readonly ids: readonly string[]; readonly turns: readonly number[] } => ({
  ids: valuesOf<string>(batch, 'trajectoryId'),
  turns: valuesOf<number>(batch, 'turn'),
})
