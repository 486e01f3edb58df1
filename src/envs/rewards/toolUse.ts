/** Rewards that ask for more than a right answer: a tool call, or a thought. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { THINK_REWARD_OPTIONS, TOOL_USE_REWARD_OPTIONS } from '../optionKinds.js'
import { hasThoughts } from './reply.js'
import type { Answered, Reward } from './reward.js'

export interface GatedRewardOptions {
  /** Default: the name of the reward with `.tool` or `.think`. */
  readonly name?: string
  /** The reward of a wrong answer that satisfies the condition. Default 0.1. */
  readonly partial?: number
  /** The reward of a right answer that does not satisfy the condition. Default `nothing`. */
  readonly otherwise?: 'nothing' | 'reward'
}

export interface ToolUseOptions extends GatedRewardOptions {
  /** Tool results that the conversation must have. Default 1. */
  readonly calls?: number
}

/** Results of tools in a conversation. */
const resultsOf = ({ history }: Answered): number =>
  history.messages.filter(({ role, toolCallId }) => role === 'tool' || toolCallId !== undefined).size

const gated = <T extends Task>(
  reward: Reward<T>,
  part: 'tool' | 'think',
  holds: (answered: Answered<T>) => boolean,
  options: GatedRewardOptions,
): Reward<T> => {
  const { name = `${reward.name}.${part}`, partial = 0.1, otherwise = 'nothing' } = options
  const [lowest, highest] = reward.range
  return {
    name,
    partNames: [part, ...reward.partNames],
    ...(reward.extras && { extras: reward.extras }),
    range: [Math.min(0, lowest, partial), Math.max(0, highest, partial)],
    score: (answered) => {
      const scored = reward.score(answered)
      const isMet = holds(answered)
      const counts = isMet || otherwise === 'reward'
      return {
        reward: counts && scored.success ? scored.reward : isMet ? partial : 0,
        success: counts && scored.success,
        parts: { ...scored.parts, [part]: isMet ? 1 : 0 },
      }
    },
  }
}

/**
 * Makes a reward that asks for tool calls: the reward of a right answer with enough calls,
 * `partial` for a wrong one with enough calls, and 0 without them.
 *
 * Errors   throws RangeError for unknown options.
 * Source   AgentFly `math_equal_reward_tool` (0, 0.1, 1) and `qa_f1_reward_tool` (`calls: 2`).
 *
 * @example
 * toolUseReward(mathReward()).name // 'math.tool'
 */
export const toolUseReward = <T extends Task = Task>(reward: Reward<T>, options: ToolUseOptions = {}): Reward<T> => {
  checkOptions('toolUseReward', options, TOOL_USE_REWARD_OPTIONS)
  const { calls = 1, ...rest } = options
  return gated(reward, 'tool', (answered) => resultsOf(answered) >= calls, rest)
}

/**
 * Makes a reward that asks for a thought, apart from the text or in a closed block of the tag
 * `think` that is not empty: the reward of a right answer with one, `partial` for a wrong one with
 * one, and 0 without it.
 *
 * Errors   throws RangeError for unknown options.
 * Source   AgentFly `math_equal_reward_think`.
 *
 * @example
 * thinkReward(mathReward()).name // 'math.think'
 */
export const thinkReward = <T extends Task = Task>(reward: Reward<T>, options: GatedRewardOptions = {}): Reward<T> => {
  checkOptions('thinkReward', options, THINK_REWARD_OPTIONS)
  return gated(reward, 'think', hasThoughts, options)
}
