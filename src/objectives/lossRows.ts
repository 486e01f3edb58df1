/** The rows of a loss: completions with the lists that it reads, made from a batch. */
import { child, type Key, uniforms } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { AdvantageEntry, ReturnsEntry } from '../data/batch.js'
import { batchRowsAt, findRows, lossMasks, temperatureOf } from '../data/batchRows.js'
import type { Completions } from '../data/completions.js'
import type { Ragged } from '../data/tensorDict/leaf.js'
import { find, findData, type TensorDict } from '../data/tensorDict/tensorDict.js'

/** One number for each row, or one for each token of each row. */
export type RowList = readonly number[] | readonly ArrayLike<number>[]

/** Completions with the lists that a loss reads. All lists have one element for each row. */
export interface LossRows extends Completions {
  /** Per token: 1 for trained tokens, 0 for others, such as tool results. Default: all tokens. */
  readonly masks?: readonly ArrayLike<number>[]
  readonly lists: Readonly<Record<string, RowList>>
  /** `pairs`: every two neighbors are the chosen and the rejected completion of a prompt. */
  readonly kind?: 'pairs'
}

type Response = TensorDict<{ readonly response: Ragged<'float32'> }>

/**
 * Prompts and completions, one row each. `masks.loss` or `masks.assistant` mask tokens out of the
 * loss. Default: all tokens count.
 */
export type CompletionEntries = {
  readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
}

/** Pairs of completions of one prompt. */
export type PreferenceBatch = {
  readonly chosen: TensorDict<CompletionEntries>
  readonly rejected: TensorDict<CompletionEntries>
}

/**
 * The lists that losses read by a name of their own, with the entries of the batch that have them.
 * Every other list has the dotted name of its entry.
 */
export interface LossLists {
  readonly advantages: AdvantageEntry
  /**
   * The denominators of the ratios: `oldLogProbs.response` if the batch has it, else
   * `logProbs.response`.
   */
  readonly oldLogProbs: { readonly logProbs: Response }
  readonly refLogProbs: { readonly next: TensorDict<{ readonly refLogProbs: Response }> }
  readonly teacherLogProbs: { readonly teacherLogProbs: Response }
  readonly returns: ReturnsEntry
  /** The values at sampling time. */
  readonly oldValues: { readonly values: Ragged<'float32'> }
  /** Factors of tokens, such as those of `rolloutCorrection`. */
  readonly weights: { readonly tokenWeights: Ragged<'float32'> }
}

type Merged<U> = (U extends unknown ? (entries: U) => void : never) extends (entries: infer I) => void ? I : never

/** The entries of the batches of a loss that reads these lists. */
export type EntriesOf<R extends string> = CompletionEntries &
  ([R & keyof LossLists] extends [never] ? unknown : Merged<LossLists[R & keyof LossLists]>)

/** The entries of rollouts that a loss can read. */
export type RolloutEntries = EntriesOf<'oldLogProbs' | 'advantages' | 'refLogProbs'>

const ENTRIES: Readonly<Record<keyof LossLists, string>> = {
  advantages: 'advantage',
  oldLogProbs: 'logProbs.response',
  refLogProbs: 'next.refLogProbs.response',
  teacherLogProbs: 'teacherLogProbs.response',
  returns: 'returns',
  oldValues: 'values',
  weights: 'tokenWeights',
}

/** Returns the dotted name of the entry that a list is read from. */
export const entryOf = (list: string): string => (ENTRIES as Readonly<Record<string, string>>)[list] ?? list

/** Sets log-probabilities to 0 where the mask is 0, because they may be NaN there. */
const known = (rows: readonly ArrayLike<number>[], masks: readonly ArrayLike<number>[] | undefined) =>
  masks === undefined ? rows : rows.map((row, i) => Array.from(row, (x, t) => (masks[i]![t] === 1 ? x : 0)))

/** Returns an entry as a list: ragged rows, a tensor `[B]`, or data of numbers. */
const listOf = (batch: TensorDict, entry: string): RowList | undefined => {
  const leaf = find(batch, entry.split('.'))
  if (leaf === undefined) return undefined
  if (leaf instanceof tf.Tensor) return Array.from(leaf.dataSync())
  return findData<number>(batch, entry.split('.')) ?? findRows(batch, entry)
}

type Masks = readonly ArrayLike<number>[] | undefined

/** Returns the log-probabilities of the sampler, and those that replace them in the ratio. */
const sampledLists = (batch: TensorDict, masks: Masks): LossRows['lists'] => {
  const sampled = known(batchRowsAt(batch, ENTRIES.oldLogProbs), masks)
  const own = findRows(batch, 'oldLogProbs.response')
  return own === undefined ? { oldLogProbs: sampled } : { oldLogProbs: known(own, masks), behaviorLogProbs: sampled }
}

/**
 * Makes a function that reads completions and lists from batches, without copies. Lists that a
 * batch does not have are left out. `temperature` is that of the sampler by default.
 *
 * Errors   the function throws RangeError for rows that were sampled at different temperatures.
 */
export const completionRows =
  (lists: readonly string[], temperature?: number) =>
  <B>(batch: TensorDict<B>): LossRows => {
    const td = batch as TensorDict // entries are found by name
    const masks = lossMasks(td)
    const read = lists.map((name): LossRows['lists'] => {
      if (name === 'oldLogProbs') return sampledLists(td, masks)
      const list = listOf(td, entryOf(name))
      return list === undefined ? {} : { [name]: list }
    })
    return {
      prompts: batchRowsAt(td, 'tokens.prompt'),
      completions: batchRowsAt(td, 'tokens.response'),
      ...(masks && { masks }),
      temperature: temperature ?? temperatureOf(td),
      lists: Object.assign({}, ...read) as LossRows['lists'], // records of lists
    }
  }

