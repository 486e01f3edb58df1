/**
 * Rendering a conversation with the model's own Jinja template, with spans: which part of the text belongs to which message.
 *
 * Spans come from rendering the conversation message by message and comparing. That is exact where the rendering of a
 * conversation begins with the rendering of each of its beginnings; a template for which this fails is refused, not guessed at.
 */
import { Template } from '@huggingface/jinja'
import * as E from 'fp-ts/lib/Either.js'
import type { TemplateFailure } from '../core/failure.js'
import { type History, type Message, textOf, truncate } from './history.js'

/** Special tokens and other constants that templates refer to. */
export interface TemplateVariables {
  readonly bos_token?: string
  readonly eos_token?: string
  readonly pad_token?: string
  readonly [name: string]: unknown
}

export interface ChatTemplate {
  readonly source: string
  readonly render: (messages: readonly object[], options: RenderOptions) => E.Either<TemplateFailure, string>
}

/** A half-open range of the text, in UTF-16 code units, and the message it was rendered from. */
export interface TextSpan {
  readonly start: number
  readonly end: number
  /** Index of the message; the generation prompt counts as part of the message to come. */
  readonly message: number
  readonly role: string
}

export interface Rendered {
  readonly text: string
  /** In order, without gaps. */
  readonly spans: readonly TextSpan[]
}

/** Whether the text ends with the beginning of the assistant's turn, for the policy to go on from. */
export interface RenderOptions {
  readonly generationPrompt: 'add' | 'omit'
}

const fail = (reason: string): E.Either<TemplateFailure, never> => E.left({ _tag: 'TemplateFailure', reason })

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/**
 * Compiles a template.
 *
 * Errors   `Left(TemplateFailure)` if the source is not valid Jinja.
 */
export const chatTemplate = (
  source: string,
  variables: TemplateVariables = {},
): E.Either<TemplateFailure, ChatTemplate> => {
  const normalized = source.replace(/\r\n?/g, '\n') // as Python's Jinja does when it reads a template
  let template: Template
  try {
    template = new Template(normalized)
  } catch (error) {
    return fail(`the chat template is not valid Jinja: ${reasonOf(error)}`)
  }
  return E.right({
    source,
    render: (messages, { generationPrompt }) => {
      try {
        return E.right(template.render({ ...variables, messages, add_generation_prompt: generationPrompt === 'add' }))
      } catch (error) {
        return fail(`the chat template refused the conversation: ${reasonOf(error)}`)
      }
    },
  })
}

/** A message as templates expect it. */
const templateMessage = (message: Message): object => ({
  role: message.role,
  content: textOf(message),
  ...(message.toolCalls.length > 0 && {
    tool_calls: message.toolCalls.map(({ id, name, arguments: args }) => ({
      ...(id !== undefined && { id }),
      type: 'function',
      function: { name, arguments: args },
    })),
  }),
})

/** The text of a conversation. Errors: `Left(TemplateFailure)` if the template raises an exception. */
export const renderText = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions,
): E.Either<TemplateFailure, string> => template.render(history.messages.map(templateMessage).toArray(), options)

/**
 * The text of a conversation with a span for each message, and one for the generation prompt if there is one.
 *
 * Errors   `Left(TemplateFailure)` if the template raises an exception, or if the text of a longer conversation does not begin
 *          with the text of its beginning, so that spans cannot be told.
 * Cost     one rendering for each message.
 */
export const render = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions,
): E.Either<TemplateFailure, Rendered> => {
  const spans: TextSpan[] = []
  let text = ''
  const extendTo = (longer: string, message: number, role: string): TemplateFailure | undefined => {
    if (!longer.startsWith(text)) {
      return {
        _tag: 'TemplateFailure',
        reason: `message ${message} changes how the messages before it are rendered, so the spans of this template cannot be told`,
      }
    }
    if (longer.length > text.length) spans.push({ start: text.length, end: longer.length, message, role })
    text = longer
    return undefined
  }
  for (const [i, { role }] of history.messages.entries()) {
    const longer = renderText(template, truncate(history, i + 1), { generationPrompt: 'omit' })
    if (E.isLeft(longer)) return longer
    const problem = extendTo(longer.right, i, role)
    if (problem !== undefined) return E.left(problem)
  }
  if (options.generationPrompt === 'add') {
    const longer = renderText(template, history, options)
    if (E.isLeft(longer)) return longer
    const problem = extendTo(longer.right, history.messages.size, 'assistant')
    if (problem !== undefined) return E.left(problem)
  }
  return E.right({ text, spans })
}
