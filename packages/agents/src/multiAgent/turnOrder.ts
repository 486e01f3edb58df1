/** Turn orders: pure functions from a conversation to the agent that writes next. */
import { checkOptions } from '@tandem-rl/base'
import { type Message, textOf, withoutThoughts } from '@tandem-rl/text'
import { BY_MENTION_OPTIONS, ROUND_ROBIN_OPTIONS, SIMULTANEOUS_OPTIONS } from '../optionKinds.js'

/** A message of an agent, and the turns that it had seen. */
export interface AgentTurn {
  readonly agent: string
  readonly message: Message
  /** Number of first turns that the agent had seen, in addition to its own. */
  readonly saw: number
}

/**
 * The agent whose turn it is, and the number of first turns that it sees in addition to its own.
 * The number never decreases for an agent.
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
  /** Number of turns of each agent before the conversation ends. Default: no end. */
  readonly rounds?: number
}

const requireRounds = (name: string, { rounds }: RoundsOptions): number => {
  if (rounds !== undefined && (!Number.isInteger(rounds) || rounds < 1)) {
    throw new RangeError(`${name}: rounds must be at least 1, got ${rounds}`)
  }
  return rounds ?? Number.POSITIVE_INFINITY
}

/**
 * Makes an order in which the agents write one after another and see all earlier turns.
 *
 * Errors   throws RangeError unless `rounds` is at least 1.
 *
 * @example
 * roundRobin()([], ['ann', 'bob'], '') // { agent: 'ann', sees: 0 }
 */
export const roundRobin = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('roundRobin', options, ROUND_ROBIN_OPTIONS)
  const rounds = requireRounds('roundRobin', options)
  return (turns, agents) =>
    turns.length >= rounds * agents.length
      ? 'end'
      : { agent: agents[turns.length % agents.length]!, sees: turns.length }
}

/**
 * Makes an order in which the agents of a round do not see each other's messages of that round. The
 * turns of a round are still taken one after another.
 *
 * Errors   throws RangeError unless `rounds` is at least 1.
 *
 * @example
 * simultaneous()([{ agent: 'ann', message: message('assistant', 'rock'), saw: 0 }], ['ann', 'bob'], '') // { agent: 'bob', sees: 0 }
 */
export const simultaneous = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('simultaneous', options, SIMULTANEOUS_OPTIONS)
  const rounds = requireRounds('simultaneous', options)
  return (turns, agents) => {
    const place = turns.length % agents.length
    return turns.length >= rounds * agents.length ? 'end' : { agent: agents[place]!, sees: turns.length - place }
  }
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}_]/u.test(character)

/** Returns the position of the first mention of a name, as in `@ann`, or -1. */
const mentionOf = (text: string, name: string): number => {
  const mention = `@${name}`
  for (let at = text.indexOf(mention); at !== -1; at = text.indexOf(mention, at + 1)) {
    // A longer name with the same beginning is a different name. Half of a surrogate pair is not a
    // word character.
    if (!isWordCharacter(text[at + mention.length])) return at
  }
  return -1
}

/**
 * Makes an order in which the first agent mentioned in the last message writes next, as in `@ann`.
 * Without a mention of another agent, the next one in the list writes. The first agent starts, and
 * all agents see all earlier turns.
 *
 * Errors   throws RangeError unless `rounds` is at least 1. The conversation ends after as many
 *          turns as that number of rounds has.
 * Cost     linear in the last message, for each agent.
 *
 * @example
 * byMention()([{ agent: 'ann', message: message('assistant', 'Ask @cat.'), saw: 0 }], ['ann', 'bob', 'cat'], '') // { agent: 'cat', sees: 1 }
 */
export const byMention = (options: RoundsOptions = {}): TurnOrder => {
  checkOptions('byMention', options, BY_MENTION_OPTIONS)
  const rounds = requireRounds('byMention', options)
  return (turns, agents) => {
    const last = turns.at(-1)
    if (turns.length >= rounds * agents.length) return 'end'
    if (last === undefined) return { agent: agents[0]!, sees: 0 }
    const text = withoutThoughts(textOf(last.message))
    const mentioned = agents
      .filter((agent) => agent !== last.agent)
      .map((agent) => ({ agent, at: mentionOf(text, agent) }))
      .filter(({ at }) => at !== -1)
      .toSorted((a, b) => a.at - b.at)
    const after = agents[(agents.indexOf(last.agent) + 1) % agents.length]!
    return { agent: mentioned[0]?.agent ?? after, sees: turns.length }
  }
}
