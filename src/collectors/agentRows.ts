/** From rows of conversations of several agents to the rows of each agent by itself. */
import * as tf from '@tensorflow/tfjs'
import { type Data, data } from '../data/tensorDict/leaf.js'
import { assign } from '../data/tensorDict/merge.js'
import { take } from '../data/tensorDict/selecting.js'
import { find, get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { scope } from '../engine/scope.js'
import type { AgentRewards, MultiAgentState } from '../envs/agents/multiAgentEnv.js'
import { endedRows, type Outcome } from '../envs/env.js'
import { rowsByTrajectory } from './rollouts/identity.js'
import type { CollectedBatch, TurnEntries } from './rollouts/turnRows.js'

/** The entries that are read here. */
type AgentEntries = TurnEntries & {
  readonly agent: Data<string>
  readonly next: TensorDict<Outcome & { readonly agentRewards: Data<AgentRewards> }>
}

/** The part of a conversation that belongs to one of its agents. */
interface Chain {
  readonly agent: string
  /** Rows of the batch, turn by turn. */
  readonly rows: readonly number[]
  /** What the agent got from each of its turns until its next one. */
  readonly rewards: readonly number[]
  /** The last row of the whole conversation. */
  readonly end: number
}

/** The rows of one agent in a conversation; none if it never wrote. What it got before its first turn counts to that turn. */
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

/** The outcome of the turns of a chain: its own rewards, and the end of the conversation at its last turn. */
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

/** What names the groups of a batch: those of tasks, and none where the environment has none. */
const groupIdsOf = (batch: TensorDict): readonly string[] | undefined => {
  const entry = find(batch, ['groupId'])
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data'
    ? (entry as Data<string>).items.toArray() // a group id is text wherever one is written
    : undefined
}

/**
 * The rows of some agents, each agent's turns of a conversation as a trajectory of its own: to be learned by the policy of these agents, and by no
 * other.
 *
 * `next.reward` of a turn is what its agent got from then until its next turn, so that the sum over a trajectory is all that the agent got;
 * `next.done` is true at its last turn. A trajectory's group is that of its task and its agent: agents are compared with themselves. Agents
 * whose tokens are not to be learned, such as fixed opponents, are left out by not naming them. An agent that never wrote in a conversation has
 * no trajectory of it.
 *
 * Shapes   `[B]` to `[B']`, as many rows as the agents have turns; in the order of agents, conversations and turns.
 * Errors   throws RangeError for an agent of which the batch has no row, or none at all.
 * Effects  makes tensors, of the enclosing scope.
 * Source   none in TorchRL; PettingZoo's `AECEnv` adds up rewards between turns the same way.
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
  const told = [...rowsByTrajectory(td).values()]
  const ids = get(td, 'trajectoryId').items
  const chains = [...new Set(agents)].flatMap((agent) => told.flatMap((rows) => chainOf(agent, rows, turns)))
  const rows = chains.flatMap((chain) => chain.rows)
  const groups = groupIdsOf(td)
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
