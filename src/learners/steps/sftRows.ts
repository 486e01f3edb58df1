/** Rows of given conversations with masks of the trained tokens. */
import { type ConfigFailure, checkOptions, problemList } from '@tandem-rl/base'
import type { History } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type MaskedTokens, type MaskedTokensOptions, maskedTokens } from '../../data/applyChatTemplate.js'
import type { LossRows } from '../../objectives/lossRows.js'
import { SFT_ROWS_OPTIONS } from '../optionKinds.js'

/** Rows for supervised training. Prompts have at least one token, to predict the first from. */
export interface SFTRows extends Pick<LossRows, 'prompts' | 'completions' | 'masks'> {
  /** Per token of the completion, for losses with a reference model. */
  readonly refLogProbs?: readonly ArrayLike<number>[]
}

/**
 * Converts conversations to rows. The prompt of a row ends before the first trained token; adjacent
 * rows share equal prompts. Tokens after the last trained one are left out. The first token of a
 * conversation is never trained on, because nothing predicts it.
 *
 * Errors   throws RangeError that lists all conversations whose mask has another length or no
 *          trained token.
 *
 * @example
 * maskedRows([{ ids: [5, 6, 7, 8, 9], mask: [0, 0, 1, 0, 0] }]) // { prompts: [[5, 6]], completions: [[7]], masks: [[1]] }
 */
export const maskedRows = (conversations: readonly MaskedTokens[]): Required<Omit<SFTRows, 'refLogProbs'>> => {
  const problems: string[] = []
  const rows = conversations.map(({ ids, mask }, i) => {
    const [tokens, on] = [Array.from(ids), Array.from(mask)]
    const first = on.findIndex((x, t) => t > 0 && x === 1)
    const last = on.lastIndexOf(1)
    if (tokens.length !== on.length)
      problems.push(`conversation ${i} has ${tokens.length} tokens but ${on.length} in its mask`)
    else if (first < 0) problems.push(`conversation ${i} has no token to train on`)
    return {
      prompt: tokens.slice(0, first),
      completion: tokens.slice(first, last + 1),
      mask: on.slice(first, last + 1),
    }
  })
  if (problems.length > 0) throw new RangeError(`maskedRows: ${problems.join('; ')}`)
  return {
    prompts: rows.map(({ prompt }) => prompt),
    completions: rows.map(({ completion }) => completion),
    masks: rows.map(({ mask }) => mask),
  }
}

export type SFTRowsOptions = Pick<
  MaskedTokensOptions,
  'tokenizer' | 'template' | 'from' | 'tools' | 'endOfTurn' | 'maxTokens'
>

/**
 * Converts conversations to rows for supervised fine-tuning. Each is rendered with the model's
 * template and encoded as a whole. The assistant's messages of every turn are trained on, with
 * `endOfTurn` if given. Special tokens in the text of messages are treated as text, as in
 * `encodeRendered`.
 *
 * Errors   `Left(ConfigFailure)` that lists all conversations that the template rejects, that have
 *          more than `maxTokens` tokens, or that have no token to train on.
 * Effects  none.
 * Source   TRL's `SFTTrainer` with `assistant_only_loss`; Transformers
 *          `apply_chat_template(return_assistant_tokens_mask=True)`.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * const template = orThrow(chatTemplate('{{ messages[0].content }}'))
 * sftRows([], { tokenizer, template }) // right({ prompts: [], completions: [], masks: [] })
 */
export const sftRows = (
  histories: readonly History[],
  options: SFTRowsOptions,
): E.Either<ConfigFailure, Required<Omit<SFTRows, 'refLogProbs'>>> => {
  checkOptions('sftRows', options, SFT_ROWS_OPTIONS)
  const problems: string[] = []
  const nameOf = (i: number): string => (histories.length === 1 ? 'the conversation' : `conversation ${i}`)
  const rows = histories.flatMap((history, i) => {
    const masked = maskedTokens(history, options)
    if (E.isLeft(masked)) problems.push(`${nameOf(i)}: ${masked.left.reason}`)
    else if (!Array.from(masked.right.mask).some((on, t) => t > 0 && on === 1))
      problems.push(`${nameOf(i)}: the assistant has no text to train on`)
    else return [masked.right]
    return []
  })
  return problems.length === 0
    ? E.right(maskedRows(rows))
    : E.left({ _tag: 'ConfigFailure', reason: problemList(problems) })
}
