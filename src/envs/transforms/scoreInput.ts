/** The completions of a step as token ids, for a model that scores them. */
import {
  appendMessage,
  cutRanges,
  type History,
  type Message,
  type RenderOptions,
  render,
  type TextRange,
  type TextTokenizer,
  type TokenSpan,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type {
  HistoryAction,
  HistoryPrompt,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from '../../data/policy.js'
import { dataSpec, raggedSpec, type Spec } from '../../data/spec.js'
import { type Ragged, ragged, raggedLength, raggedRow } from '../../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import type { TemplateTransformOptions, TextEntries } from './templateTransform.js'

/**
 * The tokens that are scored, and the view they are read from. `tokens`: the ids of the completion.
 * `conversation`: the ids of all tokens that the policy has sampled so far, for rows that are
 * trained as a whole. `text`: the text of the completion, encoded again. `history`: the message,
 * rendered with the template and encoded. If ids exist beside a text or message, it must encode to
 * them.
 */
export type ScoreInput =
  | { readonly _tag: 'tokens' }
  | { readonly _tag: 'conversation' }
  | { readonly _tag: 'text'; readonly tokenizer: TextTokenizer }
  | HistoryInput

/** Messages, with the options of the policy's template. */
interface HistoryInput extends TemplateTransformOptions {
  readonly _tag: 'history'
  readonly tokenizer: TextTokenizer
}

export type TokensInput = Extract<ScoreInput, { readonly _tag: 'tokens' }>

export const TOKENS_INPUT: TokensInput = { _tag: 'tokens' }

/** The entries that a state must have for an input. */
export type PromptOf<I extends ScoreInput> = I extends { readonly _tag: 'text' }
  ? TextPrompt
  : I extends { readonly _tag: 'history' }
    ? HistoryPrompt
    : TokenPrompt

const PROMPT_SPECS: Readonly<Record<ScoreInput['_tag'], Spec>> = {
  tokens: { tokens: { prompt: raggedSpec('int32') } },
  conversation: { tokens: { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') } },
  text: { text: { prompt: dataSpec<string>('string') } },
  history: { history: { prompt: dataSpec<History>('History') } },
}

/** The specs of `PromptOf`. */
export const promptSpec = (input: ScoreInput): Spec => PROMPT_SPECS[input._tag]

/** Token ids, a row for each batch element. */
export interface ScoredIds {
  readonly prompts: Ragged<'int32'>
  readonly completions: Ragged<'int32'>
}

type Result<T> = E.Either<EnvFailure, T>

/** The ids of a prompt and its completion. */
interface IdPair {
  readonly prompt: ArrayLike<number>
  readonly completion: ArrayLike<number>
}

const idsOf = (pairs: readonly IdPair[]): ScoredIds => ({
  prompts: ragged(
    'int32',
    pairs.map(({ prompt }) => prompt),
  ),
  completions: ragged(
    'int32',
    pairs.map(({ completion }) => completion),
  ),
})

/** Encodes a text; `plainText` are the parts in which no control token is to be recognized. */
const encode = (tokenizer: TextTokenizer, text: string, plainText: readonly TextRange[]): ArrayLike<number> =>
  tokenizer.encode(text, { specialTokens: { plainText } })

const textIds = (tokenizer: TextTokenizer, previous: TensorDict, action: TensorDict): ScoredIds => {
  const prompts = get(previous as TensorDict<TextPrompt>, 'text', 'prompt').items // needed of the state
  const isGiven = find(previous, ['text', 'plainText']) !== undefined
  const given = isGiven ? get(previous as TensorDict<TextEntries>, 'text', 'plainText').items : undefined // it is there
  const responses = get(action as TensorDict<TextAction>, 'text', 'response').items // checked by `readIds`
  return idsOf(
    prompts.toArray().map((text, i) => ({
      prompt: encode(tokenizer, text, given?.get(i) ?? []),
      completion: tokenizer.encode(responses.get(i)!),
    })),
  )
}

/**
 * Returns the end of the policy's text in a rendered message: the end of its turn, with the marker
 * if the message is complete.
 */
const writtenEnd = (text: string, start: number, { isComplete }: Message, endOfTurn: string): number | undefined => {
  const marker = text.lastIndexOf(endOfTurn)
  if (marker < start) return undefined
  return isComplete ? marker + endOfTurn.length : marker
}

const historyPair = (
  { tokenizer, template, endOfTurn, tools }: HistoryInput,
  history: History,
  reply: Message,
): E.Either<string, IdPair> => {
  const rendered = (messages: History, generationPrompt: RenderOptions['generationPrompt']) =>
    E.mapLeft(({ reason }: { readonly reason: string }) => reason)(
      render(template, messages, { generationPrompt, ...(tools !== undefined && { tools }) }),
    )
  const result = rendered(history, 'add')
  if (E.isLeft(result)) return result
  const whole = rendered(appendMessage(history, reply), 'omit')
  if (E.isLeft(whole)) return whole
  const { text, plainText: given } = whole.right
  const start = result.right.text.length
  const end = text.startsWith(result.right.text) ? writtenEnd(text, start, reply, endOfTurn) : undefined
  if (end === undefined) return E.left('the template does not put the reply behind its prompt, with the end of a turn')
  return E.right({
    prompt: encode(tokenizer, result.right.text, result.right.plainText),
    completion: encode(tokenizer, text.slice(start, end), cutRanges(given, start, end)),
  })
}

const historyIds = (
  name: string,
  input: HistoryInput,
  { previous, action }: { readonly previous: TensorDict; readonly action: TensorDict },
): Result<ScoredIds> => {
  const histories = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
  const replies = get(action as TensorDict<HistoryAction>, 'history', 'response').items // checked by `readIds`
  const pairs: IdPair[] = []
  for (const [i, history] of histories.entries()) {
    const pair = historyPair(input, history, replies.get(i)!)
    if (E.isLeft(pair)) return E.left(envFailure(name, `conversation ${i}: ${pair.left}`))
    pairs.push(pair.right)
  }
  return E.right(idsOf(pairs))
}

/** Returns the first row whose ids differ; -1 if all are equal. */
const firstOther = (read: Ragged, there: Ragged): number =>
  Array.from({ length: raggedLength(read) }, (_, i) => i).findIndex(
    (i) => raggedRow(read, i).join() !== raggedRow(there, i).join(),
  )

/**
 * Returns prompts and completions of a step as ids.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that the input names, if a template does
 *          not render a reply after its prompt, and if a text encodes to different ids than those
 *          of the action: the numbers would belong to other tokens.
 */
export const readIds = (
  name: string,
  input: ScoreInput,
  step: { readonly previous: TensorDict; readonly action: TensorDict },
): Result<ScoredIds> => {
  const { previous, action } = step
  const view = input._tag === 'conversation' ? 'tokens' : input._tag
  if (find(action, [view, 'response']) === undefined) {
    return E.left(envFailure(name, `the action has no ${view}.response`))
  }
  if (input._tag === 'tokens' || input._tag === 'conversation') {
    return E.right({
      prompts: get(previous as TensorDict<TokenPrompt>, 'tokens', 'prompt'), // needed of the state
      completions: get(action as TensorDict<TokenAction>, 'tokens', 'response'), // checked: it has them
    })
  }
  const read: Result<ScoredIds> =
    input._tag === 'text' ? E.right(textIds(input.tokenizer, previous, action)) : historyIds(name, input, step)
  if (E.isLeft(read)) return read
  const { prompts, completions } = read.right
  const others = [
    ['prompt', prompts, find(previous, ['tokens', 'prompt'])] as const,
    ['completion', completions, find(action, ['tokens', 'response'])] as const,
  ].flatMap(([what, rows, ids]) => {
    const other = ids !== undefined && '_tag' in ids && ids._tag === 'Ragged' ? firstOther(rows, ids) : -1
    return other < 0 ? [] : [`${what} ${other}, read as ${input._tag}, encodes to other tokens than there are`]
  })
  return others.length === 0 ? read : E.left(envFailure(name, `${others.join('; ')}: read the tokens instead`))
}
