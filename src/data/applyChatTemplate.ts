/** Conversations to token ids and masks in one call. */
import { type ConfigFailure, checkOptions, type Failure, problemList } from '@tandem-rl/base'
import {
  type AssistantTextOptions,
  assistantText,
  type ChatTemplate,
  excess,
  farBeyond,
  type History,
  type PaddingOptions,
  type RenderOptions,
  render,
  type Side,
  type TextTokenizer,
  textOf,
  tokenized,
  tokenMask,
  windows,
} from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { APPLY_CHAT_TEMPLATE_OPTIONS, APPLY_CHAT_TEMPLATE_PADDING_OPTIONS } from './optionKinds.js'
import { filledRows, type Ragged, ragged, toPadded } from './tensorDict/leaf.js'
import { get, TensorDict } from './tensorDict/tensorDict.js'

/** The tokens of a conversation, and a mask that is 1 for those that the assistant wrote. */
export interface MaskedTokens {
  readonly ids: ArrayLike<number>
  readonly mask: ArrayLike<number>
}

/** The limit of the tokens of a row. */
export interface RowLimit {
  /**
   * Longer conversations are refused before they are encoded. Default: `model_max_length` of the
   * tokenizer's files. Pass `maxPositions` of the model's config.
   */
  readonly maxTokens?: number
}

/** Options for rendering, encoding and masking conversations. */
export interface MaskedTokensOptions
  extends RowLimit,
    Omit<RenderOptions, 'generationPrompt'>,
    Partial<Pick<RenderOptions, 'generationPrompt'>>,
    Pick<AssistantTextOptions, 'endOfTurn'> {
  readonly tokenizer: TextTokenizer
  readonly template: ChatTemplate
  /** Source of the assistant mask: see `assistantText`. Default `spans`. */
  readonly from?: AssistantTextOptions['from']
  /**
   * The side on which conversations of more than `maxTokens` tokens are truncated. Default: they
   * are refused.
   */
  readonly truncate?: Side
}

/** Padding to the longest row, or to `length`. */
export interface ChatPadding extends Pick<PaddingOptions, 'id' | 'side'> {
  /** Lowers `maxTokens`. */
  readonly length?: number
}

export interface ApplyChatTemplateOptions extends MaskedTokensOptions {
  readonly padding?: ChatPadding
  /** Ignored, so that the `text` of `loadPretrained` can be spread into the options. */
  readonly files?: Readonly<Record<string, string>>
  /** Ignored likewise. */
  readonly otherEnds?: readonly string[]
}

/** Token ids of conversations, with masks over them. */
export type ChatTokens = {
  readonly tokens: TensorDict<{ readonly full: Ragged<'int32'> }>
  readonly masks: TensorDict<{
    /** 1 for every token. */
    readonly attention: Ragged<'bool'>
    /**
     * 1 for the tokens that the assistant wrote, including the end of its turn if `endOfTurn` is
     * given.
     */
    readonly assistant: Ragged<'bool'>
  }>
}

/** `ChatTokens` as tensors `[B, T]`. All masks are 0 over the padding. */
export type PaddedChatTokens = {
  readonly tokens: TensorDict<{ readonly full: tf.Tensor2D }>
  readonly masks: TensorDict<{ readonly attention: tf.Tensor2D; readonly assistant: tf.Tensor2D }>
}

const tooLong = (reason: string): E.Either<Failure, never> => E.left({ _tag: 'LengthFailure', reason })

/**
 * Renders and encodes a conversation. Special tokens in the contents of messages are text, as in
 * `encodeRendered`.
 */
export const maskedTokens = (history: History, options: MaskedTokensOptions): E.Either<Failure, MaskedTokens> => {
  const { tokenizer, template, from = 'spans', truncate, ...rest } = options
  const { maxTokens = tokenizer.settings.maxLength, generationPrompt = 'omit', ...rendering } = rest
  const limit = truncate === undefined ? maxTokens : undefined
  const tooFar = tokenized(() => farBeyond(history.messages.toArray().map(textOf), limit, tokenizer))
  if (E.isLeft(tooFar)) return tooFar
  if (tooFar.right !== undefined) return tooLong(tooFar.right)
  const written = assistantText(template, history, { ...rendering, generationPrompt, from })
  if (E.isLeft(written)) return written
  const { endOfTurn: _, ...renderOptions } = rendering
  const rendered = render(template, history, { ...renderOptions, generationPrompt })
  if (E.isLeft(rendered)) return rendered
  const encoding = tokenized(() =>
    tokenizer.encoding(written.right.text, { specialTokens: { plainText: rendered.right.plainText } }),
  )
  if (E.isLeft(encoding)) return encoding
  const tooMany = excess(encoding.right.ids.length, limit)
  if (tooMany !== undefined) return tooLong(tooMany)
  const { ids, offsets } =
    truncate === undefined || maxTokens === undefined
      ? encoding.right
      : windows(encoding.right, { maxLength: maxTokens, side: truncate })[0]! // the first window always exists
  const pairs = Array.from(ids, (_, t) => [offsets[2 * t]!, offsets[2 * t + 1]!] as const)
  return E.right({ ids, mask: tokenMask(written.right.ranges, pairs) })
}

