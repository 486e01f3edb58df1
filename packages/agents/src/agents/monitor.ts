/** Metrics of agents while they are trained. */

import { type Clock, checkOptions } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import type { ResourcePool, ToolCallOptions } from '@tandem-rl/tools'
import type { TokenAction, TokenPrompt } from 'tandem-rl'
import { trajectoryReturns } from 'tandem-rl/async'
import { find, get, raggedRow, type TensorDict } from 'tandem-rl/tensordict'
import { AGENT_MONITOR_OPTIONS } from '../optionKinds.js'
import { mean, toolMetrics } from './metrics.js'
import { type ChainCall, sharedLength } from './trajectory.js'

/** Observes the start and the end of calls. */
export type CallObserver = NonNullable<ToolCallOptions['onCall']>

/** Returns a function that takes the notices of calls and returns each call that has ended. */
export const callTimer = (clock: Clock): ((event: Parameters<CallObserver>[0]) => ChainCall | undefined) => {
  const started = new Map<unknown, number>()
  return (event) => {
    if (event.type === 'start') {
      started.set(event.call, clock.now())
      return undefined
    }
    const ms = clock.now() - (started.get(event.call) ?? clock.now())
    started.delete(event.call)
    return { name: event.call.name, outcome: event.outcome, ms }
  }
}

export interface AgentMonitorOptions {
  /** Pools whose use is reported, such as `environment.pool`. Default: none. */
  readonly pools?: readonly Pick<ResourcePool<unknown>, 'name' | 'mostLeased'>[]
  /** Default: the real clock. */
  readonly clock?: Clock
}

/** Counts the calls of an agent between the steps of its training. */
export interface AgentMonitor {
  /** The option `toolOptions.onCall` of the agent. */
  readonly onCall: CallObserver
  /**
   * The part `metrics` of `grpoParts`. Returns the metrics of a collected batch, and of the calls
   * and pools since the previous batch.
   */
  readonly metrics: (batch: TensorDict) => Readonly<Record<string, number>>
}

/** The rows of policies that sample tokens. */
type TokenRows = TensorDict<TokenPrompt & TokenAction>

/** Mean tokens of a trajectory by author. Empty without token ids. */
const tokenMetrics = (
  batch: TensorDict,
  trajectories: readonly (readonly number[])[],
): Readonly<Record<string, number>> => {
  if (find(batch, ['tokens', 'prompt']) === undefined || find(batch, ['tokens', 'response']) === undefined) return {}
  const tokens = get(batch as TokenRows, 'tokens') // both entries exist
  const counts = trajectories.map((rows) => {
    let [policy, others] = [0, 0]
    let before: readonly number[] = []
    for (const row of rows) {
      const prompt = raggedRow(get(tokens, 'prompt'), row)
      const response = raggedRow(get(tokens, 'response'), row)
      policy += response.length
      others += prompt.length - sharedLength(before, prompt, 0)
      before = [...prompt, ...response]
    }
    return { policy, others }
  })
  return {
    'agent/rollout/tokens/policy': mean(counts.map(({ policy }) => policy)),
    'agent/rollout/tokens/others': mean(counts.map(({ others }) => others)),
  }
}

/**
 * Makes a monitor of an agent in training. It reports the number of chains, mean turns and tool
 * calls, tokens by author, calls, failures and mean latency of each tool, and the most environments
 * of each pool that were in use at once.
 *
 * Calls are counted when they end, so those of chains that are dropped or sampled ahead count too.
 *
 * Errors   throws RangeError for unknown options.
 * Source   names of AgentFly's monitor.
 *
 * @example
 * Object.keys(agentMonitor()) // ['onCall', 'metrics']
 */
export const agentMonitor = (options: AgentMonitorOptions = {}): AgentMonitor => {
  checkOptions('agentMonitor', options, AGENT_MONITOR_OPTIONS)
  const { pools = [], clock = liveClock } = options
  const timed = callTimer(clock)
  let calls: ChainCall[] = []
  return {
    onCall: (event) => {
      const ended = timed(event)
      if (ended !== undefined) calls.push(ended)
    },
    metrics: (batch) => {
      const trajectories = trajectoryReturns(batch as never).map(({ rows }) => rows) // a collected batch
      const ended = calls
      calls = []
      return {
        'agent/chains/total': trajectories.length,
        'agent/rollout/avg_turns': mean(trajectories.map((rows) => rows.length)),
        'agent/rollout/avg_tool_calls': trajectories.length === 0 ? 0 : ended.length / trajectories.length,
        ...tokenMetrics(batch, trajectories),
        ...toolMetrics(ended),
        ...Object.fromEntries(
          pools.map(({ name, mostLeased }) => [`agent/environments/most_in_use/${name}`, mostLeased()]),
        ),
      }
    },
  }
}
