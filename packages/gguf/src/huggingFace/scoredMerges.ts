/** Merges of a vocabulary whose tokens have scores. */

/** The characters of the longest token that can come from a merge. */
const MAX_TOKEN = 256

/** Two tokens and the one that they become. */
interface Merge {
  readonly left: string
  readonly right: string
  readonly score: number
  readonly ids: readonly [left: number, right: number]
}

/**
 * Returns the merges `left right` of a vocabulary in which neighbours with the best score are
 * merged first, in the order of their priority: by the score of the result, then by the ids of
 * both parts.
 *
 * Source   `SentencePieceExtractor` and `generate_merges` of Transformers 5.17.
 * Cost     one lookup for each place at which a token can be cut. Tokens of more than 256
 *          characters, which are runs of blanks, have no merges.
 */
export const mergesOfScores = (
  tokens: readonly (string | undefined)[],
  scores: readonly number[],
): readonly (readonly [left: string, right: string])[] => {
  const ids = new Map(tokens.flatMap((token, id) => (token === undefined ? [] : [[token, id] as const])))
  const merges: Merge[] = []
  for (const [token, id] of ids) {
    if (token.length > MAX_TOKEN) continue
    const parts: Merge[] = []
    for (let cut = 1; cut < token.length; cut++) {
      const [left, right] = [token.slice(0, cut), token.slice(cut)]
      const pair = [ids.get(left), ids.get(right)] as const
      if (pair[0] === undefined || pair[1] === undefined) continue
      parts.push({ left, right, score: scores[id]!, ids: [pair[0], pair[1]] })
    }
    merges.push(...parts.sort((a, b) => a.ids[0] - b.ids[0] || a.ids[1] - b.ids[1]))
  }
  return merges.sort((a, b) => b.score - a.score).map(({ left, right }) => [left, right])
}