/** Returns the rows of all conversations, or every problem of every conversation. */
const rowsOf = (
  histories: readonly History[],
  options: MaskedTokensOptions,
): E.Either<ConfigFailure, readonly MaskedTokens[]> => {
  const problems: string[] = []
  const nameOf = (i: number): string => (histories.length === 1 ? 'the conversation' : `conversation ${i}`)
  const rows = histories.flatMap((history, i) => {
    const row = maskedTokens(history, options)
    if (E.isRight(row)) return [row.right]
    problems.push(`${nameOf(i)}: ${row.left.reason}`)
    return []
  })
  return problems.length === 0 ? E.right(rows) : E.left({ _tag: 'ConfigFailure', reason: problemList(problems) })
}

const chatTokens = (rows: readonly MaskedTokens[]): TensorDict<ChatTokens> => {
  const full = ragged(
    'int32',
    rows.map(({ ids }) => ids),
  )
  const assistant = ragged(
    'bool',
    rows.map(({ mask }) => mask),
  )
  return TensorDict({ tokens: { full }, masks: { attention: filledRows(full, 'bool', 1), assistant } }, [rows.length])
}

const paddedTokens = (td: TensorDict<ChatTokens>, { id, side = 'right', length }: ChatPadding) => {
  const place = { side, ...(length !== undefined && { width: length }) }
  const ids = toPadded(get(td, 'tokens', 'full'), { ...place, value: id })
  const assistant = toPadded(get(td, 'masks', 'assistant'), { ...place, value: 0 })
  const entries = { tokens: { full: ids.values }, masks: { attention: ids.mask, assistant: assistant.values } }
  return TensorDict(entries, td.batchShape)
}

const checkPadding = ({ length }: ChatPadding): void => {
  if (length !== undefined && (!Number.isInteger(length) || length < 1))
    throw new RangeError(`applyChatTemplate: padding.length must be a positive integer, got ${length}`)
}

/**
 * Renders and encodes a batch of conversations: token ids, attention mask and assistant mask.
 *
 * Special tokens in the contents of messages are text, as in `encodeRendered`. Rows are ragged
 * unless `padding` is given. The default `generationPrompt` is `omit`.
 *
 * Shapes   `[B]`, one row per conversation. With `padding`, tensors `[B, T]`.
 * Errors   `Left(ConfigFailure)` with every conversation that the template refuses, whose assistant
 *          mask cannot be computed, or that has more than `maxTokens` tokens and is not truncated.
 * Effects  with `padding`, creates three tensors that belong to the enclosing scope.
 * Source   Transformers `apply_chat_template` with `return_dict`, `return_assistant_tokens_mask`,
 *          `padding` and `truncation`; TorchRL `History.apply_chat_template`. A truncated turn
 *          keeps its part of the mask.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * const template = orThrow(chatTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
 * const chats = [History([message('user', 'Hi'), message('assistant', 'Hey')]), History([message('user', 'Hi')])]
 * const { masks } = toNested(orThrow(applyChatTemplate(chats, { tokenizer, template })))
 * masks.assistant // [[0, 0, 1, 1, 1], [0, 0]]
 */
export function applyChatTemplate(
  histories: readonly History[],
  options: ApplyChatTemplateOptions & { readonly padding: ChatPadding },
): E.Either<ConfigFailure, TensorDict<PaddedChatTokens>>
export function applyChatTemplate(
  histories: readonly History[],
  options: ApplyChatTemplateOptions & { readonly padding?: never },
): E.Either<ConfigFailure, TensorDict<ChatTokens>>
export function applyChatTemplate(
  histories: readonly History[],
  all: ApplyChatTemplateOptions,
): E.Either<ConfigFailure, TensorDict<ChatTokens> | TensorDict<PaddedChatTokens>> {
  checkOptions('applyChatTemplate', all, APPLY_CHAT_TEMPLATE_OPTIONS)
  const { padding, files: _, ...options } = all
  if (padding === undefined) return E.map(chatTokens)(rowsOf(histories, options))
  checkOptions('applyChatTemplate, padding', padding, APPLY_CHAT_TEMPLATE_PADDING_OPTIONS)
  checkPadding(padding)
  const { maxTokens = options.tokenizer.settings.maxLength, ...rest } = options
  const limit = Math.min(maxTokens ?? Infinity, padding.length ?? Infinity)
  const rows = rowsOf(histories, { ...rest, ...(Number.isFinite(limit) && { maxTokens: limit }) })
  return E.map((found: readonly MaskedTokens[]) => scope(() => paddedTokens(chatTokens(found), padding)))(rows)
}
