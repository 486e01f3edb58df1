/** A conversation of several agents as one of them reads it. */
import { type ContentPart, History, type Message, message } from '../../text/history/history.js'
import type { AgentTurn } from './turnOrder.js'

/** What a view is made of. */
export interface AgentScene {
  /** What the conversation is about; everyone reads it first. */
  readonly query: string
  readonly turns: readonly AgentTurn[]
  /** The agent that reads. */
  readonly agent: string
  /** How many of the first turns it sees besides its own. */
  readonly sees: number
  /** What only this agent is told, as its system message. */
  readonly systemPrompt?: string
}

/**
 * Messages of others between two of the reader's own: one message for all of them, or one for each.
 */
export type OthersAs = 'merged' | 'separate'

/**
 * What an author says to others: the text, with the name before it. Thoughts and calls of tools are
 * its own affair.
 */
const told = ({ agent, message: said }: AgentTurn): readonly ContentPart[] => {
  const [first, ...rest] = said.content
  return first?.type === 'text'
    ? [{ type: 'text', text: `${agent}: ${first.text}` }, ...rest]
    : [{ type: 'text', text: `${agent}: ` }, ...said.content]
}

/** Several contents as one: texts that meet become one text, an empty line between two authors. */
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
 * The turns in the order in which the reader came to know them: behind each of its own what it had
 * not seen then. So that what it has read never changes, whatever others write at the same time.
 */
const known = ({ turns, agent, sees }: AgentScene): readonly AgentTurn[] => {
  const own = turns.flatMap((turn, i) => (turn.agent === agent ? [{ turn, saw: turn.saw, at: i }] : []))
  const others = (from: number, to: number): readonly AgentTurn[] =>
    turns.slice(from, Math.max(from, to)).filter((turn) => turn.agent !== agent)
  const before = own.flatMap(({ turn, saw }, i) => [...others(own[i - 1]?.saw ?? 0, saw), turn])
  return [...before, ...others(own.at(-1)?.saw ?? 0, sees)]
}

/**
 * A conversation as one agent reads it: its own messages are the assistant's, those of others a
 * user's, with their names before the text.
 *
 * What an agent has read stays: its next view begins with its view before and what it wrote. Names
 * in texts are what their authors write: who could pretend to be another inside of a message should
 * be shown `separate`, one message for each author.
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
    } else if (others === 'merged') heard = [...heard, told(turn)]
    else {
      flush()
      messages.push(message('user', told(turn), { name: turn.agent }))
    }
  }
  flush()
  return History(messages)
}
