import * as E from 'fp-ts/lib/Either.js'
import { type Failure, problemList } from '../core/failure.js'
import { aList, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../core/options.js'
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
import { type History, lastMessage, type Message } from '../text/history/history.js'
import { type ChatTemplate, render } from '../text/template/chatTemplate.js'
import { tokenized } from '../text/tokenizer/budget.js'
import {
  type DecodeState,
  decodeNext,
  type EncodedText,
  encodeRendered,
  type TextTokenizer,
} from '../text/tokenizer/textTokenizer.js'
import { callIds, callsInText, messageOfCalls } from '../text/toolCalls/callMessage.js'
import { TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from '../text/toolCalls/format.js'

/** What a policy of conversations over one of tokens answers: the message, and the ids it was made of. */
export type HistoryTokens = HistoryAction &
  Omit<TokenAction, 'tokens'> & {
    readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
    /** Why calls of tools in a message are only text, for each row. */
    readonly malformedCalls: Data<readonly string[]>
  }

export interface HistoryPolicyOptions {
  /** Samples the ids. */
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly tokenizer: TextTokenizer
  readonly template: ChatTemplate
  /** Tools that the template shows to the model. */
  readonly tools?: readonly object[]
  /** How the model writes calls of tools. Default: as the template teaches, where there are tools; else nothing is read as a call. */
  readonly toolCalls?: ToolCallFormat | 'none'
  /** What stands around thoughts, such as `['<think>', '</think>']`; they become the message's `reasoning`. Default: they stay in the text. */
  readonly thoughts?: readonly [open: string, close: string]
  readonly name?: string
}

/** What the rows of a policy share. */
interface Reading {
  readonly tokenizer: TextTokenizer
  readonly toolCalls: ToolCallFormat | 'none'
  readonly tools: readonly object[]
  readonly thoughts: HistoryPolicyOptions['thoughts']
}

/** One sampled row. */
interface Sampled {
  readonly history: History
  readonly prompt: Int32Array
  readonly ids: readonly number[]
  readonly end: 'stop' | 'length'
}

/** Thoughts and what follows them. A template may have opened them already, at the end of the prompt. */
const splitThoughts = (
  text: string,
  prompt: string,
  thoughts: HistoryPolicyOptions['thoughts'],
): { readonly text: string; readonly reasoning?: string } => {
  if (thoughts === undefined) return { text }
  const [open, close] = thoughts
  const isOpen = prompt.trimEnd().endsWith(open)
  const inside = text.trimStart()
  if (!isOpen && !inside.startsWith(open)) return { text }
  const body = inside.startsWith(open) ? inside.slice(open.length) : text
  const end = body.indexOf(close)
  return end === -1
    ? { text: '', reasoning: body }
    : { text: body.slice(end + close.length).trimStart(), reasoning: body.slice(0, end) }
}

/** The ids without the special token that ended the turn: it is not part of the message. */
const withoutEnd = ({ tokenizer }: Reading, { ids, end }: Sampled): readonly number[] => {
  const last = ids.at(-1)
  const token = last === undefined ? undefined : tokenizer.tokenOf(last)
  return end === 'stop' && token !== undefined && tokenizer.specialTokens.has(token) ? ids.slice(0, -1) : ids
}

/** What a row says. */
const readTurn = (
  reading: Reading,
  sampled: Sampled,
): { readonly message: Message; readonly malformedCalls: readonly string[] } => {
  const { tokenizer, toolCalls, thoughts, tools } = reading
  const { history, prompt, end } = sampled
  const text = tokenizer.decode(withoutEnd(reading, sampled), 'keep')
  const { text: rest, ...details } = splitThoughts(text, tokenizer.decode(prompt, 'keep'), thoughts)
  const index = history.messages.size
  const found =
    toolCalls === 'none'
      ? { text: rest, calls: [] }
      : callsInText(rest, { format: toolCalls, index, taken: callIds(history), tools })
  return messageOfCalls(found.text, found.calls, { isComplete: end === 'stop', ...details })
}

const NAME = 'historyPolicy'

const failed = (policy: string, reason: string, cause?: Failure): E.Either<PolicyFailure, never> =>
  E.left({ _tag: 'PolicyFailure', policy, kind: 'asked', reason, ...(cause !== undefined && { cause }) })

/** One rendering for each conversation, shared by equal neighbours; or every problem. */
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
      problems.push(
        `conversation ${i}: the last message is unfinished, and somebody else's turn must come before the policy's`,
      )
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

const HISTORY_POLICY_OPTIONS: OptionKinds<HistoryPolicyOptions> = {
  policy: aRecord,
  tokenizer: aRecord,
  template: aRecord,
  tools: aList,
  toolCalls: oneOf('none', ...TOOL_CALL_FORMATS),
  thoughts: aList,
  name: aText,
}

/**
 * A policy of tokens as one of conversations: rendered with the model's chat template, sampled, decoded, calls of tools read. So a model in this
 * process, an engine behind a wire and a chat server are one to agents and games.
 *
 * A special token that ended the turn is part of the ids and not of the message. Each call renders anew, and its ids are those that were read and
 * written in it: whoever trains on several turns of a conversation as one row keeps their ids with `TemplateTransform` and `Tokenizer`.
 *
 * Shapes   reads `history.prompt` `[B]`; gives the message, its ids and log-probabilities and the ids of the prompt, `[B]`.
 * Errors   `Left(PolicyFailure)` of kind `asked` if the template refuses or a last message is unfinished, for all conversations at once; else what the policy of tokens says.
 * Cost     one rendering and one encoding for each conversation; neighbours that are the same value share theirs.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * const template = orThrow(chatTemplate('{{ messages[0].content }}'))
 * historyPolicy({ policy: scriptedPolicy({ answers: [] }), tokenizer, template }).name // 'historyPolicy'
 */
export const historyPolicy = (options: HistoryPolicyOptions): Policy<HistoryPrompt, HistoryTokens> => {
  checkOptions('historyPolicy', options, HISTORY_POLICY_OPTIONS)
  const { policy, tokenizer, template, tools = [], name = NAME } = options
  const toolCalls = options.toolCalls ?? (tools.length > 0 ? toolCallFormatOf(template.source) : 'none')
  const reading: Reading = { tokenizer, toolCalls, tools, thoughts: options.thoughts }
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
