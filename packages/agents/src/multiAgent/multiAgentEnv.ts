/** Environments in which several agents take turns. */

import { checkOptions } from '@tandem-rl/base'
import type { History, Message } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type ChatState, type Env, envFailure, type HistoryAction } from 'tandem-rl'
import { endedRows, makeEnv } from 'tandem-rl/envs'
import { type Data, type DeepMerge, data, dataSpec, findData, get, TensorDict } from 'tandem-rl/tensordict'
import { MULTI_AGENT_ENV_OPTIONS } from '../optionKinds.js'
import { type AgentScene, agentView } from './agentView.js'
import { type AgentTurn, roundRobin, type TurnOrder } from './turnOrder.js'

/** The reward of each agent in a step. */
export type AgentRewards = Readonly<Record<string, number>>

/** The states of a `MultiAgentEnv`. `history.prompt` is the conversation in the view of `agent`. */
export type MultiAgentState = DeepMerge<
  ChatState,
  {
    /** The agent whose turn it is; after the end, the agent that wrote last. */
    readonly agent: Data<string>
    readonly turns: Data<readonly AgentTurn[]>
    /** The rewards of the last step, for every agent, including those whose turn it was not. */
    readonly agentRewards: Data<AgentRewards>
  }
>

/** One of several agents. */
export interface AgentRole {
  /** The name that other agents read, and the value of `agent` in the rows of its turns. */
  readonly name: string
  /** A system message for this agent only. A function computes it from the conversation's query. */
  readonly systemPrompt?: string | ((query: string) => string)
}

/** A conversation as `judge` receives it. */
export interface Discussion {
  readonly query: string
  readonly agents: readonly string[]
  /** All turns; the last one is new. */
  readonly turns: readonly AgentTurn[]
}

/** The rewards of a turn, and whether it ends the conversation. Agents without an entry get 0. */
export interface Verdict {
  readonly rewards?: AgentRewards
  readonly end?: 'terminated' | 'truncated'
}

export interface MultiAgentEnvOptions {
  readonly batchSize: number
  readonly agents: readonly AgentRole[]
  /**
   * The order of turns. Default `roundRobin()`, which never ends: wrap the environment in a
   * `StepCounter`, or end it in `judge`.
   */
  readonly order?: TurnOrder
  /** Rates the conversation after each turn. Pure. Default: no rewards, no end. */
  readonly judge?: (discussion: Discussion) => Verdict
  /**
   * Returns the conversation in an agent's view. The next view of an agent must begin with its
   * previous view and its reply. Default `agentView`. Games with hidden information have their own
   * views, and `(scene) => agentView(scene, 'separate')` has one message for each author.
   */
  readonly view?: (scene: AgentScene) => History
}

const NAME = 'MultiAgentEnv'

const checkAgents = (agents: readonly AgentRole[]): readonly string[] => {
  const names = agents.map(({ name }) => name)
  const twice = names.filter((name, i) => names.indexOf(name) !== i)
  const problems = [
    ...(names.length === 0 ? ['agents is empty'] : []),
    ...(names.includes('') ? ['an agent has no name'] : []),
    ...[...new Set(twice)].map((name) => `two agents are named '${name}'`),
  ]
  if (problems.length > 0) throw new RangeError(`${NAME}: ${problems.join('; ')}`)
  return names
}

const checkRewards = (rewards: AgentRewards, agents: readonly string[]): void => {
  const problems = Object.entries(rewards).flatMap(([name, reward]) => [
    ...(agents.includes(name) ? [] : [`'${name}' is not one of the agents ${agents.join(', ')}`]),
    ...(Number.isFinite(reward) ? [] : [`the reward of '${name}' is ${reward}`]),
  ])
  if (problems.length > 0) throw new RangeError(`${NAME}: judge: ${problems.join('; ')}`)
}

/** One conversation and the agent whose turn it is. */
interface Place {
  readonly query: string
  readonly turns: readonly AgentTurn[]
  readonly agent: string
  readonly sees: number
}

/** The result of a turn in one conversation. */
interface Moved {
  readonly place: Place
  readonly rewards: AgentRewards
  /** The reward of the agent that wrote. */
  readonly reward: number
  readonly end?: Verdict['end']
}

/** Returns the queries of a request; undefined unless there is one for each element. */
const queriesOf = (request: TensorDict, batchSize: number): readonly string[] | undefined => {
  const queries = findData<unknown>(request, 'query')
  return queries?.length === batchSize && queries.every((query) => typeof query === 'string') ? queries : undefined
}

const placesOf = (
  state: TensorDict<MultiAgentState>,
  order: TurnOrder,
  agents: readonly string[],
): readonly Place[] => {
  const [queries, turns, current] = [get(state, 'query').items, get(state, 'turns').items, get(state, 'agent').items]
  return queries.toArray().map((query, i) => {
    const past = turns.get(i)! // one for each element
    const next = order(past, agents, query)
    const agent = current.get(i)! // one for each element
    return { query, turns: past, agent, sees: next === 'end' ? past.length : next.sees }
  })
}

