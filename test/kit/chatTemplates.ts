/** Conversations that Transformers rendered with chat templates, and the comparison with ours. */
import type { TemplateFailure } from '@tandem-rl/base'
import {
  type ChatTemplate,
  chatTemplate,
  History,
  message,
  type RenderOptions,
  runTemplate,
  type ToolCall,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

interface HubMessage {
  readonly role: string
  readonly content: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly {
    readonly id: string
    readonly function: { readonly name: string; readonly arguments: ToolCall['arguments'] }
  }[]
  readonly tool_call_id?: string
  readonly name?: string
}

/** A conversation and how it is rendered. */
export interface Case extends Omit<RenderOptions, 'now'> {
  readonly name: string
  readonly messages: readonly HubMessage[]
}

/** The rendering by Python. */
type Answer =
  | { readonly text: string; readonly generations: readonly (readonly [number, number])[] }
  | { readonly error: string }

export interface Reference {
  readonly transformers: string
  readonly jinja2: string
  readonly results: Readonly<Record<string, Readonly<Record<string, Readonly<Record<'text' | 'parts', Answer>>>>>>
}

/** The special tokens and the date that the generator uses. */
export const TOKENS = { bos_token: '<s>', eos_token: '</s>', pad_token: '<pad>', unk_token: '<unk>' }
export const NOW = new Date(Date.UTC(2024, 2, 5, 14, 7, 9))

/** The conversation of a case. */
const historyOf = ({ messages }: Pick<Case, 'messages'>): History =>
  History(
    messages.map((item) =>
      message(item.role, item.content, {
        toolCalls: (item.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
          id,
          name,
          arguments: args,
        })),
        ...(item.reasoning_content !== undefined && { reasoning: item.reasoning_content }),
        ...(item.tool_call_id !== undefined && { toolCallId: item.tool_call_id }),
        ...(item.name !== undefined && { name: item.name }),
      }),
    ),
  )

const optionsOf = ({ generationPrompt, tools, variables }: Case): RenderOptions => ({
  generationPrompt,
  now: NOW,
  ...(tools !== undefined && { tools }),
  ...(variables !== undefined && { variables }),
})

/** The relation of our rendering of a case to Python's. */
export type Outcome =
  | { readonly kind: 'equal'; readonly hasMask: boolean }
  | { readonly kind: 'both refuse' }
  | { readonly kind: 'text' | 'mask' | 'only Python refuses' | 'only we refuse'; readonly detail: string }

const describe = (ours: string, theirs: string): string => {
  const at = Array.from(ours).findIndex((char, i) => char !== Array.from(theirs)[i])
  const around = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 20), at + 60))
  return `at ${at}: ours ${around(ours)}, theirs ${around(theirs)}`
}

/** Renders a case and compares it with what Python gave. */
export const compareCase = (
  source: string,
  item: Case,
  answers: Readonly<Record<'text' | 'parts', Answer>>,
): Outcome => {
  const template: E.Either<TemplateFailure, ChatTemplate> = chatTemplate(source, TOKENS)
  const answer = answers[E.isRight(template) && template.right.contentForm === 'parts' ? 'parts' : 'text']
  const ours = E.isLeft(template) ? template : runTemplate(template.right, historyOf(item), optionsOf(item))
  if (E.isLeft(ours)) {
    return 'error' in answer ? { kind: 'both refuse' } : { kind: 'only we refuse', detail: ours.left.reason }
  }
  if ('error' in answer) return { kind: 'only Python refuses', detail: answer.error }
  if (ours.right.text !== answer.text) return { kind: 'text', detail: describe(ours.right.text, answer.text) }
  const ranges = ours.right.generations.map(({ start, end }) => [start, end])
  return item.generationPrompt === 'continue' || JSON.stringify(ranges) === JSON.stringify(answer.generations)
    ? { kind: 'equal', hasMask: ranges.length > 0 }
    : { kind: 'mask', detail: `ours ${JSON.stringify(ranges)}, theirs ${JSON.stringify(answer.generations)}` }
}
