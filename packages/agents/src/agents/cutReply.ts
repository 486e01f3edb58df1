import { answerRanges, type History, type Message, THINK_TAGS, type ThoughtTags, textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type HistoryAction, type HistoryPrompt, type Transform, transform } from 'tandem-rl'
import type { KeptEntries } from 'tandem-rl/envs'
import { type Data, data, dataSpec, get, TensorDict } from 'tandem-rl/tensordict'

/**
 * The action with its messages as they are kept, and the kept length of each; `null` if it is
 * whole.
 */
type CutAction = HistoryAction & { readonly keptReply: Data<number | null> }

/** The end of the first of these texts outside of thoughts, or `undefined` without one. */
const endOfFirst = (text: string, { after, thoughts = THINK_TAGS }: CutReplyOptions): number | undefined => {
  const ranges = thoughts === 'searched' ? [[0, text.length] as const] : answerRanges(text, thoughts)
  const ends = ranges.flatMap(([start, end]) =>
    after.flatMap((mark) => {
      const at = text.slice(start, end).indexOf(mark)
      return at < 0 ? [] : [start + at + mark.length]
    }),
  )
  return ends.length === 0 ? undefined : Math.min(...ends)
}

export interface CutReplyOptions {
  readonly after: readonly string[]
  /** As of `SimpleToolTransform`. */
  readonly thoughts?: ThoughtTags | 'searched'
}

const cutAt = (reply: Message, length: number): Message => ({
  ...reply,
  content: [{ type: 'text', text: textOf(reply).slice(0, length) }],
  isComplete: true,
})

/**
 * Cuts each reply of the policy behind the first of the given texts outside of its thoughts, such
 * as `</search>`. Tools, rewards and the following turns see the kept part. The row of the turn
 * keeps all sampled tokens. Place it directly around the environment, inside of tools and of
 * `TemplateTransform`.
 *
 * Errors   throws RangeError without texts, or for an empty one.
 *
 * @example
 * cutReply({ after: ['</search>', '</answer>'] }).name // 'cutReply'
 */
export const cutReply = (
  options: CutReplyOptions,
): Transform<null, HistoryPrompt, KeptEntries, CutAction, HistoryAction> => {
  const { after } = options
  if (after.length === 0 || after.includes(''))
    throw new RangeError(`cutReply: after must be texts, got ${JSON.stringify(after)}`)
  return transform<null, HistoryPrompt, KeptEntries, CutAction, HistoryAction>({
    name: 'cutReply',
    initial: null,
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    adds: { history: { kept: dataSpec<number | null>('number | null') } },
    reset: (td) => {
      const kept = data(Array.from({ length: td.batchShape[0] ?? 0 }, () => null))
      return TE.right([TensorDict({ history: { kept } }, td.batchShape), null])
    },
    step: (next, { action }) => {
      const kept = get(action as TensorDict<CutAction>, 'keptReply') // added by `inverse`
      return TE.right([TensorDict({ history: { kept } }, next.batchShape), null])
    },
    inverse: (action) => {
      const rows = get(action, 'history', 'response').items.map((reply) => {
        const text = textOf(reply)
        const end = endOfFirst(text, options)
        if (end === undefined) return { reply, kept: null }
        if (end === text.length) return { reply: { ...reply, isComplete: true }, kept: null }
        return { reply: cutAt(reply, end), kept: end }
      })
      const entries = {
        history: { response: data(rows.map(({ reply }) => reply)) },
        keptReply: data(rows.map(({ kept }) => kept)),
      }
      return E.right(TensorDict(entries, action.batchShape))
    },
  })
}
