/**
 * Going on from the tokens of an earlier answer: what the model wrote stays as it wrote it, and
 * only what is new is encoded.
 */
import { joinInts } from '@tandem-rl/base'
import {
  appendMessage,
  type CapturedAnswer,
  History,
  hashHistory,
  type Message,
  messageOfCalls,
  runTemplate,
  sameHistory,
  type TextRange,
  truncateHistory,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { ChatFields, Conversation, PromptText } from '../requests/messages.js'
import { mistralId } from '../routes/reading.js'

/** An answer that a conversation may go on from. */
interface Answered {
  /** The conversation and the answer, without the ids of the answer's calls. */
  readonly history: History
  /** Everything else that a rendering depends on. */
  readonly setting: string
  /** The text of the prompt as it was rendered. */
  readonly promptText: string
  /** Prompt and answer. */
  readonly ids: Int32Array
  /**
   * If present, `history` lacks the text of the answer, which some clients drop beside calls. A
   * message is then this answer if the ids of its calls come from these.
   */
  readonly callIds?: ReadonlySet<string>
}

/** Returns true if all calls have an id that was made for the answer, with or without a prefix. */
const isAnswerOf = ({ toolCalls }: Message, made: ReadonlySet<string>): boolean =>
  toolCalls.every(({ id = '' }) => [...made].some((each) => id.endsWith(each) || id === mistralId(each)))

/** Answers that are tried for one place of a conversation: the newest ones. */
const TRIED = 4

/** The answer that a conversation may contain. */
interface RequestedAnswer {
  /** The message of the assistant, with the ids of its calls. */
  readonly last: Message
  readonly setting: string
}

/** The answers of a session by the hashes of what was said up to them. */
export interface Answers {
  readonly add: (answered: Answered) => void
  /** Returns the newest answers first. `history` is computed only if an answer has the hash. */
  readonly find: (hash: number, history: () => History, request: RequestedAnswer) => readonly Answered[]
}

/** The hash of a conversation that a message continues. */
const hashAfter = (before: number, item: Message): number => (Math.imul(31, before) + hashHistory(History([item]))) | 0 // 32 bits

/** An empty collection. Effects: `add` changes it. */
export const makeAnswers = (): Answers => {
  const byHash = new Map<number, Answered[]>()
  return {
    add: (answered) => {
      const hash = plainHistory(answered.history).messages.reduce(hashAfter, 0)
      const same = byHash.get(hash)
      if (same === undefined) byHash.set(hash, [answered])
      else same.push(answered)
    },
    find: (hash, history, { last, setting }) => {
      const same = byHash.get(hash)
      if (same === undefined) return []
      const request = history()
      return same
        .filter(
          ({ history: known, setting: own, callIds }) =>
            own === setting &&
            (callIds === undefined || isAnswerOf(last, callIds)) &&
            sameHistory(plainHistory(known), request),
        )
        .slice(-TRIED)
        .reverse()
    },
  }
}

/** Ids of calls are names that the server made up: the model did not write them. */
const withoutCallIds = (item: Message): Message => ({
  ...item,
  toolCalls: item.toolCalls.map(({ name, arguments: args }) => ({ name, arguments: args })),
})

/** Returns the other request fields that affect rendering. */
const settingOf = ({ tools, documents, chat_template_kwargs: kwargs }: ChatFields): string =>
  JSON.stringify([tools ?? null, documents ?? null, kwargs ?? null])

/**
 * No content and empty content are the same message, and so are 1.0 and 1 in arguments: clients
 * parse them and write them again. Thoughts do not count, because few clients send them back.
 */
const plain = ({ reasoning: _, ...item }: Message): Message => ({
  ...item,
  content: item.content.filter((part) => part.type !== 'text' || part.text !== ''),
  toolCalls: item.toolCalls.map(({ written: _written, ...call }) => call),
})

const plainHistory = (history: History): History => History(history.messages.map(plain))

/**
 * Returns true for a request whose messages are rendered as a plain conversation that the assistant
 * continues.
 */
const isPlain = ({
  add_special_tokens: special,
  add_generation_prompt: prompt,
  continue_final_message: continues,
}: ChatFields): boolean => special !== true && prompt !== false && continues !== true

const isTouched = (ranges: readonly TextRange[], start: number, end: number): boolean =>
  ranges.some((range) => range.start < end && range.end > start)

/** Shifts ranges to a text that starts at `from`. */
const movedTo = (ranges: readonly TextRange[], from: number): readonly TextRange[] =>
  ranges
    .filter(({ end }) => end > from)
    .map(({ start, end }) => ({ start: Math.max(0, start - from), end: end - from }))

/** The text that continues a completion. */
interface Suffix {
  /** The rendering of the conversation, and the start of the completion's end of turn in it. */
  readonly text: string
  readonly given: readonly TextRange[]
  readonly at: number
}

/**
 * The ids after an answer. The turn's end is encoded with what follows it, so that the cut is where
 * special tokens cut anyway; an answer that has sampled the end itself keeps its own.
 */
const idsAfter = (
  { tokenizer }: PromptText,
  { text, given, at }: Suffix,
  { end, ids }: { readonly end: number; readonly ids: Int32Array },
): Int32Array | undefined => {
  const more = tokenizer.encode(text.slice(at), { specialTokens: { plainText: movedTo(given, at) } })
  if (more[0] !== end) return undefined
  return joinInts([ids, ids.at(-1) === end ? more.subarray(1) : more])
}

/** Returns the end of a completion's turn: its last end token, if the template wrote it. */
const endOfTurn = (
  closed: { readonly text: string; readonly given: readonly TextRange[] },
  token: string,
  from: number,
): number | undefined => {
  const at = closed.text.lastIndexOf(token)
  return at < from || isTouched(closed.given, at, at + token.length) ? undefined : at
}

/** Options to convert conversations of a session to tokens. */
export interface ContinuationOptions {
  readonly answers: Answers
  /** The tokens that end a turn: the engine's. */
  readonly endTokens: readonly number[]
}

/** A conversation, and whether it continues the tokens of a completion. */
export interface ContinuedConversation extends Conversation {
  readonly from: 'tokens' | 'render'
}

/** Adds the thoughts of a conversation that another one continues. */
const withThoughtsOf = (history: History, { messages }: History): History =>
  History(
    history.messages.map((item, i) => {
      const reasoning = messages.get(i)?.reasoning
      return reasoning === undefined ? item : { ...item, reasoning }
    }),
  )

const goOn = (
  text: PromptText,
  fields: ChatFields,
  {
    conversation,
    answered,
    endTokens,
  }: {
    readonly conversation: Conversation
    readonly answered: Answered
    readonly endTokens: readonly number[]
  },
): ContinuedConversation | undefined => {
  const history = withThoughtsOf(conversation.history, answered.history)
  const options = {
    ...(fields.tools != null && { tools: fields.tools }),
    ...(fields.documents != null && { documents: fields.documents }),
    variables: fields.chat_template_kwargs ?? {},
  }
  const closed = runTemplate(text.template, truncateHistory(history, answered.history.messages.size), {
    ...options,
    generationPrompt: 'omit',
  })
  const open = runTemplate(text.template, history, { ...options, generationPrompt: 'add' })
  if (E.isLeft(closed) || E.isLeft(open)) return undefined
  const { promptText } = answered
  if (!open.right.text.startsWith(closed.right.text) || !closed.right.text.startsWith(promptText)) return undefined
  const sampledEnd = endTokens.find((id) => id === answered.ids.at(-1))
  for (const end of sampledEnd === undefined ? endTokens : [sampledEnd]) {
    const token = text.tokenizer.tokenOf(end)
    const at = token === undefined ? undefined : endOfTurn(closed.right, token, promptText.length)
    if (at === undefined) continue
    const ids = idsAfter(text, { text: open.right.text, given: open.right.given, at }, { end, ids: answered.ids })
    if (ids !== undefined) return { ...conversation, history, text: open.right.text, ids, from: 'tokens' }
  }
  return undefined
}

/**
 * Returns a conversation that starts with the tokens of its last recorded completion, followed by
 * the encoding of the text rendered after it. If no completion is recorded, if the client changed
 * one, or if the template changes the text before one, as templates that drop old thoughts do, the
 * whole conversation is rendered and encoded, because the model must see different text. Thoughts
 * that the client did not send back are those of the recorded completion.
 *
 * Laws     where encoding the rendering gives back the tokens of the answers, the ids are those of
 *          the rendering.
 * Cost     linear in the conversation, and two runs of the template for each answer that is tried;
 *          the encoding is of what is new.
 */
export const continueConversation = (
  text: PromptText,
  fields: ChatFields,
  { conversation, answers, endTokens }: ContinuationOptions & { readonly conversation: Conversation },
): ContinuedConversation => {
  const rendered = { ...conversation, from: 'render' as const }
  if (!isPlain(fields)) return rendered
  const history = plainHistory(conversation.history)
  const setting = settingOf(fields)
  const hashes = [0] // of the first messages, by their number
  for (const item of history.messages) hashes.push(hashAfter(hashes.at(-1)!, item))
  for (let length = history.messages.size - 1; length > 0; length--) {
    const last = history.messages.get(length - 1)!
    if (last.role !== 'assistant') continue
    const answerText = withoutCallIds(last)
    const known = (): History => appendMessage(truncateHistory(history, length - 1), answerText)
    for (const answered of answers.find(hashAfter(hashes[length - 1]!, answerText), known, { last, setting })) {
      const continued = goOn(text, fields, { conversation, answered, endTokens })
      if (continued !== undefined) return continued
    }
  }
  return rendered
}

/**
 * Remembers an answer, so that a conversation can go on from it, also if the client drops its text
 * and keeps its calls. Answers that a stop string cut are not: their text ends before their tokens.
 *
 * Effects  adds to `answers`.
 */
export const rememberAnswer = (
  answers: Answers,
  { fields, conversation }: { readonly fields: ChatFields; readonly conversation: Conversation },
  answer: {
    readonly ids: Int32Array
    readonly stopReason: string | number | null
    /** The ids that were made for the answer. */
    readonly callIds: ReadonlySet<string>
    readonly answer: CapturedAnswer
  },
): void => {
  if (!isPlain(fields) || typeof answer.stopReason === 'string') return
  const { text, calls, reasoning } = answer.answer
  const details = { isComplete: true, ...(reasoning !== undefined && { reasoning }) } // as clients return it
  const { message } = messageOfCalls(text, calls, details)
  const { callIds } = answer
  const answered = {
    history: appendMessage(conversation.history, message),
    setting: settingOf(fields),
    promptText: conversation.text,
    ids: joinInts([conversation.ids, answer.ids]),
  }
  answers.add(answered)
  if (message.toolCalls.length > 0 && plain(message).content.length > 0)
    answers.add({ ...answered, callIds, history: appendMessage(conversation.history, { ...message, content: [] }) })
}
