/**
 * Rendering a conversation with the model's own Jinja template, as Transformers renders it, with a
 * span of the text for each message.
 *
 * Spans are computed in two exact ways. If the text of a conversation begins with the text of each
 * of its prefixes, the span of a message is the text that it adds. A template that changes earlier
 * messages (drops old thoughts, or the end of a turn) is watched instead: the text that it writes
 * for a message in its loop over the messages is the span of that message. A template that allows
 * neither is refused; spans are never guessed.
 */
import { errorMessage, type TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type History, truncateHistory } from '../history/history.js'
import type { ItemRange } from '../jinja/scope.js'
import { type CompiledTemplate, compileTemplate, type TemplateOutput } from '../jinja/template.js'
import { isList, toValue } from '../jinja/value.js'
import type { TextRange } from '../textRange.js'
import type { ToolCallFormat } from '../toolCalls/format.js'
import { type ContentForm, contentFormOf, templateMessages } from './content.js'
import { continueFinal } from './continueFinal.js'
import { placeOf, promptedHistory, type ToolPrompt, toolsOf } from './toolPrompt.js'

/** Special tokens and other constants that templates refer to. JSON values. */
export interface TemplateVariables {
  readonly bos_token?: string
  readonly eos_token?: string
  readonly pad_token?: string
  readonly [name: string]: unknown
}

export interface RenderOptions {
  /**
   * The end of the text. `add`: the opening of the assistant's turn, for the policy to complete.
   * `omit`: the last message as the template ends it. `continue`: the text of the last message,
   * left open for its author to continue.
   */
  readonly generationPrompt: 'add' | 'omit' | 'continue'
  /** The tools that the assistant may call, as the JSON schemas that templates expect. */
  readonly tools?: readonly object[]
  /** Documents for templates that answer from them. */
  readonly documents?: readonly object[]
  /**
   * Further variables of the template, such as `enable_thinking`. They override those of the
   * template.
   */
  readonly variables?: TemplateVariables
  /**
   * The time that `strftime_now` returns, in UTC. Default: the time of the template. Without
   * either, the function does not exist; the clock is never read.
   */
  readonly now?: Date
}

export interface ChatTemplate {
  readonly source: string
  /** Its own variables and default time, with which `chatTemplate` makes it again. */
  readonly own: { readonly variables: TemplateVariables; readonly now?: Date }
  /** The form in which messages reach the template: text, lists of parts, or either. */
  readonly contentForm: ContentForm
  /** `shown` if the template writes the tools of a conversation, as a probe found. */
  readonly tools: 'shown' | 'ignored'
  /** Tools that are written as text; see `withToolPrompt`. */
  readonly toolPrompt?: ToolPrompt
  /**
   * Renders messages in the form of the model hubs. `Left(TemplateFailure)` if the template raises
   * an exception.
   */
  readonly run: (messages: readonly object[], options: RenderOptions) => E.Either<TemplateFailure, TemplateOutput>
}

/** Returns a template failure. */
export const refuseTemplate = (reason: string): E.Either<TemplateFailure, never> =>
  E.left({ _tag: 'TemplateFailure', reason })

/** The variables that every template has. Other variables cannot override them. */
const inputOf = (messages: readonly object[], options: RenderOptions): Readonly<Record<string, unknown>> => ({
  messages,
  tools: options.tools ?? null, // Python's None, which Transformers passes
  documents: options.documents ?? null,
  add_generation_prompt: options.generationPrompt === 'add',
})

const runWith =
  (
    compiled: CompiledTemplate,
    variables: TemplateVariables,
    template: Pick<RenderOptions, 'now'>,
  ): ChatTemplate['run'] =>
  (messages, options) => {
    try {
      const values = { ...variables, ...options.variables, ...inputOf(messages, options) }
      const named = new Map(
        Object.entries(values).flatMap(([name, json]) => (json === undefined ? [] : [[name, toValue(json)] as const])),
      )
      const list = named.get('messages')
      const watched = isList(list) ? list : []
      const now = options.now ?? template.now
      const own = new Set(Object.keys(variables).filter((name) => values[name] === variables[name]))
      return E.right(compiled({ variables: named, own, watched, ...(now !== undefined && { now }) }))
    } catch (error) {
      return refuseTemplate(`the chat template refused the conversation: ${errorMessage(error)}`)
    }
  }

