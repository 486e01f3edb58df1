/**
 * The parts of a rendered conversation that the assistant wrote, on which supervised training
 * computes its loss.
 */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type History, truncateHistory } from '../history/history.js'
import { overlapTest, type TextRange } from '../textRange.js'
import {
  type ChatTemplate,
  type Rendered,
  type RenderOptions,
  refuseTemplate,
  render,
  renderText,
  runTemplate,
} from './chatTemplate.js'

/** A rendered conversation with the ranges that the assistant wrote, in order. */
export interface AssistantText {
  readonly text: string
  readonly ranges: readonly TextRange[]
}

export interface AssistantTextOptions extends RenderOptions {
  /**
   * The source of the ranges. `tags`: the `generation` blocks of the template. `spans`: the spans
   * of the assistant's messages without the generation prompt that the policy would have received.
   */
  readonly from: 'tags' | 'spans'
  /**
   * With `spans`: the text that ends a turn. Text that the template adds after it is not included.
   * It may be the beginning of the next message, as in GLM's templates. A complete message without
   * it is refused, because a policy that is trained without it would never end its turn.
   */
  readonly endOfTurn?: string
}

type Result = E.Either<TemplateFailure, AssistantText>

/** Returns true if the template marks the assistant's text with `generation` blocks. */
export const hasGenerationTags = ({ source }: Pick<ChatTemplate, 'source'>): boolean =>
  /\{%-?\s*generation\s*-?%\}/.test(source)

const fromTags = (template: ChatTemplate, history: History, options: RenderOptions): Result => {
  if (!hasGenerationTags(template)) return refuseTemplate('the chat template has no generation blocks')
  const output = runTemplate(template, history, options)
  if (E.isLeft(output)) return output
  const { text, generations } = output.right
  return generations.some(({ isNested }) => isNested)
    ? refuseTemplate('a generation block is inside a macro or another block, so its position in the text is unknown')
    : E.right({ text, ranges: generations.map(({ start, end }) => ({ start, end })) })
}

/** Renders the text that the template puts before the answer to the first `count` messages. */
const promptAfter = (
  template: ChatTemplate,
  history: History,
  options: RenderOptions & { readonly count: number },
): E.Either<TemplateFailure, string> => {
  const { count, ...rest } = options
  const before = truncateHistory(history, count)
  const closed = renderText(template, before, { ...rest, generationPrompt: 'omit' })
  if (E.isLeft(closed)) return closed
  const open = renderText(template, before, { ...rest, generationPrompt: 'add' })
  if (E.isLeft(open)) return open
  if (closed.right.startsWith(open.right)) return E.right('')
  if (open.right.startsWith(closed.right)) return E.right(open.right.slice(closed.right.length))
  return E.map(({ text, spans }: Rendered) => {
    const prompt = spans.find(({ message }) => message === count)
    return prompt === undefined ? '' : text.slice(prompt.start, prompt.end)
  })(render(template, before, { ...rest, generationPrompt: 'add' }))
}

/**
 * Returns a function that finds the end of the text that the policy would have written for a
 * message: after its last end of turn that is not text of the conversation.
 */
const writtenEnds = ({ text, plainText }: Rendered, endOfTurn: string | undefined) => {
  const isGiven = overlapTest(plainText)
  return ({ start, end }: TextRange): number | undefined => {
    if (endOfTurn === undefined) return end
    const written = text.slice(start, end)
    for (
      let at = written.lastIndexOf(endOfTurn);
      at >= 0;
      at = at === 0 ? -1 : written.lastIndexOf(endOfTurn, at - 1)
    ) {
      const behind = start + at + endOfTurn.length
      if (!isGiven(start + at, behind)) return behind
    }
    return text.startsWith(endOfTurn, end) ? end + endOfTurn.length : undefined
  }
}

const fromSpans = (template: ChatTemplate, history: History, options: AssistantTextOptions): Result => {
  const { endOfTurn, from: _, ...rest } = options
  const rendered = render(template, history, rest)
  if (E.isLeft(rendered)) return rendered
  const { text, spans } = rendered.right
  const { size } = history.messages
  const endOf = writtenEnds(rendered.right, endOfTurn)
  const ranges: TextRange[] = []
  for (const { start, end, message, role } of spans) {
    if (role !== 'assistant' || message >= size) continue
    const prompt = promptAfter(template, history, { ...rest, count: message })
    if (E.isLeft(prompt)) return prompt
    if (!text.startsWith(prompt.right, start)) {
      return refuseTemplate(
        `message ${message} does not begin with the generation prompt, so the text of the assistant cannot be determined`,
      )
    }
    const written = { start: start + prompt.right.length, end }
    const isOpen = message === size - 1 && rest.generationPrompt === 'continue'
    const isComplete = history.messages.get(message)!.isComplete && !isOpen
    const last = endOf(written) ?? (isComplete ? undefined : end)
    if (last === undefined) {
      return refuseTemplate(
        `message ${message} has no end of turn '${endOfTurn}' in the rendered text, so the policy would not learn to end its turn; add it to the chat template, or omit endOfTurn`,
      )
    }
    ranges.push({ ...written, end: last })
  }
  return E.right({ text, ranges })
}

/**
 * Renders a conversation with the ranges that the assistant wrote.
 *
 * Errors   `Left(TemplateFailure)` if the template refuses the conversation; with `tags`, if it has
 *          no tags, or has them in macros; with `spans`, if the spans cannot be determined, an
 *          assistant message does not begin with the generation prompt, or a complete one has no
 *          end of turn.
 * Cost     with `tags` one rendering, with `spans` at most three for each message; more where a
 *          message changes the text of earlier ones.
 * Source   Transformers `apply_chat_template(return_assistant_tokens_mask=True)`.
 */
export const assistantText = (template: ChatTemplate, history: History, options: AssistantTextOptions): Result =>
  options.from === 'tags' ? fromTags(template, history, options) : fromSpans(template, history, options)

/**
 * Marks the tokens that have a character in one of the ranges, as Transformers counts them.
 *
 * Shapes   `offsets` is `[T]`: the half-open range of the text of each token, in order; the result
 *          is `[T]`, 1 or 0.
 *
 * @example
 * tokenMask([{ start: 2, end: 4 }], [[0, 2], [2, 3], [3, 5], [5, 6]]) // [0, 1, 1, 0]
 */
export const tokenMask = (
  ranges: readonly TextRange[],
  offsets: readonly (readonly [number, number])[],
): readonly (0 | 1)[] => {
  const isWritten = overlapTest(ranges)
  return offsets.map(([from, to]) => (to > from && isWritten(from, to) ? 1 : 0))
}
