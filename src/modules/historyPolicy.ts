import { checkOptions, type Failure, problemList } from '@tandem-rl/base'
import {
  type ChatTemplate,
  callIds,
  type DecodeState,
  decodeNext,
  type EncodedText,
  encodeRendered,
  type History,
  lastMessage,
  type Message,
  messageOfText,
  render,
  type TextTokenizer,
  type ThoughtSetting,
  type ToolCallFormat,
  thoughtsAfter,
  thoughtTagsOf,
  tokenized,
  toolCallFormatOf,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type {
  ActOptions,
  HistoryAction,
  HistoryPrompt,
  Policy,
  PolicyFailure,
  TokenAction,
  TokenPrompt,
} from '../data/policy.js'
import { type Data, data, type Ragged, ragged, raggedRows } from '../data/tensorDict/leaf.js'
import { get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { HISTORY_POLICY_OPTIONS } from './optionKinds.js'

/**
 * The action of a conversation policy that runs on a token policy: the message, and its token ids.
 */
export type HistoryTokens = HistoryAction &
  Omit<TokenAction, 'tokens'> & {
    readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
    /** For each row, why tool calls in the message were left as text. */
    readonly malformedCalls: Data<readonly string[]>
  }

export interface HistoryPolicyOptions {
  /** The policy that samples tokens. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly tokenizer: TextTokenizer
  readonly template: ChatTemplate
  /** Tools that the template presents to the model. */
  readonly tools?: readonly object[]
  /**
   * Format of the model's tool calls. Default: the template's format if there are tools, otherwise
   * `none`, which reads no calls.
   */
  readonly toolCalls?: ToolCallFormat | 'none'
  /**
   * Tags around the model's thoughts, which become the message's `reasoning`. Default: the tags in
   * the template.
   */
  readonly thoughts?: ThoughtSetting
  readonly name?: string
}

/** The settings for reading rows. */
interface Reading {
  readonly tokenizer: TextTokenizer
  readonly toolCalls: ToolCallFormat | 'none'
  readonly tools: readonly object[]
  readonly thoughts: ThoughtSetting
}

/** One sampled row. */
interface Sampled {
  readonly history: History
  readonly prompt: Int32Array
  readonly ids: readonly number[]
  readonly end: 'stop' | 'length'
}

/** Removes the special token that ended the turn, which is not part of the message. */
const withoutEnd = ({ tokenizer }: Reading, { ids, end }: Sampled): readonly number[] => {
  const last = ids.at(-1)
  const token = last === undefined ? undefined : tokenizer.tokenOf(last)
  return end === 'stop' && token !== undefined && tokenizer.specialTokens.has(token) ? ids.slice(0, -1) : ids
}

/** Parses the message of a row. */
const readTurn = (
  reading: Reading,
  sampled: Sampled,
): { readonly message: Message; readonly malformedCalls: readonly string[] } => {
  const { tokenizer, toolCalls: format, thoughts, tools } = reading
  const { history, prompt, end } = sampled
  const text = tokenizer.decode(withoutEnd(reading, sampled), 'keep')
  const own = { index: history.messages.size, taken: callIds(history) }
  const read = thoughtsAfter(tokenizer.decode(prompt, 'keep'), thoughts)
  return messageOfText(text, { format, tools, ...own, thoughts: read }, { isComplete: end === 'stop' })
}

const NAME = 'historyPolicy'

const failed = (policy: string, reason: string, cause?: Failure): E.Either<PolicyFailure, never> =>
  E.left({ _tag: 'PolicyFailure', policy, kind: 'asked', reason, ...(cause !== undefined && { cause }) })

/** Renders and encodes conversations, once for equal neighbors. Returns all problems on failure. */
const encodeAll = (
  histories: readonly History[],
  { tokenizer, template, tools, name = NAME }: HistoryPolicyOptions,
): E.Either<PolicyFailure, readonly EncodedText[]> => {
  const problems: string[] = []
  const encoded: EncodedText[] = []
  for (const [i, history] of histories.entries()) {
    const before = encoded.at(-1)
    if (before !== undefined && problems.length === 0 && histories[i - 1] === history) {
      encoded.push(before)
      continue
    }
    if (lastMessage(history)?.isComplete === false) {
      problems.push(`conversation ${i}: the last message must be finished before the policy's turn`)
      continue
    }
    const rendered = render(template, history, {
      generationPrompt: 'add',
      ...(tools !== undefined && tools.length > 0 && { tools }),
    })
    if (E.isLeft(rendered)) problems.push(`conversation ${i}: ${rendered.left.reason}`)
    else {
      const ids = tokenized(() => encodeRendered(tokenizer, rendered.right))
      if (E.isLeft(ids)) problems.push(`conversation ${i}: ${ids.left.reason}`)
      else encoded.push(ids.right)
    }
  }
  return problems.length === 0 ? E.right(encoded) : failed(name, problemList(problems))
}

/** Decodes the ids of a streaming policy, row by row. */
const textHook = (tokenizer: TextTokenizer, onText: ActOptions['onText']): Pick<ActOptions, 'onTokens'> => {
  if (onText === undefined) return {}
  const states = new Map<number, DecodeState>()
  return {
    onTokens: (row, ids) => {
      const [next, text] = decodeNext(states.get(row) ?? tokenizer.decodeStart('skip'), ids)
      states.set(row, next)
      if (text !== '') onText(row, text)
    },
  }
}

/**
 * Turns a token policy into a conversation policy. It renders with the model's chat template,
 * samples, decodes, and parses tool calls. Agents and games can thus use an in-process model, a
 * remote engine or a chat server in the same way.
 *
 * A special token that ends the turn is part of the ids but not of the message. Each call renders
 * the conversation again, and returns the ids that it actually read and sampled. To train on
 * several turns of a conversation as one row, keep their ids with `TemplateTransform` and
 * `Tokenizer`.
 *
 * Shapes   reads `history.prompt` `[B]`; returns the message, its ids and log-probabilities and the
 *          ids of the prompt, `[B]`.
 * Errors   `Left(PolicyFailure)` of kind `asked` that lists all conversations that the template
 *          rejects or whose last message is unfinished; otherwise the failures of the token policy.
 * Cost     one rendering and one encoding per conversation. Neighbors that are the same value share
 *          theirs.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * const template = orThrow(chatTemplate('{{ messages[0].content }}'))
 * historyPolicy({ policy: scriptedPolicy({ answers: [] }), tokenizer, template }).name // 'historyPolicy'
 */
export const historyPolicy = (options: HistoryPolicyOptions): Policy<HistoryPrompt, HistoryTokens> => {
  checkOptions('historyPolicy', options, HISTORY_POLICY_OPTIONS)
  const { policy, tokenizer, template, tools = [], name = NAME } = options
  const toolCalls = options.toolCalls ?? (tools.length > 0 ? toolCallFormatOf(template) : 'none')
  const thoughts = options.thoughts ?? thoughtTagsOf(template.source)
  const reading: Reading = { tokenizer, toolCalls, tools, thoughts }
  return {
    name,
    act: (td, key, actOptions) => async () => {
      const histories = get(td, 'history', 'prompt').items.toArray()
      const encoded = encodeAll(histories, options)
      if (E.isLeft(encoded)) return encoded
      const prompts = encoded.right.map(({ ids }) => ids)
      const prompt = { prompt: ragged('int32', prompts), spans: data(encoded.right.map(({ spans }) => spans)) }
      const streamed = { ...actOptions, ...textHook(tokenizer, actOptions?.onText) }
      const action = await policy.act(TensorDict({ tokens: prompt }, td.batchShape), key, streamed)()
      if (E.isLeft(action)) return action
      const ends = get(action.right, 'stopReason').items
      const turns = raggedRows(get(action.right, 'tokens', 'response')).map((ids, i) =>
        readTurn(reading, { history: histories[i]!, prompt: prompts[i]!, ids, end: ends.get(i)! }),
      )
      const made: TensorDict<HistoryTokens> = TensorDict(
        {
          history: { response: data(turns.map(({ message }) => message)) },
          tokens: { prompt: prompt.prompt, response: get(action.right, 'tokens', 'response') },
          logProbs: { response: get(action.right, 'logProbs', 'response') },
          stopReason: get(action.right, 'stopReason'),
          policyVersion: get(action.right, 'policyVersion'),
          sampling: get(action.right, 'sampling'),
          malformedCalls: data(turns.map(({ malformedCalls }) => malformedCalls)),
        },
        td.batchShape,
      )
      return E.right(made)
    },
  }
}
