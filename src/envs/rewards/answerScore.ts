/** Scores of an answer that is right, wrong or missing, shared by GSM8K, MATH and Countdown. */
import type { Task } from '@tandem-rl/text'
import { hasThoughts } from './reply.js'
import type { Answered, Reward, Scored } from './reward.js'

export interface AnswerRewardOptions {
  /** Reward of the right answer. Default 1. */
  readonly correctReward?: number
  /** Reward of a wrong answer. Default 0.1. */
  readonly formatReward?: number
}

/**
 * The parts of such rewards, each 1 or 0: there is an answer, there is a thought, the answer is
 * right.
 */
export const ANSWER_PARTS = ['answer', 'think', 'right'] as const

/** A reward of an answer that is right, wrong or missing. */
export type AnswerReward = Reward<Task, (typeof ANSWER_PARTS)[number]>

/** Returns the lowest and the highest reward. */
export const answerRange = ({ correctReward = 1, formatReward = 0.1 }: AnswerRewardOptions): Reward['range'] => [
  Math.min(0, correctReward, formatReward),
  Math.max(0, correctReward, formatReward),
]

/** The score of a conversation whose answer is `right`, `wrong`, or missing (`none`). */
export const answerScore = (
  answered: Answered,
  answer: 'right' | 'wrong' | 'none',
  { correctReward = 1, formatReward = 0.1 }: AnswerRewardOptions,
): Scored => ({
  reward: answer === 'right' ? correctReward : answer === 'wrong' ? formatReward : 0,
  success: answer === 'right',
  parts: {
    answer: answer === 'none' ? 0 : 1,
    think: hasThoughts(answered) ? 1 : 0,
    right: answer === 'right' ? 1 : 0,
  },
})
