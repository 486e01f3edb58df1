/** Conversations of other programs as turns: each message of the model is one. */
import type { Reply, TurnCall, ViewedTurn } from './viewedTurn.js'

/** A message of a conversation. */
export interface ForeignMessage extends Reply {
  readonly toolCalls?: readonly TurnCall[]
  /** Recorded numbers and texts of the message's turn. */
  readonly turn?: Partial<ViewedTurn>
}

/** Fields of all turns of a conversation. Only the last turn has the reward and its parts. */
export type SharedFields = Pick<
  ViewedTurn,
  'step' | 'trajectoryId' | 'groupId' | 'answer' | 'reward' | 'parts' | 'policyVersion' | 'failed'
> &
  Pick<ViewedTurn, 'agents'>

const isModel = ({ role }: ForeignMessage): boolean => role === 'assistant'

const replyOf = ({ role, text, isError }: ForeignMessage): Reply => ({
  role,
  text,
  ...(isError === true && { isError }),
})

/** Counts the calls of a turn that failed, by their results. */
const errorsIn = (replies: readonly ForeignMessage[]): number =>
  replies.filter(({ isError }) => isError === true).length

/**
 * Converts a conversation. Messages before the first of the model are its context: the last of the
 * user is the task.
 */
export const turnsOfMessages = (
  messages: readonly ForeignMessage[],
  { reward, parts = {}, ...shared }: SharedFields,
): readonly ViewedTurn[] => {
  const starts = [...messages.keys()].filter((i) => isModel(messages[i]!))
  const before = messages.slice(0, starts[0] ?? messages.length)
  const task = before.findLastIndex(({ role }) => role === 'user')
  const context = before.filter((_, i) => i !== task).map(replyOf)
  const own = starts.length > 0 ? starts : [messages.length] // a rollout without a completion has an empty turn
  return own.map((start, turn): ViewedTurn => {
    const message = messages[start]
    const replies = messages.slice(start + 1, starts[turn + 1] ?? messages.length)
    const calls = message?.toolCalls ?? []
    const text = message?.text ?? ''
    const isLast = turn === own.length - 1
    return {
      ...shared,
      turn,
      query: before[task]?.text ?? '',
      tokens: [text],
      length: text.length,
      logProbs: null,
      ...(turn === 0 && context.length > 0 && { context }),
      ...(calls.length > 0 && { toolCalls: calls, toolUse: { calls: calls.length, errors: errorsIn(replies) } }),
      ...(replies.length > 0 && { replies: replies.map(replyOf) }),
      reward: isLast ? reward : 0,
      parts: isLast ? parts : {},
      advantage: null,
      stopReason: null,
      ...message?.turn,
    }
  })
}
