/** Messages in the form that templates expect: that of the model hubs. */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { exactArguments } from '../history/argumentText.js'
import { type ContentPart, type History, type MediaPart, type Message, textOf } from '../history/history.js'
import type { TemplateOutput } from '../jinja/template.js'

/** The content of a message that a template accepts: text, a list of parts, or either. */
export type ContentForm = 'text' | 'parts' | 'text or parts'

type Run = (messages: readonly object[]) => E.Either<TemplateFailure, TemplateOutput>

const PROBE = 'probe-7f3a'

/**
 * Determines the form of content by rendering one user message both ways: text is rendered in
 * place; a list is rendered as its text, not printed with its keys. A template that shows neither
 * is given text.
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

const mediaValue = (part: MediaPart): object => ({
  type: part.type,
  ...('url' in part.source ? { url: part.source.url } : { base64: part.source.base64 }),
  ...(part.type === 'file' && part.name !== undefined && { name: part.name }),
})

const WITH_ARTICLE: Readonly<Record<MediaPart['type'], string>> = {
  image: 'an image',
  audio: 'a sound',
  video: 'a video',
  file: 'a file',
}

const isMedia = (part: ContentPart): part is MediaPart => part.type !== 'text'

const hasMedia = ({ content }: Message): boolean => content.some(isMedia)

/**
 * Returns true if a template writes nothing for a part: a message with it renders like one without.
 */
const drops = (run: Run, role: string, part: MediaPart): boolean => {
  const rendered = (more: readonly object[]) => run([{ role, content: [{ type: 'text', text: PROBE }, ...more] }])
  const [without, having] = [rendered([]), rendered([mediaValue(part)])]
  return E.isRight(without) && E.isRight(having) && without.right.text === having.right.text
}

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
    tool_calls: item.toolCalls.map((call) => ({
      ...(call.id !== undefined && { id: call.id }),
      type: 'function',
      function: { name: call.name, arguments: exactArguments(call) },
    })),
  }),
  ...(item.toolCallId !== undefined && { tool_call_id: item.toolCallId }),
  ...(item.name !== undefined && { name: item.name }),
})

/** Returns the first part that the template does not render, or `undefined`. */
const refusedPart = (template: MessageTemplate, all: readonly Message[]): string | undefined => {
  const taken = new Set<string>()
  for (const [i, { role, content }] of all.entries()) {
    for (const part of content.filter(isMedia)) {
      const what = `message ${i} has ${WITH_ARTICLE[part.type]}`
      if (template.contentForm === 'text') return `${what}, and the chat template accepts only text`
      const kind = `${role}: ${part.type}`
      if (taken.has(kind)) continue
      if (drops(template.run, role, part)) return `${what}, which the chat template does not render`
      taken.add(kind)
    }
  }
  return undefined
}

/** Properties of a template that are determined before its messages are made. */
interface MessageTemplate {
  readonly source: string
  readonly contentForm: ContentForm
  readonly run: Run
}

/**
 * Converts a conversation to the messages that a template expects. A template that takes text gets
 * joined text. A message with an image, audio clip, video or file is a list of parts, as is every
 * message for a template that accepts only parts.
 *
 * Errors   `Left(TemplateFailure)` for a part that the template does not render.
 * Cost     two renderings of a short message for each kind of part that is not text, and each role.
 */
export const templateMessages = (
  template: MessageTemplate,
  history: History,
): E.Either<TemplateFailure, readonly object[]> => {
  const all = history.messages.toArray()
  const reason = refusedPart(template, all)
  if (reason !== undefined) return E.left({ _tag: 'TemplateFailure', reason })
  const thoughts = reasoningKey(template.source)
  const formOf = (item: Message): 'text' | 'parts' =>
    template.contentForm === 'parts' || hasMedia(item) ? 'parts' : 'text'
  return E.right(all.map((item) => templateMessage(item, formOf(item), thoughts)))
}
