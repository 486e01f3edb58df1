import { checkOptions } from '@tandem-rl/base'
import { appendMessage, type History, lastMessage, type Message, message, replaceLast } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type HistoryAction, type HistoryPrompt, type Transform, transform } from 'tandem-rl'
import { endedRows, type SegmentEntries } from 'tandem-rl/envs'
import { data, dataSpec, get, TensorDict } from 'tandem-rl/tensordict'
import { CONTEXT_FOLDING_OPTIONS } from '../optionKinds.js'
import { callsOfMessage, type RequestedCalls } from './requestedCalls.js'

export interface FoldingOptions {
  /** The tool whose call folds the conversation. Default `summarize`. */
  readonly tool?: string
  /** The argument of the call with the summary. Default `summary`. */
  readonly argument?: string
  /** Text appended to the last message after `triggerTurns` turns. Default: empty. */
  readonly notice?: string
  /** Number of turns of a segment before the notice is shown. Default: it is never shown. */
  readonly triggerTurns?: number
}

export interface ContextFoldingOptions extends FoldingOptions {
  /** Finds the calls of a reply. Default: those in `toolCalls`. */
  readonly read?: (reply: Message) => RequestedCalls
}

/** Returns the messages before the first reply, followed by the summary. */
const folded = (history: History, summary: string): History => {
  const reply = history.messages.findIndex(({ role }) => role === 'assistant')
  const head: History = { ...history, messages: history.messages.take(reply < 0 ? history.messages.size : reply) }
  return appendMessage(head, message('user', `Summary of the conversation so far:\n${summary}`))
}

const withNotice = (history: History, notice: string): History => {
  const last = lastMessage(history)
  return last === undefined
    ? history
    : replaceLast(history, { ...last, content: [...last.content, { type: 'text', text: notice }] })
}

/**
 * Folds the context of long conversations. A call of the summarizing tool replaces everything after
 * the question with its summary and starts a new segment. Each turn keeps the tokens of its own
 * prompt, so that the turns before a summary are trained on as they were sampled. `segmentRows`
 * divides the reward among the segments.
 *
 * Place it outside the tools, which also run the call, and inside `TemplateTransform`. A call that
 * ends the episode does not fold the conversation.
 *
 * Errors   throws RangeError unless `triggerTurns` is an integer of at least 1.
 * Source   AgentFly's context folding, which keeps the first reply as well.
 *
 * @example
 * contextFolding({ triggerTurns: 8, notice: ' Summarize now.' }).name // 'contextFolding'
 */
export const contextFolding = (options: ContextFoldingOptions = {}): Transform<null, HistoryPrompt, SegmentEntries> => {
  checkOptions('contextFolding', options, CONTEXT_FOLDING_OPTIONS)
  const { tool = 'summarize', argument = 'summary', notice = '', triggerTurns } = options
  const { read = (reply) => callsOfMessage(reply, undefined) } = options
  if (triggerTurns !== undefined && (!Number.isInteger(triggerTurns) || triggerTurns < 1))
    throw new RangeError(`contextFolding: triggerTurns must be an integer of at least 1, got ${triggerTurns}`)
  const entriesOf = (
    rows: readonly { readonly history: History; readonly segment: number; readonly turns: number }[],
  ): TensorDict<SegmentEntries> =>
    TensorDict(
      {
        history: { prompt: data(rows.map(({ history }) => history)) },
        segment: data(rows.map(({ segment }) => segment)),
        segmentTurns: data(rows.map(({ turns }) => turns)),
      },
      [rows.length],
    )
  const summaryOf = (reply: Message): string | undefined => {
    const summary = read(reply).calls.find(({ name }) => name === tool)?.arguments[argument]
    return typeof summary === 'string' ? summary : undefined
  }
  return transform<null, HistoryPrompt, SegmentEntries>({
    name: 'contextFolding',
    initial: null,
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    adds: {
      history: { prompt: dataSpec<History>('History') },
      segment: dataSpec<number>('number'),
      segmentTurns: dataSpec<number>('number'),
    },
    reset: (td) => {
      const histories = get(td, 'history', 'prompt').items.toArray()
      return TE.right([entriesOf(histories.map((history) => ({ history, segment: 0, turns: 0 }))), null])
    },
    step: (next, { previous, action }) => {
      const before = previous as TensorDict<SegmentEntries> // added by `reset` or the previous step
      const [segments, turnsBefore] = [get(before, 'segment').items, get(before, 'segmentTurns').items]
      const replies = get(action as TensorDict<HistoryAction>, 'history', 'response').items // cast: `needs` requires this entry
      const over = endedRows(next, 'done')
      const rows = get(next, 'history', 'prompt')
        .items.toArray()
        .map((history, i) => {
          const [segment, turns] = [segments.get(i)!, turnsBefore.get(i)! + 1]
          if (over[i] === true) return { history, segment, turns }
          const summary = summaryOf(replies.get(i)!)
          if (summary !== undefined) return { history: folded(history, summary), segment: segment + 1, turns: 0 }
          return { history: turns === triggerTurns ? withNotice(history, notice) : history, segment, turns }
        })
      return TE.right([entriesOf(rows), null])
    },
  })
}
