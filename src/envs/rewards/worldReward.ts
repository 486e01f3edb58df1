/** The score of the environment that a tool plays. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { WORLD_REWARD_OPTIONS } from '../optionKinds.js'
import type { Reward } from './reward.js'

export interface WorldRewardOptions {
  /** The name of the tool. */
  readonly tool: string
  /** Multiplies the score. Default 1; AgentFly's ScienceWorld reward uses 10. */
  readonly scale?: number
  /** The score from which on the task counts as solved. Default 1. */
  readonly solvedAt?: number
}

const scoreOf = (state: unknown): number => {
  const score = typeof state === 'object' && state !== null && 'score' in state ? state.score : 0
  return typeof score === 'number' && Number.isFinite(score) ? score : 0
}

/**
 * Makes a reward of the score in a tool's state, such as that of `worldTool`. A tool that was not
 * called has a score of 0.
 *
 * Source   AgentFly's webshop, alfworld and scienceworld rewards.
 *
 * @example
 * worldReward({ tool: 'shop' }).partNames // ['score']
 */
export const worldReward = (options: WorldRewardOptions): Reward<Task, 'score'> => {
  checkOptions('worldReward', options, WORLD_REWARD_OPTIONS)
  const { tool, scale = 1, solvedAt = 1 } = options
  return {
    name: tool,
    partNames: ['score'],
    range: [Math.min(0, scale), Math.max(0, scale)],
    score: ({ tools = {} }) => {
      const score = Object.hasOwn(tools, tool) ? scoreOf(tools[tool]) : 0
      return { reward: scale * score, success: score >= solvedAt, parts: { score } }
    },
  }
}
