/** Views of a conversation of several agents. */
import { type ContentPart, History, type Message, message } from '@tandem-rl/text'
import type { AgentTurn } from './turnOrder.js'

/** The input of a view. */
export interface AgentScene {
  /** The question or topic, which all agents read first. */
  readonly query: string
  readonly turns: readonly AgentTurn[]
  /** The agent whose view it is. */
  readonly agent: string
  /** Number of first turns that it sees, in addition to its own turns. */
  readonly sees: number
  /** The system message of this agent, which no other agent sees. */
  readonly systemPrompt?: string
}

/** Messages of others between two turns of the reader: merged into one, or one for each author. */
export type OthersAs = 'merged' | 'separate'

/**
 * Returns the content of a turn for other agents: the text with the author's name in front.
 * Thoughts and tool calls are left out.
 */
const reported = ({ agent, message: reply }: AgentTurn): readonly ContentPart[] => {
  const [first, ...rest] = reply.content
  return first?.type === 'text'
    ? [{ type: 'text', text: `${agent}: ${first.text}` }, ...rest]
    : [{ type: 'text', text: `${agent}: ` }, ...reply.content]
}

/** Joins contents. Adjacent texts are merged, with an empty line between authors. */
const joined = (contents: readonly (readonly ContentPart[])[]): readonly ContentPart[] => {
  const result: ContentPart[] = []
  for (const content of contents) {
    const [last, first] = [result.at(-1), content[0]]
    const meets = last?.type === 'text' && first?.type === 'text'
    if (meets) result[result.length - 1] = { type: 'text', text: `${last.text}\n\n${first.text}` }
    result.push(...content.slice(meets ? 1 : 0))
  }
  return result
}

/**
 * Returns the turns in the order in which the reader saw them: each of its own turns is followed by
 * the turns that it had not seen then. This way a view never changes later, whatever other agents
 * write at the same time.
 */
const known = ({ turns, agent, sees }: AgentScene): readonly AgentTurn[] => {
  const own = turns.flatMap((turn, i) => (turn.agent === agent ? [{ turn, saw: turn.saw, at: i }] : []))
  const others = (from: number, to: number): readonly AgentTurn[] =>
    turns.slice(from, Math.max(from, to)).filter((turn) => turn.agent !== agent)
  const before = own.flatMap(({ turn, saw }, i) => [...others(own[i - 1]?.saw ?? 0, saw), turn])
  return [...before, ...others(own.at(-1)?.saw ?? 0, sees)]
}

/**
 * Returns a conversation in the view of one agent: its own messages have the role `assistant`, and
 * those of others the role `user`, with their names in front of the text.
 *
 * A view only grows: the next view of an agent begins with its previous view and its reply. Authors
 * can write names inside their text. If an agent could impersonate another one this way, use
 * `separate`, with one message for each author.
 *
 * @example
 * agentView({ query: 'Agree on a number.', turns: [], agent: 'ann', sees: 0 }).messages.size // 1
 */
export const agentView = (scene: AgentScene, others: OthersAs = 'merged'): History => {
  const { query, agent, systemPrompt } = scene
  const messages: Message[] = systemPrompt === undefined ? [] : [message('system', systemPrompt)]
  let heard: readonly (readonly ContentPart[])[] = [[{ type: 'text', text: query }]]
  const flush = (): void => {
    if (heard.length > 0) messages.push(message('user', joined(heard)))
    heard = []
  }
  for (const turn of known(scene)) {
    if (turn.agent === agent) {
      flush()
      messages.push(turn.message)
    } else if (others === 'merged') heard = [...heard, reported(turn)]
    else {
      flush()
      messages.push(message('user', reported(turn), { name: turn.agent }))
    }
  }
  flush()
  return History(messages)
}
