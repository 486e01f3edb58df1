/** Advantages of several roles in one batch, each compared with itself. */

import { checkOptions, refuse } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { AdvantageEntry, CollectedBatch, GroupEntry, TokenAction, TokenPrompt } from 'tandem-rl'
import { type Advantage, batchAdvantage, type RewardedTurns, rlooAdvantage } from 'tandem-rl/objectives'
import { assign, data, get, raggedRows, type TensorDict } from 'tandem-rl/tensordict'
import { ROLE_ADVANTAGE_OPTIONS } from '../optionKinds.js'
import { agentRows } from './agentRows.js'
import type { MultiAgentState } from './multiAgentEnv.js'

export interface RoleAdvantageOptions {
  /** The trained agents, such as `player_0` and `player_1`. The rows of others are left out. */
  readonly agents: readonly string[]
  /** Applied to the rows of all roles. Groups are those of task and agent. Default: RLOO. */
  readonly advantage?: Advantage
  /**
   * `role`: compares trajectories of a role with each other. `prompt`: compares turns of a role
   * with equal prompts by the rewards that followed them. This is a baseline for each situation,
   * for small games whose situations recur often. Default `role`.
   */
  readonly baseline?: 'role' | 'prompt'
}

/** The entries that `roleAdvantage` reads. */
type RoleTurns = RewardedTurns & TokenAction & GroupEntry & Pick<MultiAgentState, 'agent' | 'agentRewards'>

/** Returns for each row the sum of its trajectory's rewards from its turn on. */
const returnsToGo = (ids: readonly string[], rewards: ArrayLike<number>): Float32Array => {
  const sums = new Map<string, number>()
  const earned = new Float32Array(ids.length)
  for (let row = ids.length - 1; row >= 0; row--) {
    const sum = (sums.get(ids[row]!) ?? 0) + rewards[row]! // rows of a trajectory are in order
    sums.set(ids[row]!, sum)
    earned[row] = sum
  }
  return earned
}

/** Makes each turn a trajectory of its own, in groups of equal prompts. */
const turnsAlone = (rows: TensorDict): TensorDict => {
  const td = rows as TensorDict<RoleTurns & TokenPrompt> // read by the learner, too
  const [ids, groups, turns] = [get(td, 'trajectoryId').items, get(td, 'groupId').items, get(td, 'turn').items]
  const prompts = raggedRows(get(td, 'tokens', 'prompt'))
  const earned = returnsToGo(ids.toArray(), get(td, 'next', 'reward').dataSync())
  return scope(() =>
    assign(rows, {
      trajectoryId: data(ids.map((id, row) => `${id}/${turns.get(row)}`)),
      turn: data(ids.map(() => 0)),
      groupId: data(groups.map((group, row) => `${group}/${prompts[row]!.join(' ')}`)),
      next: { reward: tf.tensor1d(earned, 'float32') },
    }),
  )
}

/**
 * Makes an advantage with a baseline for each role.
 *
 * The rows of each agent become separate trajectories (`agentRows`), and each is compared with
 * those of the same task and agent. In a game that favors the first player, the first player
 * therefore gets no advantage from its seat.
 *
 * Equation by default $A_i = R_i - \frac{1}{G - 1} \sum_{j \ne i} R_j$ over the $G$ games in which
 *          the role occurs
 * Errors   throws RangeError if `agents` is empty, and if the batch has no rows of any of them.
 * Effects  makes tensors that belong to the enclosing scope.
 * Source   SPIRAL's role-conditioned advantage, Liu et al. 2025, arXiv:2506.24119, section 3.3. Its
 *          baseline is a moving average over batches. The mean of the other games of the batch
 *          needs no state and is unbiased.
 *
 * @example
 * roleAdvantage({ agents: ['player_0', 'player_1'] }).name // 'roleAdvantage'
 */
export const roleAdvantage = (options: RoleAdvantageOptions): Advantage<RoleTurns, AdvantageEntry> => {
  checkOptions('roleAdvantage', options, ROLE_ADVANTAGE_OPTIONS)
  const { agents, advantage = batchAdvantage(rlooAdvantage, { name: 'rloo' }), baseline = 'role' } = options
  refuse('roleAdvantage', [agents.length === 0 && 'agents must not be empty'])
  const rowsOf = (batch: TensorDict): TensorDict => {
    const written = new Set(get(batch as TensorDict<RoleTurns>, 'agent').items) // an entry that it reads
    const present = agents.filter((agent) => written.has(agent))
    if (present.length === 0)
      throw new RangeError(
        `roleAdvantage: no rows of ${agents.join(', ')}; there are those of ${[...written].join(', ')}`,
      )
    const rows = agentRows(batch as unknown as CollectedBatch<RoleTurns>, present) as unknown as TensorDict // read by names
    return baseline === 'role' ? rows : turnsAlone(rows)
  }
  const result = (batch: TensorDict): TensorDict => advantage(rowsOf(batch) as TensorDict<RewardedTurns>) as TensorDict // its rows have the same entries
  const { groupSize, over, writes } = advantage
  return Object.defineProperties(result, {
    name: { value: 'roleAdvantage' },
    ...Object.fromEntries(
      Object.entries({
        description: { advantage: 'roleAdvantage', agents, baseline, of: advantage.description },
        ...(groupSize !== undefined && { groupSize }),
        over,
        writes,
        reads: [...advantage.reads, 'agent', 'next.agentRewards'],
        dropped: (batch: TensorDict) => advantage.dropped(rowsOf(batch) as TensorDict<RewardedTurns>), // as above
      }).map(([property, value]) => [property, { value, enumerable: true }]),
    ),
  }) as unknown as Advantage<RoleTurns, AdvantageEntry> // as defined above
}
