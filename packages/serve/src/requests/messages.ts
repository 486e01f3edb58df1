/**
 * Conversations of requests: parsed from OpenAI's format, rendered by the model's template and
 * encoded.
 */
import {
  boundedList,
  type ChatTemplate,
  type History,
  historyFromOpenAi,
  lastMessage,
  type RenderOptions,
  runTemplate,
  type TextTokenizer,
  table,
  textOf,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type ApiFailure, apiFailure, invalid } from './failure.js'
import { REQUEST_LIMITS } from './limits.js'

const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string().min(1),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
  }),
})

/**
 * Allowed roles. A template writes the role between its own markers, so any other text could forge
 * them.
 */
const ROLES = ['system', 'developer', 'user', 'assistant', 'tool', 'function', 'ipython'] as const

/** A field whose elements are checked later, with at most `most` of them if it is a list. */
const listed = (most: number) =>
  z
    .unknown()
    .refine((value) => !Array.isArray(value) || value.length <= most, `expected at most ${most} items`)
    .optional()

const sentMessage = z.looseObject({
  role: z.enum(ROLES),
  content: listed(REQUEST_LIMITS.parts),
  tool_calls: listed(REQUEST_LIMITS.calls),
})

/** The fields of a conversation, for the endpoints of chat and tokenization. */
export const chatFields = {
  messages: boundedList(sentMessage, REQUEST_LIMITS.messages),
  tools: boundedList(tool, REQUEST_LIMITS.tools).nullish(),
  documents: boundedList(table(z.string(), REQUEST_LIMITS.fields), REQUEST_LIMITS.documents).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  add_special_tokens: z.boolean().nullish(),
  chat_template: z.string().nullish(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
} as const

/** The schema of a conversation. */
export const chatSchema = z.object(chatFields)

/** The conversation in a request. */
export type ChatFields = z.infer<typeof chatSchema>

/** A rendered conversation. */
export interface Conversation {
  readonly ids: Int32Array
  readonly text: string
  readonly history: History
  /** The role of the next message. */
  readonly role: string
}

/** The text side of a model: tokenizer and chat template. */
export interface PromptText {
  readonly tokenizer: TextTokenizer
  readonly template: ChatTemplate
  /**
   * The contents of `tokenizer.json` and `tokenizer_config.json`. With them, a server reads large
   * requests on another thread, where it makes the tokenizer again.
   */
  readonly files?: Readonly<Record<string, string>>
}

/** Renders and encodes the conversation of a request. */
export type ReadConversation = (text: PromptText, fields: ChatFields) => E.Either<ApiFailure, Conversation>

/** Kinds of content parts that a text model supports: text, and an assistant's reasoning. */
const TEXTUAL: readonly unknown[] = ['text', 'thinking', 'refusal']

/** Returns the path of the first content part that a text model does not support. */
const mediaIn = (messages: ChatFields['messages']): string | undefined => {
  for (const [i, { content }] of messages.entries()) {
    const parts: readonly unknown[] = Array.isArray(content) ? content : []
    const j = parts.findIndex(
      (part) => typeof part === 'object' && part !== null && 'type' in part && !TEXTUAL.includes(part.type),
    )
    if (j !== -1) return `messages.${i}.content.${j}`
  }
  return undefined
}

const readHistory = (messages: ChatFields['messages']): E.Either<ApiFailure, History> => {
  const media = mediaIn(messages)
  if (media !== undefined) {
    return E.left(
      apiFailure(400, `${media}: the served model reads text only; other parts of content are not supported.`, media),
    )
  }
  return E.mapLeft(({ reason }: { readonly reason: string }) => apiFailure(400, `messages: ${reason}`, 'messages'))(
    historyFromOpenAi(messages),
  )
}

const ending = (fields: ChatFields): RenderOptions['generationPrompt'] => {
  if (fields.continue_final_message === true) return 'continue'
  return fields.add_generation_prompt === false ? 'omit' : 'add'
}

const checkFields = (fields: ChatFields): ApiFailure | undefined => {
  if (fields.continue_final_message === true && fields.add_generation_prompt === true) {
    return apiFailure(400, 'Cannot set both `continue_final_message` and `add_generation_prompt` to True.')
  }
  if (fields.tools?.length === 0) {
    return invalid(
      '`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.',
      'tools',
    )
  }
  return fields.chat_template == null
    ? undefined
    : invalid(
        "A chat template was passed with the request: this server renders with the model's own only.",
        'chat_template',
      )
}

/**
 * Encodes the conversation of a request. Control tokens are recognized only in text of the
 * template, never in messages.
 *
 * Errors   `Left(ApiFailure)`, 400: invalid messages or messages with images, an empty list of
 *          tools, a template of the client, and any error of the model's template.
 */
export const conversation: ReadConversation = ({ tokenizer, template }, fields) => {
  const refused = checkFields(fields)
  if (refused !== undefined) return E.left(refused)
  const history = readHistory(fields.messages)
  if (E.isLeft(history)) return history
  const generationPrompt = ending(fields)
  const output = runTemplate(template, history.right, {
    generationPrompt,
    ...(fields.tools != null && { tools: fields.tools }),
    ...(fields.documents != null && { documents: fields.documents }),
    variables: fields.chat_template_kwargs ?? {},
  })
  if (E.isLeft(output)) return E.left(apiFailure(400, output.left.reason, 'messages'))
  const { text, given } = output.right
  const ids = tokenizer.encode(text, {
    specialTokens: { plainText: given },
    template: fields.add_special_tokens === true ? 'add' : 'omit',
  })
  const last = lastMessage(history.right)
  return E.right({
    ids,
    text,
    history: history.right,
    role: generationPrompt === 'add' ? 'assistant' : (last?.role ?? 'assistant'),
  })
}

/** Returns the text of the last message if the answer has the same author. `echo` repeats it. */
export const echoedText = ({ history, role }: Conversation): string => {
  const last = lastMessage(history)
  return last?.role === role ? textOf(last) : ''
}
