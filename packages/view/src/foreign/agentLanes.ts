/** Lanes of the agents of an episode, from times or from the order of turns. */
import type { AgentLane, EpisodeAgents } from './viewedTurn.js'

/** Characters of a turn that its lane shows. */
const SHOWN = 120

/** A turn of an agent, with its times on any clock in seconds. */
interface TimedTurn {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** An agent and its turns. */
export interface TimedAgent extends Omit<AgentLane, 'turns'> {
  readonly turns: readonly TimedTurn[]
}

/** Replaces times by positions: the turns of all lanes in the order of their ends. */
const counted = (agents: readonly TimedAgent[]): readonly TimedAgent[] => {
  const ordered = agents.flatMap(({ turns }) => turns).toSorted((a, b) => a.end - b.end)
  const place = new Map(ordered.map((turn, i) => [turn, i]))
  return agents.map((agent) => ({
    ...agent,
    turns: agent.turns.map((turn) => ({ text: turn.text, start: place.get(turn)!, end: place.get(turn)! + 1 })),
  }))
}

/** Removes parents that would make a circle, in the order of the lanes. */
const withoutCircles = (agents: readonly TimedAgent[]): readonly TimedAgent[] => {
  const parents = agents.map(({ parent }) => parent)
  return agents.map((agent, i) => {
    let at: number | null | undefined = parents[i]
    for (let steps = 0; at !== null && at !== undefined && at !== i && steps <= agents.length; steps++) at = parents[at]
    if (at === null) return agent
    parents[i] = null
    return { ...agent, parent: null, link: null }
  })
}

/**
 * Makes the lanes of an episode. Turns whose times are all equal are counted. Returns `null` if
 * fewer than two agents have a turn.
 */
export const episodeAgents = (agents: readonly TimedAgent[]): EpisodeAgents | null => {
  if (agents.filter(({ turns }) => turns.length > 0).length < 2) return null
  const times = agents.flatMap(({ turns }) => turns.flatMap(({ start, end }) => [start, end]))
  const [first, last] = [Math.min(...times), Math.max(...times)]
  const unit = last > first ? 'seconds' : 'turns'
  const placed = withoutCircles(unit === 'turns' ? counted(agents) : agents)
  const from = unit === 'turns' ? 0 : first
  return {
    unit,
    lanes: placed.map(({ turns, ...lane }) => ({
      ...lane,
      turns: turns.map(({ start, end, text }) => ({
        start: start - from,
        end: end - from,
        text: text.replaceAll(/\s+/g, ' ').slice(0, SHOWN),
      })),
    })),
  }
}
