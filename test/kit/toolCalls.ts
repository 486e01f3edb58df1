/** Conversations with calls of tools, and the turns in which a template writes them. */
import type { TemplateFailure } from '@tandem-rl/base'
import {
  type ChatTemplate,
  History,
  message,
  type ReadText,
  readToolCalls,
  render,
  type ToolCall,
  type ToolCallFormat,
  type ToolCallReader,
  type ToolDelta,
  toolResult,
  truncateHistory,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

const schema = (name: string, properties: object): object => ({
  type: 'function',
  function: { name, description: `Does ${name}.`, parameters: { type: 'object', properties, required: [] } },
})

/** The tools that are called, as templates know them. */
const TOOLS: readonly object[] = [
  schema('look_up', {
    query: { type: 'string', description: 'What to look for.' },
    limit: { type: 'integer', description: 'How many.' },
    exact: { type: 'boolean', description: 'Whether.' },
    filter: { type: 'object', description: 'More.' },
    tags: { type: 'array', description: 'Some.', items: { type: 'string' } },
  }),
  schema('now', {}),
]

const FIRST: ToolCall = {
  id: 'abcdefgh1',
  name: 'look_up',
  arguments: {
    query: 'h\u00e9 \u{1f600} "quoted" {braces}] </tool_call>\nand a line',
    limit: -3,
    exact: true,
    filter: { a: { b: [1.5, null, { c: '}' }] }, 'ke"y': false },
    tags: ['x', "it's"],
  },
}

const SECOND: ToolCall = { id: 'abcdefgh2', name: 'now', arguments: {} }

const conversation = (calls: readonly ToolCall[]): History =>
  History([
    message('user', 'What is it?'),
    message('assistant', [], { toolCalls: calls }),
    ...calls.map((call) => toolResult(call, '{"found": 1}')),
    message('assistant', 'It is this.'),
  ])

/** A call and its result, and two calls at once with theirs. */
export const CONVERSATIONS: Readonly<Record<'one call' | 'two calls', History>> = {
  'one call': conversation([FIRST]),
  'two calls': conversation([FIRST, SECOND]),
}

/**
 * The text of the assistant's first turn in the rendering of a whole conversation: its span,
 * without what the prompt before it ends with. Errors   `Left(TemplateFailure)` if the template
 * refuses the conversation.
 */
export const turnOf = (template: ChatTemplate, history: History): E.Either<TemplateFailure, string> => {
  const whole = render(template, history, { generationPrompt: 'omit', tools: TOOLS })
  if (E.isLeft(whole)) return whole
  const prompt = render(template, truncateHistory(history, 1), { generationPrompt: 'add', tools: TOOLS })
  const { text, spans } = whole.right
  const span = spans.filter((each) => each.message === 1)
  const [start, end] = [span[0]?.start ?? 0, span.at(-1)?.end ?? 0]
  const isPrefix = E.isRight(prompt) && text.startsWith(prompt.right.text)
  return E.right(text.slice(isPrefix ? Math.max(start, prompt.right.text.length) : start, end))
}

/** The calls of a turn, in the form of a conversation's calls. */
export const callsRead = (turn: string, format: ToolCallFormat): readonly unknown[] =>
  readToolCalls(turn, format, { tools: TOOLS }).calls.map(({ name, arguments: args }) => ({
    name,
    arguments: JSON.parse(args) as unknown,
  }))

/** The calls of a conversation without their ids. */
export const callsMade = (history: History): readonly unknown[] =>
  history.messages.get(1)!.toolCalls.map(({ name, arguments: args }) => ({ name, arguments: args }))

/** A text in pieces, from places to cut it at. */
export const cut = (text: string, cuts: readonly number[]): readonly string[] => {
  const places = [0, ...cuts.toSorted((a, b) => a - b), text.length]
  return places.slice(1).map((end, i) => text.slice(places[i], end))
}

/** Joins the deltas that a reader returns for the pieces of a text, and for its end. */
export const joinedDeltas = (start: ToolCallReader, pieces: readonly string[], isComplete = true): ReadText => {
  let reader = start
  const deltas: ToolDelta[] = []
  for (const piece of pieces) {
    const step = reader.push(piece)
    deltas.push(...step.deltas)
    reader = step.reader
  }
  const all = [...deltas, ...reader.end({ isComplete })]
  const textOf = (tag: 'Text' | 'Thoughts'): string =>
    all.map((delta) => (delta._tag === tag ? delta.text : '')).join('')
  const reasoning = textOf('Thoughts')
  return {
    text: textOf('Text'),
    calls: all.flatMap((delta) => (delta._tag === 'Call' ? [delta.call] : [])),
    ...(reasoning !== '' && { reasoning }),
  }
}