/**
 * Compiles a chat template. `variables` are its own, such as special tokens; `now` is its default
 * time.
 *
 * Errors   `Left(TemplateFailure)` if the source is not valid Jinja.
 * Source   Transformers `apply_chat_template`: Jinja with trimmed blocks, loop controls,
 *          `generation` blocks, its own `tojson`, `raise_exception` and `strftime_now`.
 *          `docs/decisions/2026-11-21-chat-templates.md` lists the differences.
 *
 * @example
 * chatTemplate('{{ messages')._tag // 'Left'
 */
export const chatTemplate = (
  source: string,
  variables: TemplateVariables = {},
  options: Pick<RenderOptions, 'now'> = {},
): E.Either<TemplateFailure, ChatTemplate> => {
  let compiled: CompiledTemplate
  try {
    compiled = compileTemplate(source)
  } catch (error) {
    return refuseTemplate(`the chat template is not valid Jinja: ${errorMessage(error)}`)
  }
  const run = runWith(compiled, variables, options)
  const own = { variables, ...options }
  const probe = (messages: readonly object[], tools?: readonly object[]) =>
    run(messages, { generationPrompt: 'omit', ...(tools !== undefined && { tools }) })
  return E.right({ source, own, run, contentForm: contentFormOf(probe), tools: toolsOf(probe) })
}

/**
 * Returns a template that writes tools as text, for models whose own template has none. The system
 * message describes the tools and the form of calls, calls follow the text of their message, and
 * results are messages of the user. Models that were not trained for tools may not follow it.
 *
 * @example
 * withToolPrompt(orThrow(chatTemplate('{{ messages[0].content }}')), 'hermes').tools // 'shown'
 */
export const withToolPrompt = (template: ChatTemplate, format: ToolCallFormat): ChatTemplate => {
  const place = placeOf((messages) => template.run(messages, { generationPrompt: 'omit' }))
  return { ...template, tools: 'shown', toolPrompt: { format, place } }
}

const PROMPTS: readonly unknown[] = ['add', 'omit', 'continue']

/** Throws RangeError for options without an end of the text, as plain JavaScript may pass them. */
const checkRenderOptions = (options: Partial<RenderOptions> | undefined): void => {
  const given = options?.generationPrompt
  if (!PROMPTS.includes(given))
    throw new RangeError(
      `render: options.generationPrompt must be 'add' or 'omit' or 'continue', got ${JSON.stringify(given)}`,
    )
}

/**
 * Runs a template on a conversation. Returns its text, the text of each message in a loop over the
 * messages, and its `generation` blocks.
 *
 * Errors   `Left(TemplateFailure)` if the template raises an exception, or renders nothing for an
 *          image, audio clip, video or file of the conversation; throws RangeError for options
 *          without a `generationPrompt`.
 */
export const runTemplate = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions,
): E.Either<TemplateFailure, TemplateOutput> => {
  checkRenderOptions(options)
  const { toolPrompt, ...plain } = template
  if (toolPrompt !== undefined) {
    const { tools = [], ...rest } = options
    const prompted = promptedHistory(history, tools, toolPrompt)
    if (E.isLeft(prompted)) return refuseTemplate(prompted.left)
    const { origins } = prompted.right
    const itemsOf = (items: readonly ItemRange[]): readonly ItemRange[] =>
      items.flatMap((range) => {
        const item = origins[range.item] ?? null
        return item === null ? [] : [{ ...range, item }]
      })
    return E.map((output: TemplateOutput) => ({ ...output, items: itemsOf(output.items) }))(
      runTemplate(plain, prompted.right.history, rest),
    )
  }
  const { source, contentForm } = template
  const run = (probe: readonly object[]) => template.run(probe, { ...options, generationPrompt: 'omit' })
  const messages = templateMessages({ source, contentForm, run }, history)
  if (E.isLeft(messages)) return messages
  return options.generationPrompt === 'continue'
    ? continueFinal(messages.right, (marked) => template.run(marked, options))
    : template.run(messages.right, options)
}

