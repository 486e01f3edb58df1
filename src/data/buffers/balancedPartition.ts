import { checkOptions } from '@tandem-rl/base'
import { BALANCED_PARTITION_OPTIONS } from '../optionKinds.js'

/**
 * Splits rows into a given number of parts with nearly equal sums: the largest differencing method
 * of Karmarkar and Karp.
 */

/** The rows of one part, in the order in which they were joined. */
interface Part {
  readonly sum: number
  readonly rows: readonly number[]
}

/**
 * A partition of some of the rows: the parts that have rows, largest first. All other parts are
 * empty.
 */
type Cut = readonly Part[]

const sign = (n: number): number => (n > 0 ? 1 : n < 0 ? -1 : 0)

/**
 * Compares parts by sum, then by the number of rows, then by the rows themselves. Different parts
 * never tie.
 */
const compareParts = (a: Part, b: Part): number => {
  if (a.sum !== b.sum) return a.sum - b.sum
  if (a.rows.length !== b.rows.length) return a.rows.length - b.rows.length
  const i = a.rows.findIndex((row, at) => row !== b.rows[at])
  return i < 0 ? 0 : a.rows[i]! - b.rows[i]!
}

const largestFirst = (parts: readonly Part[]): Cut => [...parts].sort((a, b) => compareParts(b, a))

/** Returns the difference between the largest and the smallest of `count` parts. */
const spreadOf = (cut: Cut, count: number): number => cut[0]!.sum - (cut.length < count ? 0 : cut.at(-1)!.sum)

/** Joins the largest parts of one partition with the smallest parts of the other. */
const joinCuts = (a: Cut, b: Cut, count: number): Cut => {
  const paired = a.map((part, i) => {
    const other = b[count - 1 - i]
    return other === undefined ? part : { sum: part.sum + other.sum, rows: [...part.rows, ...other.rows] }
  })
  return largestFirst([...paired, ...b.slice(0, Math.max(0, count - a.length))])
}

/** Orders partitions by urgency: the one to join next is last. */
const byUrgency =
  (count: number) =>
  (a: Cut, b: Cut): number =>
    sign(spreadOf(a, count) - spreadOf(b, count)) || compareParts(a[0]!, b[0]!)

/** Returns the position at which a partition is inserted into a sorted list. */
const placeOf = (cuts: readonly Cut[], cut: Cut, compare: (a: Cut, b: Cut) => number): number => {
  let low = 0
  let high = cuts.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(cuts[middle]!, cut) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Options for the number of rows in each part. */
export interface PartitionOptions {
  /**
   * `free`: at least one row in each part, any number. `equal`: the same number in all parts.
   * Default `free`.
   */
  readonly rows?: 'free' | 'equal'
}

const problemsOf = (lengths: readonly number[], parts: number, rows: 'free' | 'equal'): readonly string[] => {
  const bad = lengths.findIndex((n) => !(Number.isSafeInteger(n) && n >= 0))
  const isCount = Number.isSafeInteger(parts) && parts >= 1
  return [
    ...(bad < 0 ? [] : [`length ${bad} must be a natural number, got ${lengths[bad]}`]),
    ...(isCount ? [] : [`parts must be a natural number from 1, got ${parts}`]),
    ...(isCount && parts > lengths.length ? [`${lengths.length} rows cannot fill ${parts} parts`] : []),
    ...(isCount && rows === 'equal' && lengths.length % parts !== 0
      ? [`${lengths.length} rows cannot be cut into ${parts} parts of equal size`]
      : []),
  ]
}

/**
 * Splits rows into parts with nearly equal sums of lengths, by differencing (Karmarkar and Karp).
 * It starts with one partition for each row and joins the two partitions with the largest spread,
 * largest parts to smallest ones, until one is left.
 *
 * Shapes   one length for each row; one list of row numbers, ascending, for each part. Each row is
 *          in exactly one part, and each part has at least one row.
 * Errors   throws RangeError, with all problems, for lengths that are not natural numbers, for
 *          fewer rows than parts, and for `equal` unless the number of parts divides the number of
 *          rows.
 * Effects  none. Equal arguments give equal results.
 * Cost     O(n (n + k)) for n rows and k parts at worst; 10,000 rows in 1,000 parts take less than
 *          a second.
 * Source   Karmarkar and Karp 1982, "The differencing method of set partitioning"; the same parts
 *          as verl's `karmarkar_karp`.
 *
 * @example
 * balancedPartition([30, 16, 15, 4], 2) // [[0, 3], [1, 2]]
 */
export const balancedPartition = (
  lengths: readonly number[],
  parts: number,
  options: PartitionOptions = {},
): readonly (readonly number[])[] => {
  checkOptions('balancedPartition', options, BALANCED_PARTITION_OPTIONS)
  const { rows = 'free' } = options

  const problems = problemsOf(lengths, parts, rows)
  if (problems.length > 0) throw new RangeError(`balancedPartition: ${problems.join('; ')}`)
  const sorted = lengths.map((sum, row): Part => ({ sum, rows: [row] })).sort(compareParts)
  const size = rows === 'equal' ? parts : 1
  const compare = byUrgency(parts)
  const cuts = Array.from({ length: sorted.length / size }, (_, i) =>
    largestFirst(sorted.slice(i * size, (i + 1) * size)),
  ).sort(compare)
  while (cuts.length > 1) {
    const joined = joinCuts(cuts.pop()!, cuts.pop()!, parts)
    cuts.splice(placeOf(cuts, joined, compare), 0, joined)
  }
  return cuts[0]!.map((part) => [...part.rows].sort((a, b) => a - b))
}
