/** Metrics of chains, under AgentFly's names. */
import { textOf } from '@tandem-rl/text'
import type { AgentRunResult, ChainCall, ChainTrajectory } from './trajectory.js'

export const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/** The mean, the largest and the smallest value. Empty without values. */
const spread = (name: string, values: readonly number[]): Readonly<Record<string, number>> =>
  values.length === 0
    ? {}
    : {
        [`${name}/mean`]: mean(values),
        [`${name}/max`]: values.reduce((a, b) => Math.max(a, b)),
        [`${name}/min`]: values.reduce((a, b) => Math.min(a, b)),
      }

/** Counts, failures and latency of each tool. */
export const toolMetrics = (calls: readonly ChainCall[]): Readonly<Record<string, number>> => {
  const names = [...new Set(calls.map(({ name }) => name))]
  return Object.assign(
    {},
    ...names.map((name) => {
      const own = calls.filter((call) => call.name === name)
      return {
        [`agent/rollout/tool_calls/${name}`]: own.length,
        [`agent/rollout/tool_failures/${name}`]: own.filter(({ outcome }) => outcome !== 'ok' && outcome !== 'finish')
          .length,
        [`agent/rollout/tool_ms/${name}`]: mean(own.map(({ ms }) => ms)),
      }
    }),
  ) as Readonly<Record<string, number>> // of numbers alone
}

/**
 * Tokens of the last segment by author: the policy, and everyone else. Characters without token
 * ids.
 */
const authorMetrics = (chains: readonly ChainTrajectory[]): Readonly<Record<string, number>> => {
  const all = chains.flatMap(({ segments }) => segments.flatMap(({ tokens }) => (tokens === null ? [] : [tokens])))
  if (all.length > 0) {
    const own = all.map(({ mask }) => mask.filter((m) => m === 1).length)
    return {
      'agent/rollout/tokens/policy': mean(own),
      'agent/rollout/tokens/others': mean(all.map(({ ids }, i) => ids.length - own[i]!)),
    }
  }
  const of = (is: (role: string) => boolean) =>
    mean(
      chains.map(
        ({ messages }) =>
          messages
            .filter(({ role }) => is(role))
            .map(textOf)
            .join('').length,
      ),
    )
  return {
    'agent/rollout/characters/policy': of((role) => role === 'assistant'),
    'agent/rollout/characters/others': of((role) => role !== 'assistant'),
  }
}

/**
 * Metrics of a run's chains: turns, segments, rewards and their parts, ends, time, tokens by
 * author, and for each tool its calls, failures and mean latency. Chains that failed count only in
 * `agent/chains/failed`.
 *
 * Source   names of AgentFly's monitor.
 *
 * @example
 * agentMetrics({ trajectories: [], rewards: [], rewardExtras: [] })['agent/chains/total'] // 0
 */
export const agentMetrics = ({ trajectories }: AgentRunResult): Readonly<Record<string, number>> => {
  const played = trajectories.filter(({ finishReason }) => finishReason !== 'failed')
  const chains = {
    'agent/chains/total': trajectories.length,
    'agent/chains/failed': trajectories.length - played.length,
  }
  if (played.length === 0) return chains
  const parts = [...new Set(played.flatMap(({ rewardExtras }) => Object.keys(rewardExtras)))]
  const ends = [...new Set(played.map(({ finishReason }) => finishReason))]
  const times = spread(
    'agent/rollout/time',
    played.map(({ timings }) => timings.totalMs / 1000),
  )
  return {
    ...chains,
    ...Object.fromEntries(
      ends.map((end) => [`agent/chains/${end}`, played.filter(({ finishReason }) => finishReason === end).length]),
    ),
    'agent/rollout/avg_turns': mean(played.map(({ turns }) => turns.length)),
    'agent/rollout/avg_segments': mean(played.map(({ segments }) => segments.length)),
    'agent/rollout/avg_tool_calls': mean(played.map(({ calls }) => calls.length)),
    ...spread(
      'agent/rollout/reward',
      played.map(({ reward }) => reward!), // a chain that was played has one
    ),
    ...Object.assign(
      {},
      ...parts.map((name) =>
        spread(
          `agent/rollout/reward_extra/${name}`,
          played.map(({ rewardExtras }) => rewardExtras[name] ?? 0),
        ),
      ),
    ),
    ...times,
    ...authorMetrics(played),
    ...toolMetrics(played.flatMap(({ calls }) => calls)),
  }
}
