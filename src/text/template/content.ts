/** Messages in the form that templates expect: that of the model hubs. */
import * as E from 'fp-ts/lib/Either.js'
import type { TemplateFailure } from '../../core/failure.js'
import { type ContentPart, type History, type Message, textOf } from '../history/history.js'
import type { TemplateOutput } from '../jinja/template.js'

/** What a template takes as the content of a message: text, a list of parts, or either. */
export type ContentForm = 'text' | 'parts' | 'text or parts'

type Run = (messages: readonly object[]) => E.Either<TemplateFailure, TemplateOutput>

const PROBE = 'probe-7f3a'

/**
 * Which form of content a template takes, told by rendering one user message both ways: text is shown where it stands; a list is shown
 * as its text, not printed with its keys. A template that shows neither is given text.
 */
export const contentFormOf = (run: Run): ContentForm => {
  const textFor = (content: unknown): string | undefined => {
    const output = run([{ role: 'user', content }])
    return E.isRight(output) && output.right.text.includes(PROBE) ? output.right.text : undefined
  }
  const asText = textFor(PROBE)
  const asParts = textFor([{ type: 'text', text: PROBE }])
  if (asText !== undefined) return asParts === asText ? 'text or parts' : 'text'
  return asParts !== undefined && !/['"]text['"]: /.test(asParts) ? 'parts' : 'text'
}

const mediaValue = (part: Exclude<ContentPart, { readonly type: 'text' }>): object => ({
  type: part.type,
  ...('url' in part.source ? { url: part.source.url } : { base64: part.source.base64 }),
})

/** The key under which a template looks for thoughts. */
const reasoningKey = (source: string): string =>
  !source.includes('reasoning_content') && /\.thinking\b|['"]thinking['"]/.test(source)
    ? 'thinking'
    : 'reasoning_content'

const templateMessage = (item: Message, form: 'text' | 'parts', thoughts: string): object => ({
  role: item.role,
  content:
    form === 'text' ? textOf(item) : item.content.map((part) => (part.type === 'text' ? part : mediaValue(part))),
  ...(item.reasoning !== undefined && { [thoughts]: item.reasoning }),
  ...(item.toolCalls.length > 0 && {
    tool_calls: item.toolCalls.map(({ id, name, arguments: args }) => ({
      ...(id !== undefined && { id }),
      type: 'function',
      function: { name, arguments: args },
    })),
  }),
  ...(item.toolCallId !== undefined && { tool_call_id: item.toolCallId }),
  ...(item.name !== undefined && { name: item.name }),
})

/**
 * The messages of a conversation for a template. Text goes to templates that take it as joined text; a message with an image or a sound, and
 * every message for a template that takes nothing else, as a list of parts.
 *
 * Errors   `Left(TemplateFailure)` for an image or a sound where the template takes only text.
 */
export const templateMessages = (
  { source, contentForm }: { readonly source: string; readonly contentForm: ContentForm },
  history: History,
): E.Either<TemplateFailure, readonly object[]> => {
  const all = history.messages.toArray()
  const hasMedia = (item: Message): boolean => item.content.some((part) => part.type !== 'text')
  const refused = contentForm === 'text' ? all.findIndex(hasMedia) : -1
  if (refused !== -1) {
    const kind = all[refused]!.content.find((part) => part.type !== 'text')!.type
    const reason = `message ${refused} has an ${kind}, and the chat template takes only text`
    return E.left({ _tag: 'TemplateFailure', reason })
  }
  const thoughts = reasoningKey(source)
  const formOf = (item: Message): 'text' | 'parts' => (contentForm === 'parts' || hasMedia(item) ? 'parts' : 'text')
  return E.right(all.map((item) => templateMessage(item, formOf(item), thoughts)))
}
