/** Rewards of completions, token by token, on plain arrays in float64. */
import { meanOf, normOf } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { DegenerateGroup } from './groupAdvantage.js'

/** Numbers for each token: one row for each completion, of any lengths. */
export type TokenRows = readonly ArrayLike<number>[]

/** Completions with the rewards of their tokens. Rows of `rewards` and `mask` are equally long. */
export interface RewardedRows {
  /** Completions of one group answer the same prompt and are compared. */
  readonly groups: readonly string[]
  /**
   * Reward of each token. An outcome reward is at the last trained token. Masked values have no
   * effect.
   */
  readonly rewards: TokenRows
  /** 1 for a token that the policy sampled; zeros may be between them. */
  readonly mask: TokenRows
}

/** One number for each token, 0 where the mask is 0. */
export type TokenAdvantages = readonly (readonly number[])[]

const shapeProblem = (mask: TokenRows, others: Readonly<Record<string, TokenRows>>): string | undefined => {
  for (const [name, rows] of Object.entries(others)) {
    if (rows.length !== mask.length) return `${name} has ${rows.length} rows, mask ${mask.length}`
    const i = rows.findIndex((row, b) => row.length !== mask[b]!.length)
    if (i >= 0) return `row ${i} of ${name} has ${rows[i]!.length} tokens, of mask ${mask[i]!.length}`
  }
  return undefined
}

/**
 * Throws RangeError, with the name of the function and the first wrong row, unless rows are as long
 * as those of the mask.
 */
export const checkShapes = (name: string, mask: TokenRows, others: Readonly<Record<string, TokenRows>>): void => {
  const problem = shapeProblem(mask, others)
  if (problem !== undefined) throw new RangeError(`${name}: ${problem}`)
}

/** Applies `checkShapes` to rewarded rows and further rows. */
export const checkRows = (
  name: string,
  { groups, rewards, mask }: RewardedRows,
  others: Readonly<Record<string, TokenRows>> = {},
): void => {
  if (groups.length !== mask.length)
    throw new RangeError(`${name}: groups has ${groups.length} entries, mask ${mask.length} rows`)
  checkShapes(name, mask, { rewards, ...others })
}

/** Returns the rows with zeros where the mask is 0. */
export const underMask = (rows: TokenRows, mask: TokenRows): readonly (readonly number[])[] =>
  rows.map((row, b) => Array.from(row, (x, t) => (mask[b]![t] === 0 ? 0 : x)))

/** Returns `Left` unless all numbers are finite. */
export const finite = <T extends TokenRows>(rows: T): E.Either<DegenerateGroup, T> =>
  rows.every((row) => Array.from(row).every(Number.isFinite))
    ? E.right(rows)
    : E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' })

/** Returns the sum of the unmasked rewards of each row. */
export const returnsOf = ({ rewards, mask }: RewardedRows): readonly number[] =>
  underMask(rewards, mask).map((row) => row.reduce((sum, r) => sum + r, 0))

/** Returns the number of unmasked tokens of each row. */
export const lengthsOf = (mask: TokenRows): readonly number[] =>
  mask.map((row) => Array.from(row).reduce((sum, m) => sum + m, 0))

/** Returns the row's value for each unmasked token, and 0 for the others. */
export const spread = (values: readonly number[], mask: TokenRows): TokenAdvantages =>
  mask.map((row, b) => Array.from(row, (m) => (m === 0 ? 0 : values[b]!)))

/** Returns the row indices of each group, in order of first appearance. */
export const groupRows = (groups: readonly string[]): readonly (readonly number[])[] => {
  const rows = new Map<string, number[]>()
  for (const [row, group] of groups.entries()) rows.set(group, [...(rows.get(group) ?? []), row])
  return [...rows.values()]
}

/**
 * Centers the unmasked numbers and divides them by their standard deviation. The result is `(x -
 * mean) / sqrt(var + 1e-8)`, with `n - 1` in the variance.
 *
 * Equation $y_t = \frac{x_t - \bar x}{\sqrt{\operatorname{var}(x) + 10^{-8}}}$ over the unmasked
 *          tokens
 * When     as the last step of an estimator, over the whole mini-batch.
 * Used by  `gae`, `reinforcePlusPlus`, `gdpoAdvantage`; verl `masked_whiten`
 * Edges    fewer than two unmasked numbers become 0.
 * Source   verl `masked_whiten`, which raises for fewer than two.
 *
 * @example
 * whiten([[1, 2, 3]], [[0, 1, 0]]) // [[0, 0, 0]]
 */
export const whiten = (rows: TokenRows, mask: TokenRows): TokenAdvantages => {
  const counted = rows.flatMap((row, b) => Array.from(row).filter((_, t) => mask[b]![t] !== 0))
  const n = counted.length
  const mean = meanOf(counted)
  const deviation = normOf(counted.map((x) => x - mean)) / Math.sqrt(n - 1)
  const scale = n < 2 ? 0 : 1 / normOf([deviation, 1e-4])
  return rows.map((row, b) => Array.from(row, (x, t) => (mask[b]![t] === 0 || n < 2 ? 0 : (x - mean) * scale)))
}
