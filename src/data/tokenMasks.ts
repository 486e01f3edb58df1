/** The choice of the tokens of a conversation that are learned, by their origin. */
import type { TokenSpan } from '@tandem-rl/text'

/** Returns true if the token at this index of the conversation is learned. `span` is its span. */
export type MaskChoice = (span: TokenSpan, place: number) => boolean

/**
 * Chooses the tokens that the policy sampled, including the end of its turn, and excludes text of
 * the template and of other authors.
 */
export const sampledTokens: MaskChoice = ({ origin }) => origin === 'sampled'

/**
 * Chooses all tokens of messages with these roles, whatever their origin: for given conversations,
 * as in supervised fine-tuning.
 *
 * @example
 * tokensOfRoles('assistant')({ start: 0, end: 1, message: 0, role: 'user', origin: 'rendered' }, 0) // false
 */
export const tokensOfRoles =
  (...roles: readonly string[]): MaskChoice =>
  ({ role }) =>
    roles.includes(role)

/**
 * Computes the mask of a conversation: 1 for each chosen token.
 *
 * Equation $m_t = 1$ where the choice takes the message, the role and the origin of token t, else 0
 * When     always: the end-of-turn token that the policy sampled is trained; text of templates and
 *          tools is not. A choice is any function.
 * Used by  every loss; TorchRL `masking_strategy`, verl `response_mask`
 * Shapes   `spans` in order, without overlap, within the `length` tokens; the result has that
 *          length. A token outside all spans is 0.
 * Errors   throws RangeError for spans out of order or outside of the conversation, with the first
 *          one.
 * Effects  none. Cost: one call of `choice` for each token that has a span.
 * Source   TorchRL's `masking_strategy` and assistant masks, which search the template's text; here
 *          the origin of each token is recorded.
 *
 * @example
 * maskOfSpans([{ start: 1, end: 3, message: 1, role: 'assistant', origin: 'sampled' }], 4) // [0, 1, 1, 0]
 */
export const maskOfSpans = (
  spans: readonly TokenSpan[],
  length: number,
  choice: MaskChoice = sampledTokens,
): Uint8Array => {
  const wrong = spans.findIndex(
    ({ start, end }, i) => !(start >= (spans[i - 1]?.end ?? 0) && start <= end && end <= length),
  )
  if (wrong >= 0) {
    const { start, end } = spans[wrong]!
    throw new RangeError(
      `maskOfSpans: span ${wrong} is from ${start} to ${end}: spans must be in order and within the ${length} tokens`,
    )
  }
  const mask = new Uint8Array(length)
  for (const span of spans)
    for (let place = span.start; place < span.end; place++) mask[place] = choice(span, place) ? 1 : 0
  return mask
}