/**
 * Renders a conversation to text.
 *
 * Errors   `Left(TemplateFailure)` if the template raises an exception, if it renders nothing for a
 *          part that is not text, or (`continue`) if it does not show the text of the last message.
 * Cost     one run of the template; two for `continue`.
 */
export const renderText = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions,
): E.Either<TemplateFailure, string> =>
  E.map(({ text }: TemplateOutput) => text)(runTemplate(template, history, options))

/**
 * A half-open range of the text, in UTF-16 code units, with the message that it was rendered from.
 */
export interface TextSpan extends TextRange {
  /** Index of the message. The generation prompt belongs to the next message. */
  readonly message: number
  readonly role: string
}

export interface Rendered {
  readonly text: string
  /** In order, without gaps. */
  readonly spans: readonly TextSpan[]
  /**
   * Text that the template took from messages, tools and documents. No control token may be
   * recognized in it. Roles are not part of it.
   */
  readonly plainText: readonly TextRange[]
}

type Result = E.Either<TemplateFailure, Rendered>

type Spanned = E.Either<TemplateFailure, Omit<Rendered, 'plainText'>>

/** Renders the messages, each as the text that it adds to those before it. */
const byBeginnings = (template: ChatTemplate, history: History, options: RenderOptions): Spanned => {
  const spans: TextSpan[] = []
  let text = ''
  for (const [i, { role }] of history.messages.entries()) {
    const longer = renderText(template, truncateHistory(history, i + 1), { ...options, generationPrompt: 'omit' })
    if (E.isLeft(longer)) return longer
    if (!longer.right.startsWith(text)) {
      return refuseTemplate(
        `message ${i} changes how the messages before it are rendered, so the spans of this template cannot be determined`,
      )
    }
    if (longer.right.length > text.length)
      spans.push({ start: text.length, end: longer.right.length, message: i, role })
    text = longer.right
  }
  return E.right({ text, spans })
}

/** Returns the ranges that are not inside another one, in the order of the text. */
const outermost = (ranges: readonly ItemRange[]): readonly ItemRange[] => {
  let end = -1
  return ranges
    .toSorted((a, b) => a.start - b.start || b.end - a.end)
    .filter((range) => {
      if (range.end <= end) return false
      end = range.end
      return true
    })
}

/**
 * Renders the messages by watching the template's loop. Text before the first range belongs to the
 * first message, and text between two ranges to the one before it.
 */
const byWatching = (template: ChatTemplate, history: History, options: RenderOptions): Spanned => {
  const output = runTemplate(template, history, { ...options, generationPrompt: 'omit' })
  if (E.isLeft(output)) return output
  const { text, items } = output.right
  const ranges = outermost(items)
  if (ranges.length === 0) return refuseTemplate('the chat template does not go through the messages in a loop')
  const first = ranges[0]!.item === 0 ? [] : [{ item: 0, start: 0, end: ranges[0]!.start }]
  const starts = [...first, ...ranges].map((range, i) => ({ ...range, start: i === 0 ? 0 : range.start }))
  const spans = starts
    .map(({ item, start }, i): TextSpan => {
      const end = starts[i + 1]?.start ?? text.length
      return { start, end, message: item, role: history.messages.get(item)!.role }
    })
    .filter(({ start, end }) => end > start)
  return E.right({ text, spans: joined(spans) })
}

/** Merges neighboring spans of one message. */
const joined = (spans: readonly TextSpan[]): readonly TextSpan[] => {
  const result: TextSpan[] = []
  for (const span of spans) {
    const last = result.at(-1)
    if (last?.message === span.message) result[result.length - 1] = { ...last, end: span.end }
    else result.push(span)
  }
  return result
}

