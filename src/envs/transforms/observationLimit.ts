import { checkOptions } from '@tandem-rl/base'
import type { ContentPart, History, Message, TextTokenizer } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { data } from '../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import { OBSERVATION_LIMIT_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

const NAME = 'observationLimit'

export type ObservationLimitOptions = {
  /** Truncate longer messages, or fail. Default `truncate`. */
  readonly longer?: 'truncate' | 'fail'
} & (
  | {
      /** Maximum text of a message in UTF-16 units. */
      readonly characters: number
    }
  | {
      /** Maximum tokens of a message's text, before it is rendered. */
      readonly tokens: number
      /** The policy's tokenizer. */
      readonly tokenizer: TextTokenizer
    }
)

/** The size of a text, and its beginning within a limit. */
interface Measured {
  readonly size: number
  /** `some` if the rest of a very long text was not counted. */
  readonly counted: 'all' | 'some'
  readonly kept: string
}

interface Limit {
  readonly most: number
  readonly unit: 'characters' | 'tokens'
  readonly longer: 'truncate' | 'fail'
  /** Measures a text. `left` is the rest of the limit after the previous parts. */
  readonly measure: (text: string, left: number) => Measured
}

/** Copies the first characters of a text: a slice would keep the whole text in memory. */
const beginningOf = (text: string, characters: number): string => {
  const last = text.charCodeAt(characters - 1)
  const isSplit = last >= 0xd800 && last < 0xdc00 // the first half of a pair
  return Array.from(text.slice(0, isSplit ? characters - 1 : characters)).join('')
}

const byCharacters: Limit['measure'] = (text, left) => ({
  size: text.length,
  counted: 'all',
  kept: text.length <= left ? text : beginningOf(text, left),
})

/**
 * Minimum count of UTF-16 units that are measured, and units for each token that may be kept: few
 * tokens are longer.
 */
const COUNTED = 200_000
const COUNTED_PER_TOKEN = 16

/**
 * Returns a beginning of at most `left` tokens when encoded by itself: a truncated text may have
 * other tokens than the whole text has there.
 */
const firstTokens = (tokenizer: TextTokenizer, text: string, left: number): string => {
  const { offsets } = tokenizer.encoding(text, { specialTokens: 'plainText' })
  for (let count = left; count > 0; ) {
    const kept = beginningOf(text, offsets[2 * count]!) // of the first token that is left out
    const excess = tokenizer.encode(kept, { specialTokens: 'plainText' }).length - left
    if (excess <= 0) return kept
    count -= excess
  }
  return ''
}

const byTokens =
  (tokenizer: TextTokenizer, most: number): Limit['measure'] =>
  (text, left) => {
    const bound = COUNTED + COUNTED_PER_TOKEN * most
    const head = text.length <= bound ? text : beginningOf(text, bound)
    const size = tokenizer.encode(head, { specialTokens: 'plainText' }).length
    const kept = size <= left ? head : firstTokens(tokenizer, head, left)
    return head === text ? { size, counted: 'all', kept } : { size: Math.max(size, left + 1), counted: 'some', kept }
  }

/**
 * Returns a message within the limit: unchanged, or truncated with a note about the omitted part.
 */
const limitedMessage = (
  given: Message,
  { most, unit, measure }: Limit,
): { readonly kept: Message; readonly size: number } => {
  let [left, size] = [most, 0]
  let counted: Measured['counted'] = 'all'
  const parts: ContentPart[] = []
  for (const part of given.content) {
    if (part.type !== 'text') {
      parts.push(part)
      continue
    }
    const measured = measure(part.text, left)
    size += measured.size
    left -= Math.min(left, measured.size)
    if (measured.counted === 'some') counted = 'some'
    if (measured.kept !== '') parts.push({ type: 'text', text: measured.kept })
  }
  if (size <= most) return { kept: given, size }
  const note = `\n[${counted === 'some' ? 'at least ' : ''}${size - most} more ${unit}]`
  return { kept: { ...given, content: [...parts, { type: 'text', text: note }] }, size }
}

/** Limits the messages of a conversation from `first` on. */
const limited = (history: History, first: number, limit: Limit): E.Either<EnvFailure, History> => {
  const { most, unit, longer } = limit
  let changed = history.messages
  for (let i = first; i < history.messages.size; i++) {
    const given = history.messages.get(i)!
    const { kept, size } = limitedMessage(given, limit)
    if (kept === given) continue
    if (longer === 'fail') {
      return E.left(envFailure(NAME, `message ${i} (${given.role}) has ${size} ${unit}, more than ${most}`))
    }
    changed = changed.set(i, kept)
  }
  return E.right(changed === history.messages ? history : { ...history, messages: changed })
}

const limitOf = (options: ObservationLimitOptions): Limit => {
  const { longer = 'truncate' } = options
  return 'tokens' in options
    ? { most: options.tokens, unit: 'tokens', longer, measure: byTokens(options.tokenizer, options.tokens) }
    : { most: options.characters, unit: 'characters', longer, measure: byCharacters }
}

/**
 * Limits the size of messages from the environment, such as tool results, user messages and files.
 * Place it inside the template, so that longer texts are never rendered, tokenized or stored. The
 * policy's own messages are not changed. A truncated message ends with a note about the omitted
 * part, which does not count towards the limit. No character is split.
 *
 * In tokens, the text is encoded by itself, with special tokens as plain text, and cut at the start
 * of a token. For texts much longer than the limit only the beginning is counted, and the note
 * contains `at least`.
 *
 * Errors   `Left(EnvFailure)` for a longer message with `longer: 'fail'`; throws RangeError unless
 *          the limit is a natural number.
 * Cost     O(limit) for a longer message of any length; in tokens, the cost of encoding 200,000
 *          characters and 16 for each token.
 *
 * @example
 * observationLimit({ characters: 20_000 }).name // 'observationLimit'
 */
export const observationLimit = (options: ObservationLimitOptions): Transform<null, HistoryPrompt, HistoryPrompt> => {
  checkOptions('observationLimit', options, OBSERVATION_LIMIT_OPTIONS)
  const limit = limitOf(options)
  if (!Number.isSafeInteger(limit.most) || limit.most < 0) {
    throw new RangeError(`${NAME}: ${limit.unit} must be an integer of at least 0, got ${limit.most}`)
  }
  /** `firstAt` returns the first message of element `i` that is limited. */
  const apply = (td: TensorDict<HistoryPrompt>, firstAt: (i: number) => number) => {
    const results = get(td, 'history', 'prompt').items.toArray()
    const histories: History[] = []
    for (const [i, history] of results.entries()) {
      const result = limited(history, firstAt(i), limit)
      if (E.isLeft(result)) return TE.left(result.left)
      histories.push(result.right)
    }
    return TE.right([TensorDict({ history: { prompt: data(histories) } }, td.batchShape), null] as const)
  }
  return transform<null, HistoryPrompt, HistoryPrompt>({
    name: NAME,
    initial: null,
    needs: { observation: { history: { prompt: dataSpec<History>('History') } }, action: {} },
    adds: { history: { prompt: dataSpec<History>('History') } },
    reset: (td) => apply(td, () => 0),
    step: (next, { previous }) => {
      const before = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
      return apply(next, (i) => before.get(i)!.messages.size + 1) // behind what was there, and the policy's reply
    },
  })
}
