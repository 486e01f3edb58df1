/** Prompts and completions on the host: one form from a batch to the padded tensors of a step. */

/** Rows of a prompt and a completion each. */
export interface Completions {
  /** Token ids, one list for each completion. */
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** The temperature at which log-probabilities are computed and compared. */
  readonly temperature: number
  /**
   * Every `shared` adjacent rows have one prompt, which is computed once for them. Default:
   * `sharedRows` of the prompts.
   */
  readonly shared?: number
}

const sameIds = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Returns the start of each run of equal neighbors. */
export const runStarts = (rows: readonly ArrayLike<number>[]): readonly number[] =>
  rows.flatMap((row, i) => (i > 0 && sameIds(row, rows[i - 1]!) ? [] : [i]))

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b))

/**
 * Returns the largest number of adjacent rows that all share a prompt: the greatest common divisor
 * of the lengths of runs of equal prompts. Groups of the same task next to each other stay groups,
 * and rows of later turns, whose prompts differ, share nothing.
 *
 * Cost     one comparison per token.
 *
 * @example
 * sharedRows([[1], [1], [1], [1], [2], [2]]) // 2
 */
export const sharedRows = (prompts: readonly ArrayLike<number>[]): number => {
  const starts = runStarts(prompts)
  return Math.max(
    1,
    starts.reduce((divisor, start, i) => commonDivisor(divisor, (starts[i + 1] ?? prompts.length) - start), 0),
  )
}

/** Returns the first prompt of every `shared` rows. */
export const distinctPrompts = (prompts: readonly ArrayLike<number>[], shared: number): readonly ArrayLike<number>[] =>
  prompts.filter((_, i) => i % shared === 0)
