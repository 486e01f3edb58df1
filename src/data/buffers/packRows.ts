/** Ragged rows packed into micro-batches of bounded size. */
import { checkOptions } from '@tandem-rl/base'
import { PACK_ROWS_OPTIONS } from '../optionKinds.js'
import { balancedPartition } from './balancedPartition.js'

/** Options for packing rows. */
export interface PackRowsOptions {
  /**
   * `sum`: the tokens of its rows. `padded`: the number of rows times the longest of them, as in a
   * rectangle. Default `sum`.
   */
  readonly cost?: 'sum' | 'padded'
  /**
   * A name for each row, such as its group. Rows with the same name stay adjacent in one
   * micro-batch. Default: each row by itself.
   */
  readonly together?: readonly (string | number)[]
}

/** The size of several rows. */
interface Size {
  readonly count: number
  readonly tokens: number
  readonly longest: number
}

/** Rows that are packed together. */
interface Unit extends Size {
  readonly rows: readonly number[]
}

const plus = (a: Size, b: Size): Size => ({
  count: a.count + b.count,
  tokens: a.tokens + b.tokens,
  longest: Math.max(a.longest, b.longest),
})

const NOTHING: Size = { count: 0, tokens: 0, longest: 0 }

const unitsOf = (lengths: readonly number[], names: readonly (string | number)[]): readonly Unit[] => {
  const rows = new Map<string | number, number[]>()
  for (const [row, name] of names.entries()) {
    const known = rows.get(name)
    if (known === undefined) rows.set(name, [row])
    else known.push(row)
  }
  return [...rows.values()].map((members) => ({
    rows: members,
    ...members.map((row): Size => ({ count: 1, tokens: lengths[row]!, longest: lengths[row]! })).reduce(plus, NOTHING),
  }))
}

/** Puts each unit, in the given order, into the first bin that has room, or into a new bin. */
const firstFit = (units: readonly Unit[], fits: (size: Size) => boolean): readonly (readonly Unit[])[] => {
  const bins: { readonly members: Unit[]; size: Size }[] = []
  for (const unit of units) {
    const bin = bins.find(({ size }) => fits(plus(size, unit)))
    if (bin === undefined) bins.push({ members: [unit], size: unit })
    else {
      bin.members.push(unit)
      bin.size = plus(bin.size, unit)
    }
  }
  return bins.map(({ members }) => members)
}

const requirePackable = (lengths: readonly number[], maxTokens: number, names: PackRowsOptions['together']): void => {
  const bad = lengths.findIndex((n) => !(Number.isSafeInteger(n) && n >= 0))
  const problems = [
    ...(bad < 0 ? [] : [`length ${bad} must be a natural number, got ${lengths[bad]}`]),
    ...(maxTokens >= 1 ? [] : [`maxTokens must be at least 1, got ${maxTokens}`]),
    ...(names === undefined || names.length === lengths.length
      ? []
      : [`${lengths.length} rows but ${names.length} names in together`]),
  ]
  if (problems.length > 0) throw new RangeError(`packRows: ${problems.join('; ')}`)
}

/** Splits units into `count` bins of nearly equal load. */
const balanced = (units: readonly Unit[], count: number): readonly (readonly Unit[])[] =>
  balancedPartition(
    units.map(({ tokens }) => tokens),
    count,
  ).map((part) => part.map((i) => units[i]!))

/**
 * Packs ragged rows into few micro-batches of nearly equal cost, at most `maxTokens` each.
 *
 * First-fit decreasing gives the number of micro-batches. Then, for `cost: 'sum'`, differencing
 * (`balancedPartition`) spreads the rows evenly over the fewest micro-batches that any packing
 * could have, or over that number, whichever first keeps the bound. If neither does, the result of
 * first-fit is used.
 *
 * Shapes   one length for each row; one list of row numbers for each micro-batch, in the order of
 *          their first rows. Each row is in exactly one.
 * Errors   throws RangeError, with all problems, for lengths that are not natural numbers, a bound
 *          below 1, or a number of names other than the number of rows. A row that alone exceeds
 *          the bound is not an error: it gets a micro-batch of its own, and no row is lost.
 * Effects  none. Equal arguments give equal results: no randomness.
 * Cost     O(n m) for n rows and m micro-batches, and twice `balancedPartition`.
 * Source   Johnson 1973 for first-fit decreasing: at most 11/9 of the fewest bins, and 6/9. verl's
 *          `rearrange_micro_batches` takes the fewest that any packing could have and lets them
 *          overflow.
 *
 * @example
 * packRows([5, 1, 4, 2], 6) // [[0, 1], [2, 3]]
 */
export const packRows = (
  lengths: readonly number[],
  maxTokens: number,
  options: PackRowsOptions = {},
): readonly (readonly number[])[] => {
  checkOptions('packRows', options, PACK_ROWS_OPTIONS)
  const { cost = 'sum', together } = options

  requirePackable(lengths, maxTokens, together)
  const fits = ({ count, tokens, longest }: Size): boolean => (cost === 'sum' ? tokens : count * longest) <= maxTokens
  const keepsBound = (bins: readonly (readonly Unit[])[]): boolean =>
    bins.every((bin) => bin.length === 1 || fits(bin.reduce(plus, NOTHING)))
  const units = unitsOf(lengths, together ?? lengths.map((_, row) => row))
  const largestFirst = [...units].sort((a, b) => (cost === 'sum' ? b.tokens - a.tokens : b.longest - a.longest))
  const first = firstFit(largestFirst, fits)
  const total = units.reduce((sum, { tokens }) => sum + tokens, 0)
  const fewest = Math.min(first.length, Math.max(1, Math.ceil(total / maxTokens)))
  const counts = cost === 'sum' && first.length > 1 ? [...new Set([fewest, first.length])] : []
  const even = counts.map((count) => balanced(units, count)).find(keepsBound)
  return (even ?? first)
    .map((bin) => [...bin].sort((a, b) => a.rows[0]! - b.rows[0]!).flatMap(({ rows }) => rows))
    .sort((a, b) => a[0]! - b[0]!)
}
