/** Counts of the tokens in a prompt or a completion, for penalties. */

/** Token id -> count, 1 or more. */
export type TokenCounts = ReadonlyMap<number, number>

/** Counts that grow with a completion. Their creator owns them. */
export type OwnCounts = Map<number, number>

/**
 * Counts one more token.
 *
 * Effects  changes `counts`, which belong to the caller, and returns them.
 * Cost     O(1)
 *
 * @example
 * addToken(new Map(), 3).get(3) // 1
 */
export const addToken = (counts: OwnCounts, id: number): OwnCounts => counts.set(id, (counts.get(id) ?? 0) + 1)

/**
 * Counts the tokens of a list.
 *
 * Cost     O(T) for T tokens.
 *
 * @example
 * countTokens([5, 2, 5]).get(5) // 2
 */
export const countTokens = (ids: ArrayLike<number>): OwnCounts => {
  const counts: OwnCounts = new Map()
  for (let i = 0; i < ids.length; i++) addToken(counts, ids[i]!)
  return counts
}
