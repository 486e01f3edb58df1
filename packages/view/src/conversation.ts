/** The texts of rollouts: conversations with their tokens, and the search in them. */
import type { TrajectoryRecord } from 'tandem-rl/run'
import type { Reply, ViewedTurn } from './foreign/viewedTurn.js'
import type { RolloutRow, TokenRow, TurnRow } from './protocol.js'
import { hasFailed } from './rowNumbers.js'

const SNIPPET = 160

const textOf = ({ tokens }: TrajectoryRecord): string => tokens.join('')

/** Returns the texts of a row, from the turns of its rollout. */
export const snippetsOf = (turns: readonly TrajectoryRecord[]): Pick<RolloutRow, 'query' | 'snippet'> => {
  const [first, last] = [turns[0], turns.at(-1)]
  return {
    query: first?.query.slice(0, SNIPPET) ?? '',
    snippet: last === undefined ? '' : textOf(last).slice(0, SNIPPET),
  }
}

/** Checks if a turn has a text, without regard to case. `wanted` is in lower case. */
export const turnHas = (turn: TrajectoryRecord, wanted: string): boolean => {
  const texts = [textOf(turn), turn.query, ...(turn.replies ?? []).map(({ text }) => text)]
  const calls = (turn.toolCalls ?? []).map((call) => `${call.name} ${call.arguments}`)
  return [...texts, ...calls].some((text) => text.toLowerCase().includes(wanted))
}

const tokensOf = (record: ViewedTurn): readonly TokenRow[] => {
  const { tokens, ids, logProbs, advantage, policyVersion, trainerLogProbs, entropies, ratios } = record
  const trainer = trainerLogProbs === 'equal' ? logProbs : trainerLogProbs
  const clipped = new Set(record.clipped)
  return tokens.map((text, i) => {
    const own = typeof advantage === 'number' ? advantage : advantage?.[i]
    return {
      text,
      ...(ids?.[i] !== undefined && { id: ids[i] }),
      ...(logProbs?.[i] !== undefined && { logProb: logProbs[i] }),
      ...(trainer?.[i] !== undefined && { trainerLogProb: trainer[i] }),
      ...(entropies?.[i] !== undefined && {
        entropy: entropies[i],
        ratio: ratios?.[i] ?? 1,
        clipped: clipped.has(i),
      }),
      ...(own !== undefined && { advantage: own }),
      mask: !hasFailed(record),
      ...(policyVersion !== null && { version: policyVersion }),
    }
  })
}

const AUTHORS: Readonly<Record<string, TurnRow['author']>> = { assistant: 'model', system: 'system', tool: 'tool' }

/** Returns a message of the environment as a turn. Other roles than those above are users. */
const replyTurn = ({ role, text, isError }: Reply): TurnRow => ({
  author: Object.hasOwn(AUTHORS, role) ? AUTHORS[role]! : 'user',
  text,
  toolCalls: [],
  ...(isError === true && { isError }),
})

/** Returns the conversation of a rollout: its task, then the turns and the replies to them. */
export const conversationOf = (turns: readonly ViewedTurn[]): readonly TurnRow[] => [
  ...(turns[0]?.context ?? []).map(replyTurn),
  { author: 'user', text: turns[0]?.query ?? '', toolCalls: [] },
  ...turns.flatMap((turn): readonly TurnRow[] => [
    {
      author: 'model',
      text: textOf(turn),
      toolCalls: turn.toolCalls ?? [],
      tokens: tokensOf(turn),
      reward: turn.reward,
      ...(turn.stopReason !== null && { stopReason: turn.stopReason }),
    },
    ...(turn.replies ?? []).map(replyTurn),
  ]),
]
