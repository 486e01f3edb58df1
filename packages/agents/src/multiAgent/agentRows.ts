/** Splits multi-agent conversations into separate trajectories for each agent. */

import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { CollectedBatch, Outcome, TurnEntries } from 'tandem-rl'
import { trajectoryReturns } from 'tandem-rl/async'
import { endedRows } from 'tandem-rl/envs'
import { assign, type Data, data, findData, get, type TensorDict, take } from 'tandem-rl/tensordict'
import type { AgentRewards, MultiAgentState } from './multiAgentEnv.js'

/** The entries that are read. */
type AgentEntries = TurnEntries & {
  readonly agent: Data<string>
  readonly next: TensorDict<Outcome & { readonly agentRewards: Data<AgentRewards> }>
}

/** One agent's turns in a conversation. */
interface Chain {
  readonly agent: string
  /** Rows of the batch, turn by turn. */
  readonly rows: readonly number[]
  /** The agent's reward from each of its turns up to its next one. */
  readonly rewards: readonly number[]
  /** The last row of the whole conversation. */
  readonly end: number
}

/**
 * Returns the turns of an agent in a conversation, or an empty list if it has none. Rewards before
 * its first turn count toward that turn.
 */
const chainOf = (
  agent: string,
  rows: readonly number[],
  { agents, rewards }: { readonly agents: readonly string[]; readonly rewards: readonly AgentRewards[] },
): readonly Chain[] => {
  const places = rows.flatMap((row, place) => (agents[row] === agent ? [place] : []))
  if (places.length === 0) return []
  const sums = places.map((place, turn) => {
    const stretch = rows.slice(turn === 0 ? 0 : place, places[turn + 1])
    return stretch.reduce((sum, row) => sum + (rewards[row]?.[agent] ?? 0), 0)
  })
  return [{ agent, rows: places.map((place) => rows[place]!), rewards: sums, end: rows.at(-1)! }]
}

/**
 * Returns the outcomes of the chains: their own rewards, and the end of the conversation at the
 * last turn.
 */
const outcomesOf = (batch: TensorDict<AgentEntries>, chains: readonly Chain[]): Outcome => {
  const next = get(batch, 'next')
  const flag = (key: 'terminated' | 'truncated' | 'done'): tf.Tensor => {
    const ended = endedRows(next, key)
    return tf.tensor1d(
      chains.flatMap(({ rows, end }) => rows.map((_, turn) => turn === rows.length - 1 && ended[end] === true)),
      'bool',
    )
  }
  const reward = tf.tensor1d(
    chains.flatMap(({ rewards }) => rewards),
    'float32',
  )
  return { reward, terminated: flag('terminated'), truncated: flag('truncated'), done: flag('done') }
}

/**
 * Extracts the rows of the named agents, with each agent's turns of a conversation as a separate
 * trajectory, for training the policy of these agents.
 *
 * `next.reward` of a turn is the agent's reward from that turn up to its next one, so a trajectory
 * sums to the agent's total reward. `next.done` is true at its last turn. Groups are formed by task
 * and agent, so each agent is compared only with itself. Agents that are not named, such as fixed
 * opponents, are left out. An agent without turns in a conversation has no trajectory of it.
 *
 * Shapes   `[B]` to `[B']`, one row per turn of the agents, ordered by agent, conversation and
 *          turn.
 * Errors   throws RangeError if no agent is named or the batch has no rows of a named agent.
 * Effects  makes tensors that belong to the enclosing scope.
 * Source   none in TorchRL; PettingZoo's `AECEnv` sums rewards between turns in the same way.
 */
export const agentRows = <O extends Pick<MultiAgentState, 'agent' | 'agentRewards'>>(
  batch: CollectedBatch<O>,
  agents: readonly string[],
): CollectedBatch<O> => {
  const td = batch as TensorDict as TensorDict<AgentEntries> // O has the agents, the collector adds the rest
  const written = get(td, 'agent').items.toArray()
  const absent = agents.filter((agent) => !written.includes(agent))
  if (absent.length > 0 || agents.length === 0) {
    const found = [...new Set(written)].join(', ')
    throw new RangeError(
      `agentRows: no rows of ${absent.length === 0 ? 'no agent' : absent.join(', ')}; there are those of ${found}`,
    )
  }
  const turns = { agents: written, rewards: get(td, 'next', 'agentRewards').items.toArray() }
  const reported = trajectoryReturns(td).map(({ rows }) => rows)
  const ids = get(td, 'trajectoryId').items
  const chains = [...new Set(agents)].flatMap((agent) => reported.flatMap((rows) => chainOf(agent, rows, turns)))
  const rows = chains.flatMap((chain) => chain.rows)
  const groups = findData<string>(td, 'groupId')
  return scope(() => {
    const taken = take(td as TensorDict, rows)
    const entries = {
      trajectoryId: data(chains.flatMap((chain) => chain.rows.map((row) => `${ids.get(row)}/${chain.agent}`))),
      turn: data(chains.flatMap((chain) => [...chain.rows.keys()])),
      ...(groups !== undefined && {
        groupId: data(chains.flatMap((chain) => chain.rows.map((row) => `${groups[row]}/${chain.agent}`))),
      }),
      next: outcomesOf(td, chains),
    }
    return assign(taken, entries) as unknown as CollectedBatch<O> // the same entries
  })
}
