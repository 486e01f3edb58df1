/** Rendering of a conversation whose last message stays open for its author to continue. */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { TemplateOutput } from '../jinja/template.js'

const refuse = (reason: string): E.Either<TemplateFailure, never> => E.left({ _tag: 'TemplateFailure', reason })

/** Private-use characters. A conversation that contains them is refused. */
const MARKS = ['\ue0c0', '\ue0c1'] as const

type Marked = { readonly text: string; readonly messages: readonly object[] }

/** Adds a mark and a space after the last text of the last message, and returns that text too. */
const withMark = (messages: readonly object[], mark: string): Marked | undefined => {
  const last = messages.at(-1)
  if (last === undefined || !('content' in last)) return undefined
  const { content } = last
  const replaced = (next: unknown): readonly object[] => [...messages.slice(0, -1), { ...last, content: next }]
  if (typeof content === 'string') return { text: content, messages: replaced(`${content}${mark} `) }
  if (!Array.isArray(content)) return undefined
  const parts: readonly { readonly text?: unknown }[] = content // `templateMessages` makes parts
  const at = parts.findLastIndex(({ text }) => typeof text === 'string')
  if (at === -1) return undefined
  const text = String(parts[at]!.text)
  return { text, messages: replaced(parts.with(at, { ...parts[at], text: `${text}${mark} ` })) }
}

/**
 * Cuts the output at the mark. If the template trims the text, the space before the mark is dropped
 * too.
 */
const cutAt = (output: TemplateOutput, mark: string): TemplateOutput | undefined => {
  const at = output.text.lastIndexOf(mark)
  if (at === -1) return undefined
  const isKept = output.text[at + 1] === ' '
  const text = isKept ? output.text.slice(0, at) : output.text.slice(0, at).trimEnd()
  const cut = <T extends { readonly start: number; readonly end: number }>(ranges: readonly T[]): readonly T[] =>
    ranges.filter(({ start }) => start < text.length).map((r) => ({ ...r, end: Math.min(r.end, text.length) }))
  return { text, items: cut(output.items), generations: cut(output.generations), given: cut(output.given) }
}

/**
 * Renders messages with the last one left open.
 *
 * A mark after the text locates its end in the output. A second run with another mark must give the
 * same text before it.
 *
 * Errors   `Left(TemplateFailure)` if there is no text to continue, or the template does not show
 *          it.
 * Source   Transformers `apply_chat_template(continue_final_message=True)`.
 */
export const continueFinal = (
  messages: readonly object[],
  run: (messages: readonly object[]) => E.Either<TemplateFailure, TemplateOutput>,
): E.Either<TemplateFailure, TemplateOutput> => {
  const cuts: TemplateOutput[] = []
  for (const mark of MARKS) {
    const marked = withMark(messages, mark)
    if (marked === undefined) return refuse('the last message has no text to continue')
    const output = run(marked.messages)
    if (E.isLeft(output)) return output
    const cut = cutAt(output.right, mark)
    if (cut === undefined || !cut.text.trimEnd().endsWith(marked.text.trim())) {
      return refuse('the chat template does not show the text of the last message, so it cannot be continued')
    }
    cuts.push(cut)
  }
  const [first, second] = cuts
  return first!.text === second!.text
    ? E.right(first!)
    : refuse('the text of the last message depends on the text after it in this chat template')
}
