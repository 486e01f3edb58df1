/** Batches of given tokens, for losses that train without sampling. */
import { type Ragged, ragged } from '../data/tensorDict/leaf.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { CompletionEntries, PreferenceBatch } from '../objectives/lossRows.js'

/** Prompts and completions as lists of token ids, one element each. */
export interface TokenLists {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token of the completion: 1 for trained tokens. Default: all tokens. */
  readonly masks?: readonly ArrayLike<number>[]
}

/** Prompts and completions with a mask of the trained tokens. */
export type MaskedBatch = CompletionEntries & { readonly masks: TensorDict<{ readonly loss: Ragged<'bool'> }> }

/** Pairs of completions as lists of token ids. */
export interface PreferenceLists {
  readonly prompts: readonly ArrayLike<number>[]
  readonly chosen: readonly ArrayLike<number>[]
  readonly rejected: readonly ArrayLike<number>[]
}

/**
 * Makes a batch of prompts and completions, such as those of `sftRows`.
 *
 * Shapes   `[B]`.
 * Errors   throws RangeError if a mask and its completion differ in length, and TensorDictError if
 *          the lists differ in length.
 *
 * @example
 * get(tokenBatch({ prompts: [[1]], completions: [[2, 3]] }), 'tokens', 'response').values // [2, 3]
 */
export const tokenBatch = ({ prompts, completions, masks }: TokenLists): TensorDict<MaskedBatch> => {
  const wrong = masks?.findIndex((row, i) => row.length !== completions[i]?.length) ?? -1
  if (wrong >= 0)
    throw new RangeError(
      `tokenBatch: row ${wrong} has ${completions[wrong]?.length ?? 0} tokens but ${masks![wrong]!.length} in its mask`,
    )
  const loss = masks ?? completions.map((row) => new Uint8Array(row.length).fill(1))
  return TensorDict(
    {
      tokens: { prompt: ragged('int32', prompts), response: ragged('int32', completions) },
      masks: { loss: ragged('bool', loss) },
    },
    [completions.length],
  )
}

/**
 * Makes a batch of pairs of a preferred and a rejected completion.
 *
 * Shapes   `[B]`, one row per pair.
 * Errors   throws TensorDictError if the lists differ in length.
 *
 * @example
 * preferenceBatch({ prompts: [[1]], chosen: [[2]], rejected: [[3]] }).batchShape // [1]
 */
export const preferenceBatch = ({ prompts, chosen, rejected }: PreferenceLists): TensorDict<PreferenceBatch> => {
  const prompt = ragged('int32', prompts)
  const side = (completions: readonly ArrayLike<number>[]) => ({
    tokens: { prompt, response: ragged('int32', completions) },
  })
  return TensorDict({ chosen: side(chosen), rejected: side(rejected) }, [prompts.length])
}