/**
 * A conversation of several agents that take turns. Each agent reads its own view, in which its
 * messages are the assistant's and all others are a user's. The next agent is a pure function of
 * the conversation and is stored in `agent`; `agentPolicy` calls the policy of that agent.
 *
 * `reset` requires `query` in its request, which all agents read first. `step` takes the message of
 * the agent whose turn it is, calls `judge`, and returns the view of the next agent. `agentRewards`
 * contains the rewards of all agents in the step; `reward` is that of the agent that wrote.
 * `agentRows` sums up the rewards of each agent. Wrapped around this environment, `agentTemplate`
 * keeps the tokens of each agent.
 *
 * Shapes   all entries `[B]`.
 * Errors   `Left(EnvFailure)` from `reset` if the request has no `query` of strings. Throws
 *          RangeError for a batch size below 1, for agents with empty or duplicate names, and for
 *          rewards of unknown agents or rewards that are not finite.
 * Effects  none: a conversation can be replayed, forked and stored.
 *
 * @example
 * MultiAgentEnv({ batchSize: 1, agents: [{ name: 'ann' }, { name: 'bob' }], order: simultaneous({ rounds: 1 }) }).name // 'MultiAgentEnv'
 */
export const MultiAgentEnv = (options: MultiAgentEnvOptions): Env<MultiAgentState, HistoryAction> => {
  checkOptions('MultiAgentEnv', options, MULTI_AGENT_ENV_OPTIONS)
  const { batchSize, agents, order = roundRobin(), judge = (): Verdict => ({}), view = agentView } = options
  const names = checkAgents(agents)
  const nothing: AgentRewards = Object.fromEntries(names.map((name) => [name, 0]))

  const promptOf = ({ query, turns, agent, sees }: Place): History => {
    const { systemPrompt } = agents.find(({ name }) => name === agent)!
    const reported = typeof systemPrompt === 'function' ? systemPrompt(query) : systemPrompt
    return view({ query, turns, agent, sees, ...(reported !== undefined && { systemPrompt: reported }) })
  }

  const stateOf = (places: readonly Place[], rewards: readonly AgentRewards[]): TensorDict<MultiAgentState> =>
    TensorDict(
      {
        query: data(places.map(({ query }) => query)),
        history: { prompt: data(places.map(promptOf)) },
        agent: data(places.map(({ agent }) => agent)),
        turns: data(places.map(({ turns }) => turns)),
        agentRewards: data(rewards),
      },
      [places.length],
    )

  const move = ({ query, turns: before, agent, sees }: Place, written: Message): Moved => {
    const turns = [...before, { agent, message: written, saw: sees }]
    const { rewards = {}, end } = judge({ query, agents: names, turns })
    checkRewards(rewards, names)
    const next = order(turns, names, query)
    const isOver = end !== undefined || next === 'end'
    return {
      place: { query, turns, ...(isOver ? { agent, sees: turns.length } : next) },
      rewards: { ...nothing, ...rewards },
      reward: rewards[agent] ?? 0,
      ...(isOver && { end: end ?? 'terminated' }),
    }
  }

  return makeEnv<MultiAgentState, HistoryAction>({
    name: NAME,
    batchSize,
    specs: {
      observation: {
        query: dataSpec<string>('string'),
        history: { prompt: dataSpec<History>('History') },
        agent: dataSpec<string>('string'),
        turns: dataSpec<readonly AgentTurn[]>('AgentTurn[]'),
        agentRewards: dataSpec<AgentRewards>('AgentRewards'),
      },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    reset: (request) => {
      const queries = queriesOf(request, batchSize)
      if (queries === undefined) {
        return TE.left(envFailure(NAME, `reset needs 'query', ${batchSize} strings, in its request`))
      }
      const places = queries.flatMap((query): readonly Place[] => {
        const first = order([], names, query)
        return first === 'end' ? [] : [{ query, turns: [], ...first }]
      })
      if (places.length < batchSize) return TE.left(envFailure(NAME, 'the turn order returned no first turn'))
      return TE.right(
        stateOf(
          places,
          places.map(() => nothing),
        ),
      )
    },
    step: (state, action) =>
      TE.fromIO(() => {
        const [over, written] = [endedRows(state, 'done'), get(action, 'history', 'response').items]
        const moved = placesOf(state, order, names).map(
          (place, i): Moved =>
            over[i] === true ? { place, rewards: nothing, reward: 0 } : move(place, written.get(i)!),
        )
        const next = stateOf(
          moved.map(({ place }) => place),
          moved.map(({ rewards }) => rewards),
        )
        const ends = (end: Verdict['end']) => moved.map((each) => each.end === end)
        return {
          next,
          reward: moved.map(({ reward }) => reward),
          terminated: ends('terminated'),
          truncated: ends('truncated'),
        }
      }),
  })
}
