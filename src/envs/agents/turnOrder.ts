/** Whose turn it is in a conversation of several agents, as a pure function of what was said. */
import { aNumber, checkOptions } from '../../core/options.js'
import { type Message, textOf } from '../../text/history/history.js'

/** What an agent wrote, and what it had seen when it did. */
export interface AgentTurn {
  readonly agent: string
  readonly message: Message
  /** It had seen so many of the first turns, and those of its own. */
  readonly saw: number
}

/**
 * Who is to write, and how many of the first turns it sees besides its own. Never fewer than at its
 * turn before.
 */
export interface NextTurn {
  readonly agent: string
  readonly sees: number
}

/**
 * Returns the next turn of a conversation, or its end. Pure: equal arguments give equal results.
 */
export type TurnOrder = (turns: readonly AgentTurn[], agents: readonly string[], query: string) => NextTurn | 'end'

export interface RoundsOptions {
  /** The conversation ends after so many turns of each. Default: it has no end by itself. */
  readonly rounds?: number
}

const requireRounds = (name: string, { rounds }: RoundsOptions): number => {
  if (rounds !== undefined && (!Number.isInteger(rounds) || rounds < 1)) {
    throw new RangeError(`${name}: rounds must be at least 1, got ${rounds}`)
  }
  return rounds ?? Number.POSITIVE_INFINITY
}

/**
 * One after the other, in their order; each sees all that was said.
 *
 * Errors   throws RangeError unless `rounds` is at least 1.
 *
 * @example
 * roundRobin()([], ['ann', 'bob'], '') // { agent: 'ann', sees: 0 }
 */
export const roundRobin = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('roundRobin', options, { rounds: aNumber })
  const rounds = requireRounds('roundRobin', options)
  return (turns, agents) =>
    turns.length >= rounds * agents.length
      ? 'end'
      : { agent: agents[turns.length % agents.length]!, sees: turns.length }
}

/**
 * Everyone at once: in a round, nobody sees what the others write in it. The turns of a round are
 * still taken one after the other.
 *
 * Errors   throws RangeError unless `rounds` is at least 1.
 *
 * @example
 * simultaneous()([{ agent: 'ann', message: message('assistant', 'rock'), saw: 0 }], ['ann', 'bob'], '') // { agent: 'bob', sees: 0 }
 */
export const simultaneous = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('simultaneous', options, { rounds: aNumber })
  const rounds = requireRounds('simultaneous', options)
  return (turns, agents) => {
    const place = turns.length % agents.length
    return turns.length >= rounds * agents.length ? 'end' : { agent: agents[place]!, sees: turns.length - place }
  }
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}_]/u.test(character)

/** Where a text mentions a name, as in `@ann`: the first place, or -1. */
const mentionOf = (text: string, name: string): number => {
  const mention = `@${name}`
  for (let at = text.indexOf(mention); at !== -1; at = text.indexOf(mention, at + 1)) {
    // A longer name that begins alike is another name. A half of a surrogate pair is no word
    // character.
    if (!isWordCharacter(text[at + mention.length])) return at
  }
  return -1
}

/**
 * Who is mentioned first in the last message, as in `@ann`, and is not its author; without a
 * mention, who comes after the author in the order of the agents. The first of them begins. Each
 * sees all that was said.
 *
 * Errors   throws RangeError unless `rounds` is at least 1: the end is after as many turns as that
 *          many rounds have.
 * Cost     linear in the last message for each agent.
 *
 * @example
 * byMention()([{ agent: 'ann', message: message('assistant', 'Ask @cat.'), saw: 0 }], ['ann', 'bob', 'cat'], '') // { agent: 'cat', sees: 1 }
 */
export const byMention = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('byMention', options, { rounds: aNumber })
  const rounds = requireRounds('byMention', options)
  return (turns, agents) => {
    const last = turns.at(-1)
    if (turns.length >= rounds * agents.length) return 'end'
    if (last === undefined) return { agent: agents[0]!, sees: 0 }
    const text = textOf(last.message)
    const mentioned = agents
      .filter((agent) => agent !== last.agent)
      .map((agent) => ({ agent, at: mentionOf(text, agent) }))
      .filter(({ at }) => at !== -1)
      .toSorted((a, b) => a.at - b.at)
    const after = agents[(agents.indexOf(last.agent) + 1) % agents.length]!
    return { agent: mentioned[0]?.agent ?? after, sees: turns.length }
  }
}
