/** Tools in the system message, for chat templates that show none. */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type ContentPart, History, type Message, message } from '../history/history.js'
import type { TemplateOutput } from '../jinja/template.js'
import type { ToolCallFormat } from '../toolCalls/format.js'
import { writeToolCalls } from '../toolCalls/write.js'

/**
 * A format of tool calls, and the message that describes the tools: the system message, or the
 * first one for templates without system messages.
 */
export interface ToolPrompt {
  readonly format: ToolCallFormat
  readonly place: 'system' | 'first'
}

type Run = (messages: readonly object[], tools?: readonly object[]) => E.Either<TemplateFailure, TemplateOutput>

const PROBE = 'probe_7f3a'

const probeMessages = (...roles: readonly string[]): readonly object[] =>
  roles.map((role) => ({ role, content: PROBE }))

/** Determines whether a template writes tools. A template that refuses the probe counts as one. */
export const toolsOf = (run: Run): 'shown' | 'ignored' => {
  const tool = { type: 'function', function: { name: 'tool_7f3a', description: '', parameters: { type: 'object' } } }
  const ignores = (messages: readonly object[]): boolean => {
    const output = run(messages, [tool])
    return E.isRight(output) && !output.right.text.includes('tool_7f3a')
  }
  return ignores(probeMessages('user')) && ignores(probeMessages('system', 'user')) ? 'ignored' : 'shown'
}

/** Returns the place of the tools for a template. */
export const placeOf = (run: Run): ToolPrompt['place'] => {
  const output = run([{ role: 'system', content: 'system_7f3a' }, ...probeMessages('user')])
  return E.isRight(output) && output.right.text.includes('system_7f3a') ? 'system' : 'first'
}

const EXAMPLE = { name: 'NAME', arguments: { ARGUMENT: 'VALUE' } }

/** Describes tools and the form of their calls. */
const toolText = (tools: readonly object[], example: string): string =>
  [
    '# Tools\n\nYou can call these functions. Each line has the JSON signature of one:\n<tools>',
    ...tools.map((tool) => JSON.stringify(tool)),
    `</tools>\n\nTo call a function, write its name and its arguments in this form:\n${example}`,
    'The result follows between <tool_response> and </tool_response>.',
  ].join('\n')

const textPart = (text: string): ContentPart => ({ type: 'text', text })

/** Writes the calls of a message after its text. */
const withCalls = (item: Message, format: ToolCallFormat): E.Either<string, Message> => {
  if (item.toolCalls.length === 0) return E.right(item)
  const calls = writeToolCalls(item.toolCalls, format)
  if (E.isLeft(calls)) return E.left(calls.left.reason)
  const isBare = item.content.every((part) => part.type === 'text' && part.text === '')
  return E.right({
    ...item,
    content: [...item.content, textPart(`${isBare ? '' : '\n'}${calls.right}`)],
    toolCalls: [],
  })
}

/** Adds the description of the tools to the message that has it. */
const described = (all: readonly Numbered[], text: string, place: ToolPrompt['place']): readonly Numbered[] => {
  const [first, ...rest] = all
  const isSystem = first?.item.role === 'system' || first?.item.role === 'developer'
  if (first === undefined || (place === 'system' && !isSystem)) {
    return [{ item: message(place === 'system' ? 'system' : 'user', text), from: null }, ...all]
  }
  const { content } = first.item
  const parts = place === 'system' ? [...content, textPart(`\n\n${text}`)] : [textPart(`${text}\n\n`), ...content]
  return [{ ...first, item: { ...first.item, content: parts } }, ...rest]
}

/** A message, and the index of its origin; null for an added one. */
interface Numbered {
  readonly item: Message
  readonly from: number | null
}

const isResult = ({ role, toolCallId }: Message): boolean => role === 'tool' || toolCallId !== undefined

/** Writes results of tools as messages of the user, neighboring ones as one. */
const withResult = (all: readonly Numbered[], item: Message, from: number): Numbered => {
  const parts = [textPart('<tool_response>\n'), ...item.content, textPart('\n</tool_response>')]
  const last = all.at(-1)
  return last === undefined
    ? { item: message('user', parts), from }
    : { ...last, item: { ...last.item, content: [...last.item.content, textPart('\n'), ...parts] } }
}

/** A conversation without tools, and for each message the index of its origin. */
export interface PromptedHistory {
  readonly history: History
  readonly origins: readonly (number | null)[]
}

/**
 * Writes the tools of a conversation as text: their description, the calls, and the results.
 *
 * Errors   `Left` with the reason for calls that the format cannot express.
 */
export const promptedHistory = (
  history: History,
  tools: readonly object[],
  { format, place }: ToolPrompt,
): E.Either<string, PromptedHistory> => {
  const example = writeToolCalls([EXAMPLE], format)
  if (E.isLeft(example)) return E.left(example.left.reason)
  const all: Numbered[] = []
  let open: 'results' | 'none' = 'none'
  for (const [from, item] of history.messages.entries()) {
    if (isResult(item)) {
      const merged = withResult(open === 'results' ? all.splice(-1) : [], item, from)
      all.push(merged)
      open = 'results'
      continue
    }
    const written = withCalls(item, format)
    if (E.isLeft(written)) return written
    all.push({ item: written.right, from })
    open = 'none'
  }
  const complete = tools.length === 0 ? all : described(all, toolText(tools, example.right), place)
  return E.right({ history: History(complete.map(({ item }) => item)), origins: complete.map(({ from }) => from) })
}