/** Renders the messages alone. If neither way works, the failure of the first is returned. */
const messagesOf = (template: ChatTemplate, history: History, options: RenderOptions): Spanned => {
  const simple = byBeginnings(template, history, options)
  if (E.isRight(simple)) return simple
  const watched = byWatching(template, history, options)
  return E.isRight(watched) ? watched : simple
}

const promptSpan = (start: number, end: number, message: number): readonly TextSpan[] =>
  end > start ? [{ start, end, message, role: 'assistant' }] : []

/**
 * Returns the end of the template's loop over the messages in the text. The text up to there must
 * be the same with and without a generation prompt.
 */
const endOfLoop = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions,
): E.Either<TemplateFailure, number> => {
  const closed = runTemplate(template, history, { ...options, generationPrompt: 'omit' })
  if (E.isLeft(closed)) return closed
  const open = runTemplate(template, history, options)
  if (E.isLeft(open)) return open
  const end = Math.max(0, ...open.right.items.map((range) => range.end))
  const isSame =
    JSON.stringify(open.right.items) === JSON.stringify(closed.right.items) &&
    open.right.text.slice(0, end) === closed.right.text.slice(0, end)
  return isSame && end > 0
    ? E.right(end)
    : refuseTemplate(
        `message ${history.messages.size} changes how the messages before it are rendered, so the spans of this template cannot be determined`,
      )
}

/** Cuts spans at a position of the text. */
const cutSpans = (spans: readonly TextSpan[], end: number): readonly TextSpan[] =>
  spans.filter(({ start }) => start < end).map((span) => ({ ...span, end: Math.min(span.end, end) }))

/**
 * Renders a conversation with a span for each message, and one for the generation prompt if
 * present.
 *
 * Text that a template moves into the turn of another message, such as a system message in the
 * first user turn, belongs to that turn. A message that writes nothing has no span. `plainText`
 * holds the parts that the template took from the conversation.
 *
 * Errors   `Left(TemplateFailure)` if the template raises an exception, or if its spans cannot be
 *          determined.
 * Cost     one rendering per message, plus at most three.
 */
export const render = (template: ChatTemplate, history: History, options: RenderOptions): Result => {
  const rendered = messagesOf(template, history, options)
  if (E.isLeft(rendered)) return rendered
  const output = runTemplate(template, history, options)
  if (E.isLeft(output)) return output
  const { spans } = rendered.right
  const { text, given: plainText } = output.right
  const before = rendered.right.text
  const next = history.messages.size
  if (before.startsWith(text)) return E.right({ text, plainText, spans: cutSpans(spans, text.length) })
  if (text.startsWith(before)) {
    return E.right({ text, plainText, spans: [...spans, ...promptSpan(before.length, text.length, next)] })
  }
  const end = endOfLoop(template, history, options)
  if (E.isLeft(end)) return end
  const prompt = promptSpan(end.right, text.length, next)
  return E.right({ text, plainText, spans: [...cutSpans(spans, end.right), ...prompt] })
}

/**
 * Renders the text that the messages from index `from` on add. `renderText` of the whole is that of
 * the first `from` messages followed by this suffix.
 *
 * Errors   `Left(TemplateFailure)` if the template raises an exception, or if the later messages
 *          change the text of the earlier ones, as where old thoughts are dropped; throws
 *          RangeError unless `from` is between 0 and the number of messages.
 * Cost     two renderings.
 */
export const renderSuffix = (
  template: ChatTemplate,
  history: History,
  { from, ...options }: RenderOptions & { readonly from: number },
): E.Either<TemplateFailure, string> => {
  const earlier =
    from === 0
      ? E.right('')
      : renderText(template, truncateHistory(history, from), { ...options, generationPrompt: 'omit' })
  if (E.isLeft(earlier)) return earlier
  const whole = renderText(template, history, options)
  if (E.isLeft(whole)) return whole
  return whole.right.startsWith(earlier.right)
    ? E.right(whole.right.slice(earlier.right.length))
    : refuseTemplate(
        `the messages from ${from} on change how the template renders those before them, so they cannot be rendered alone`,
      )
}