/** A value for each of two completions of a prompt. */
export interface Preference<T> {
  readonly chosen: T
  readonly rejected: T
}

/** The names of the entries of pairs. */
export const PAIRS: readonly string[] = ['chosen', 'rejected'].flatMap((side) => [
  `${side}.tokens.prompt`,
  `${side}.tokens.response`,
])

/** Interleaves pairs, the chosen one first, so that each pair stays together. */
export const interleaved = <T>({ chosen, rejected }: Preference<readonly T[]>): readonly T[] =>
  chosen.flatMap((row, i) => [row, rejected[i]!]) // a batch has one of each

const sameRow = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  a.length === b.length && Array.prototype.every.call(a, (x, i) => x === b[i])

/**
 * Reads the pairs of the nodes `chosen` and `rejected`, interleaved, with `refLogProbs` if both
 * sides have them.
 *
 * Errors   throws RangeError for a pair with different prompts.
 */
export const pairRows = <B>(batch: TensorDict<B>): LossRows => {
  const td = batch as TensorDict // entries are found by name
  const both = <T>(read: (side: TensorDict) => T): Preference<T> => ({
    chosen: read(find(td, ['chosen']) as TensorDict), // checked before: see `PAIRS`
    rejected: read(find(td, ['rejected']) as TensorDict),
  })
  const prompts = both((side) => batchRowsAt(side, 'tokens.prompt'))
  const differs = prompts.chosen.findIndex((row, i) => !sameRow(row, prompts.rejected[i]!))
  if (differs >= 0) throw new RangeError(`the completions of pair ${differs} have different prompts`)
  const responses = both((side) => batchRowsAt(side, 'tokens.response'))
  const masks = both(lossMasks)
  const { chosen, rejected } = both((side) => findRows(side, 'refLogProbs.response'))
  const ones = (rows: readonly ArrayLike<number>[]) => rows.map((row) => Array.from(row, () => 1))
  return {
    prompts: interleaved(prompts),
    completions: interleaved(responses),
    ...((masks.chosen !== undefined || masks.rejected !== undefined) && {
      masks: interleaved({
        chosen: masks.chosen ?? ones(responses.chosen),
        rejected: masks.rejected ?? ones(responses.rejected),
      }),
    }),
    temperature: 1,
    shared: 2,
    lists: chosen !== undefined && rejected !== undefined ? { refLogProbs: interleaved({ chosen, rejected }) } : {},
    kind: 'pairs',
  }
}

/** Returns one side of interleaved rows: `[2 B, T]` to `[B, T]`. */
export const sideOf = (x: tf.Tensor, side: keyof Preference<unknown>): tf.Tensor => {
  const [rows, length] = x.shape as [number, number] // [2 B, T] by contract
  const pairs = tf.reshape(x, [rows / 2, 2, length])
  return tf.reshape(tf.slice(pairs, [0, side === 'chosen' ? 0 : 1, 0], [rows / 2, 1, length]), [rows / 2, length])
}

/** Selects rows in the given order, with all of their lists. */
export const selectRows = <R extends LossRows>(rows: R, places: readonly number[]): R => {
  const pick = <X>(list: readonly X[]): readonly X[] => places.map((place) => list[place]!)
  return {
    ...rows,
    prompts: pick(rows.prompts),
    completions: pick(rows.completions),
    ...(rows.masks && { masks: pick(rows.masks) }),
    lists: Object.fromEntries(
      Object.entries(rows.lists).map(([name, list]) => [name, pick<number | ArrayLike<number>>(list) as RowList]), // of the same kind
    ),
  }
}

/** Selects rows as `selectRows`. Places count rows, or pairs. */
export const rowsAt = (rows: LossRows, places: readonly number[]): LossRows =>
  selectRows(rows, rows.kind === 'pairs' ? places.flatMap((place) => [2 * place, 2 * place + 1]) : places)

/**
 * Masks rows out of the loss: their tokens count neither in the objective nor in its normalization.
 * Advantages are unchanged, because they belong to the whole group.
 *
 * Errors   throws RangeError unless `isLeftOut` has one entry per row.
 *
 * @example
 * const rows = { prompts: [[1], [1]], completions: [[2], [3]], temperature: 1, lists: { advantages: [1, -1] } }
 * withoutRows(rows, [true, false]).masks // [[0], [1]]
 */
export const withoutRows = (rows: LossRows, isLeftOut: readonly boolean[]): LossRows => {
  const { completions, masks } = rows
  const size = completions.length
  if (isLeftOut.length !== size)
    throw new RangeError(`withoutRows: ${size} completions but ${isLeftOut.length} entries of isLeftOut`)
  if (!isLeftOut.includes(true)) return rows
  return {
    ...rows,
    masks: completions.map((row, i) => Array.from(row, (_, t) => (isLeftOut[i] ? 0 : (masks?.[i]?.[t] ?? 1)))),
  }
}

/** Adds random numbers from a key. Row i uses child i, independent of micro-batches. */
export const withNoise = (rows: LossRows, key: Key): LossRows => ({
  ...rows,
  lists: { ...rows.lists, noise: rows.completions.map((row, i) => uniforms(child(key, i), row.length)) },
})
