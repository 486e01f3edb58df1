import { checkOptions } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TokenAction, TokenPrompt } from '../../data/policy.js'
import { raggedSpec, tensorSpec } from '../../data/spec.js'
import { rowLengths } from '../../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addEnds, envFailure } from '../base/env.js'
import { TOKEN_BUDGET_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

/** Tokens that an episode has used, and tokens left, at least 0: `[B]` int32. */
export type BudgetEntries = { readonly tokensUsed: tf.Tensor; readonly tokensLeft: tf.Tensor }

export interface TokenBudgetOptions {
  /** Maximum tokens of an episode. */
  readonly tokens: number
  /**
   * The tokens that count. `sampled`: the policy's, over all turns. `all`: the whole conversation
   * with the tokens of the template, tools and users, which must fit the model. Default `sampled`.
   */
  readonly counted?: 'sampled' | 'all'
}

/**
 * Truncates an episode that has used up its tokens, and adds the remaining number after each step.
 * Place it outside the tokenizer.
 *
 * An episode without tokens left is `truncated` and `done`. Turns are not cut in the middle: the
 * limit of a turn is the policy's `maxNewTokens`.
 *
 * Shapes   `tokensUsed` and `tokensLeft` `[B]`.
 * Errors   `Left(EnvFailure)` if the action has no token ids; throws RangeError unless `tokens` is
 *          at least 1.
 *
 * @example
 * tokenBudget({ tokens: 4096, counted: 'all' }).name // 'tokenBudget'
 */
export const tokenBudget = (options: TokenBudgetOptions): Transform<null, TokenPrompt, BudgetEntries> => {
  checkOptions('tokenBudget', options, TOKEN_BUDGET_OPTIONS)
  const { tokens, counted = 'sampled' } = options
  if (!Number.isInteger(tokens) || tokens < 1 || tokens > 0x7fffffff) {
    throw new RangeError(`tokenBudget: tokens must be from 1 to ${0x7fffffff}, got ${tokens}`)
  }
  const entriesOf = (used: readonly number[]): BudgetEntries => ({
    tokensUsed: tf.tensor1d([...used], 'int32'),
    tokensLeft: tf.tensor1d(
      used.map((n) => Math.max(0, tokens - n)),
      'int32',
    ),
  })
  const promptLengths = (td: TensorDict<TokenPrompt>): readonly number[] => rowLengths(get(td, 'tokens', 'prompt'))
  return transform<null, TokenPrompt, BudgetEntries>({
    name: 'tokenBudget',
    initial: null,
    needs: { observation: { tokens: { prompt: raggedSpec('int32') } }, action: {} },
    adds: { tokensUsed: tensorSpec('int32'), tokensLeft: tensorSpec('int32') },
    reset: (td) => {
      const used = promptLengths(td).map((length) => (counted === 'all' ? length : 0))
      return TE.right([scope(() => TensorDict(entriesOf(used), td.batchShape)), null])
    },
    step: (next, { previous, action }) => {
      if (find(action, ['tokens', 'response']) === undefined) {
        return TE.left(envFailure('tokenBudget', 'the action has no tokens.response'))
      }
      const before = get(previous as TensorDict<BudgetEntries>, 'tokensUsed').dataSync() // added by `reset` or the last step
      const sampled = rowLengths(get(action as TensorDict<TokenAction>, 'tokens', 'response')) // checked: it has them
      const used = counted === 'all' ? promptLengths(next) : sampled.map((length, i) => before[i]! + length)
      const added = scope(() => {
        const ends = addEnds({ previous, next }, { truncated: used.map((n) => n >= tokens) })
        return TensorDict({ ...entriesOf(used), ...ends }, next.batchShape)
      })
      return TE.right([added, null])
    },
  })
}
