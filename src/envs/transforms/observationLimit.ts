import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { ContentPart, History, Message } from '../../data/history.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { data } from '../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../env.js'
import { type Transform, transform } from './transform.js'

const NAME = 'ObservationLimit'

export interface ObservationLimitOptions {
  /** UTF-16 units of text that a message may have. */
  readonly characters: number
  /** What becomes of a longer one. Default `truncate`. */
  readonly longer?: 'truncate' | 'fail'
}

/** The first characters of a text as a text of its own: a slice would keep the whole one in memory. */
const beginningOf = (text: string, characters: number): string => {
  const last = text.charCodeAt(characters - 1)
  const isSplit = last >= 0xd800 && last < 0xdc00 // the first half of a pair
  return Array.from(text.slice(0, isSplit ? characters - 1 : characters)).join('')
}

const lengthOf = ({ content }: Message): number =>
  content.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0)

/** A message with the first characters of its text, and a note of how many are left out. */
const truncated = (long: Message, characters: number): Message => {
  const total = lengthOf(long)
  let left = characters
  const parts = long.content.flatMap((part): readonly ContentPart[] => {
    if (part.type !== 'text') return [part]
    const kept = part.text.length <= left ? part.text : beginningOf(part.text, left)
    left -= Math.min(left, part.text.length)
    return kept === '' ? [] : [{ type: 'text', text: kept }]
  })
  const note = { type: 'text', text: `\n[${total - characters} more characters]` } as const
  return { ...long, content: [...parts, note] }
}

/** A conversation whose messages from `first` on are within the limit. */
const limited = (
  history: History,
  first: number,
  { characters, longer = 'truncate' }: ObservationLimitOptions,
): E.Either<EnvFailure, History> => {
  const isLong = (each: Message, i: number): boolean => i >= first && lengthOf(each) > characters
  const at = history.messages.findIndex(isLong)
  if (at < 0) return E.right(history)
  if (longer === 'fail') {
    const long = history.messages.get(at)!
    return E.left(
      envFailure(NAME, `message ${at} (${long.role}) has ${lengthOf(long)} characters, more than ${characters}`),
    )
  }
  const messages = history.messages.map((each, i) => (isLong(each, i) ? truncated(each, characters) : each))
  return E.right({ ...history, messages })
}

/**
 * Bounds what the environment says: texts of tools, users and files that may have any size. Put it below the template, so that nothing that is
 * longer is rendered, tokenized or kept. What the policy wrote is never changed.
 *
 * Errors   `Left(EnvFailure)` for a longer message with `longer: 'fail'`; throws RangeError unless `characters` is a natural number.
 * Cost     O(characters) for a message that is longer, whatever its length.
 *
 * @example
 * ObservationLimit({ characters: 20_000 }).name // 'ObservationLimit'
 */
export const ObservationLimit = (options: ObservationLimitOptions): Transform<null, HistoryPrompt, HistoryPrompt> => {
  const { characters } = options
  if (!Number.isSafeInteger(characters) || characters < 0) {
    throw new RangeError(`${NAME}: characters must be an integer of at least 0, got ${characters}`)
  }
  /** `firstAt` is the first message of element `i` that is looked at. */
  const apply = (td: TensorDict<HistoryPrompt>, firstAt: (i: number) => number) => {
    const results = get(td, 'history', 'prompt').items.toArray()
    const histories: History[] = []
    for (const [i, history] of results.entries()) {
      const result = limited(history, firstAt(i), options)
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
