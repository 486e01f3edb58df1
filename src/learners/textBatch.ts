/** Batches of conversations and preference pairs, for losses that train on given text. */
import { type ConfigFailure, checkOptions, problemList } from '@tandem-rl/base'
import { encodeRendered, excess, farBeyond, type History, render, textOf, tokenized } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { RowLimit } from '../data/applyChatTemplate.js'
import type { PreferencePair } from '../data/datasets/conversationRows.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { ModelText } from '../modules/pretrained/pretrained.js'
import type { PreferenceBatch } from '../objectives/lossRows.js'
import { CHAT_BATCH_OPTIONS, PAIR_BATCH_OPTIONS } from './optionKinds.js'
import { type SFTRowsOptions, sftRows } from './steps/sftRows.js'
import { type MaskedBatch, preferenceBatch, tokenBatch } from './tokenBatch.js'

/**
 * Makes batches of conversations to train on the assistant's messages: `sftRows` as a batch.
 *
 * Errors   `Left(ConfigFailure)` like `sftRows`.
 *
 * @example
 * typeof chatBatch // 'function'
 */
export const chatBatch = (text: ModelText, options: Pick<SFTRowsOptions, 'from' | 'tools' | 'maxTokens'> = {}) => {
  checkOptions('chatBatch', options, CHAT_BATCH_OPTIONS)
  return (histories: readonly History[]): E.Either<ConfigFailure, TensorDict<MaskedBatch>> => {
    const { tokenizer, template, endOfTurn } = text
    return pipe(sftRows(histories, { tokenizer, template, endOfTurn, ...options }), E.map(tokenBatch))
  }
}

/**
 * Makes batches of preference pairs. Prompts are rendered with the generation prompt. Answers are
 * encoded separately, followed by the end of the turn. Both are thus tokenized as a policy samples
 * them.
 *
 * Errors   `Left(ConfigFailure)` that lists all pairs whose prompt the template rejects, and those
 *          with more than `maxTokens` tokens.
 * Source   TRL's `DPOTrainer` with conversational rows of `prompt`, `chosen` and `rejected`.
 *
 * @example
 * typeof pairBatch // 'function'
 */
export const pairBatch = ({ tokenizer, template, endOfTurn }: ModelText, options: RowLimit = {}) => {
  checkOptions('pairBatch', options, PAIR_BATCH_OPTIONS)
  const { maxTokens = tokenizer.settings.maxLength } = options
  const batchOf = (pairs: readonly PreferencePair[]): E.Either<ConfigFailure, TensorDict<PreferenceBatch>> => {
    const problems: string[] = []
    const nameOf = (i: number): string => (pairs.length === 1 ? 'the pair' : `pair ${i}`)
    for (const [i, { prompt, chosen, rejected }] of pairs.entries()) {
      const texts = prompt.messages.toArray().map(textOf)
      for (const answer of [chosen, rejected]) {
        const problem = farBeyond([...texts, answer], maxTokens, tokenizer)
        if (problem !== undefined) problems.push(`${nameOf(i)}: ${problem}`)
      }
    }
    if (problems.length > 0) return E.left({ _tag: 'ConfigFailure', reason: problemList(problems) })
    const prompts = pairs.map(({ prompt }, i): ArrayLike<number> => {
      const rendered = render(template, prompt, { generationPrompt: 'add' })
      if (E.isRight(rendered)) return encodeRendered(tokenizer, rendered.right).ids
      problems.push(`${nameOf(i)}: ${rendered.left.reason}`)
      return []
    })
    if (problems.length > 0) return E.left({ _tag: 'ConfigFailure', reason: problemList(problems) })
    const end = tokenizer.encode(endOfTurn)
    const answer = (reply: string): readonly number[] => [
      ...tokenizer.encode(reply, { specialTokens: 'plainText' }),
      ...end,
    ]
    const [chosen, rejected] = [pairs.map((pair) => answer(pair.chosen)), pairs.map((pair) => answer(pair.rejected))]
    for (const [i, prompt] of prompts.entries()) {
      const problem = excess(prompt.length + Math.max(chosen[i]!.length, rejected[i]!.length), maxTokens)
      if (problem !== undefined) problems.push(`${nameOf(i)}: ${problem}`)
    }
    if (problems.length > 0) return E.left({ _tag: 'ConfigFailure', reason: problemList(problems) })
    return E.right(preferenceBatch({ prompts, chosen, rejected }))
  }
  return (pairs: readonly PreferencePair[]): E.Either<ConfigFailure, TensorDict<PreferenceBatch>> =>
    pipe(
      tokenized(() => batchOf(pairs)),
      E.mapLeft(({ reason }): ConfigFailure => ({ _tag: 'ConfigFailure', reason })),
      E.flatten,
    )
}
