/**
 * fast-check arbitraries for conversations with everything that messages can have, and for chat
 * templates.
 */
import {
  type ContentPart,
  History,
  type MediaSource,
  type Message,
  message,
  type ToolCall,
  toolResult,
} from '@tandem-rl/text'
import fc from 'fast-check'

const anySource: fc.Arbitrary<MediaSource> = fc.oneof(
  fc.webUrl().map((url) => ({ url })),
  fc
    .tuple(fc.base64String({ maxLength: 8 }), fc.constantFrom('image/png', 'audio/wav', 'video/mp4', 'application/pdf'))
    .map(([base64, mediaType]) => ({
      base64,
      mediaType,
    })),
)

/** Texts, images, sounds, videos and files. */
const anyContentPart: fc.Arbitrary<ContentPart> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.string({ unit: 'binary', maxLength: 12 }).map((text) => ({ type: 'text', text }) as const),
  },
  anySource.map((source) => ({ type: 'image', source }) as const),
  anySource.map((source) => ({ type: 'audio', source }) as const),
  anySource.map((source) => ({ type: 'video', source }) as const),
  fc.record(
    { type: fc.constant('file' as const), source: anySource, name: fc.string({ maxLength: 6 }) },
    { requiredKeys: ['type', 'source'] },
  ),
)

/** JSON as a file holds it: -0 is written as 0. */
const anyJson = fc.jsonValue({ maxDepth: 2 }).map((value): unknown => JSON.parse(JSON.stringify(value)))

const anyArguments: fc.Arbitrary<ToolCall['arguments']> = fc.dictionary(fc.string({ maxLength: 6 }), anyJson, {
  maxKeys: 3,
})

const anyIdentifier = fc.stringMatching(/^[a-z][a-z_]{0,7}$/)

/** Calls of tools, some with an id. */
const anyToolCall: fc.Arbitrary<ToolCall> = fc.record(
  { id: fc.stringMatching(/^[a-zA-Z0-9]{9}$/), name: anyIdentifier, arguments: anyArguments },
  { requiredKeys: ['name', 'arguments'] },
)

/** Messages with parts, tool calls, thoughts, names and ids, complete or not. */
export const anyRichMessage: fc.Arbitrary<Message> = fc
  .tuple(
    fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'),
    fc.array(anyContentPart, { maxLength: 3 }),
    fc.record(
      {
        toolCalls: fc.array(anyToolCall, { maxLength: 2 }),
        isComplete: fc.boolean(),
        reasoning: fc.string({ maxLength: 10 }),
        toolCallId: fc.string({ maxLength: 9 }),
        name: anyIdentifier,
      },
      { requiredKeys: ['toolCalls', 'isComplete'] },
    ),
  )
  .map(([role, content, details]) => message(role, content, details))

/** Conversations of any messages in any order. */
export const anyRichHistory: fc.Arbitrary<History> = fc.array(anyRichMessage, { maxLength: 5 }).map(History)

/** Words without white space at their ends: what every template shows as it is. */
const anyWords = fc.stringMatching(/^[A-Za-zäß😀0-9.,!?'"]{1,12}( [a-z]{1,5}){0,2}$/u)

const anyRound: fc.Arbitrary<readonly Message[]> = fc
  .tuple(
    anyWords,
    fc.option(fc.tuple(anyWords, anyIdentifier, fc.dictionary(anyIdentifier, anyWords, { maxKeys: 2 })), { freq: 3 }),
    anyWords,
  )
  .map(([question, tool, answer]) => {
    if (tool === null) return [message('user', question), message('assistant', answer)]
    const call: ToolCall = { name: tool[1], arguments: tool[2] }
    return [
      message('user', question),
      message('assistant', tool[0], { toolCalls: [call] }),
      toolResult(call, tool[0]),
      message('assistant', answer),
    ]
  })

/** The kind of conversations to draw. */
export interface ConversationOptions {
  /** `none`: no calls of tools. `some`: some answers call one, and get its result. */
  readonly tools?: 'none' | 'some'
}

/**
 * Conversations as models are trained on: perhaps a system message, then questions and answers in
 * turn.
 */
export const anyConversation = ({ tools = 'none' }: ConversationOptions = {}): fc.Arbitrary<History> =>
  fc
    .tuple(fc.option(anyWords), fc.array(anyRound, { minLength: 1, maxLength: 3 }), fc.boolean())
    .map(([system, rounds, isOpen]) => {
      const turns = rounds
        .flat()
        .filter((item) => tools === 'some' || (item.toolCalls.length === 0 && item.role !== 'tool'))
      const messages = isOpen ? [...turns, message('user', 'And then?')] : turns
      return History([...(system === null ? [] : [message('system', system)]), ...messages])
    })

const anyMarker = fc.stringMatching(/^<\|[a-z_]{1,8}\|>$/)

/**
 * Sources of templates that write fixed texts around each content: one opening for each role, one
 * ending for all turns.
 */
export const anyChatTemplate: fc.Arbitrary<string> = fc
  .record({
    begin: fc.option(anyMarker, { nil: '' }),
    open: anyMarker,
    close: anyMarker,
    line: fc.constantFrom('\\n', ' ', ''),
    content: fc.constantFrom('message.content', '(message.content | trim)'),
  })
  .filter(({ open, close, begin }) => open !== close && open !== begin && close !== begin)
  .map(
    ({ begin, open, close, line, content }) =>
      `${begin}{%- for message in messages -%}{{- '${open}' + message.role + '<|role|>' + ${content} + '${close}${line}' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '${open}assistant<|role|>' -}}{%- endif -%}`,
  )
