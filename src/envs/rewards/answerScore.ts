/**
 * Scores of an answer that is right, wrong or not there: what GSM8K, MATH and Countdown have in
 * common.
 */
import type { Task } from '../../data/task.js'
import { blockOf } from './reply.js'
import type { Reward, Scored } from './reward.js'

export interface AnswerRewardOptions {
  /** For the right answer. Default 1. */
  readonly correctReward?: number
  /** For another answer. Default 0.1. */
  readonly formatReward?: number
}

/**
 * What such rewards are made of: is there an answer, is there a thought, is the answer right? Each
 * 1 or 0.
 */
export const ANSWER_PARTS = ['answer', 'think', 'right'] as const

/** A reward of an answer that is right, wrong or missing. */
export type AnswerReward = Reward<Task, (typeof ANSWER_PARTS)[number]>

/** The lowest and the highest of them. */
export const answerRange = ({ correctReward = 1, formatReward = 0.1 }: AnswerRewardOptions): Reward['range'] => [
  Math.min(0, correctReward, formatReward),
  Math.max(0, correctReward, formatReward),
]

/** The score of a reply: `right`, `wrong`, or `none` if it has no answer. */
export const answerScore = (
  reply: string,
  answer: 'right' | 'wrong' | 'none',
  { correctReward = 1, formatReward = 0.1 }: AnswerRewardOptions,
): Scored => ({
  reward: answer === 'right' ? correctReward : answer === 'wrong' ? formatReward : 0,
  success: answer === 'right',
  parts: {
    answer: answer === 'none' ? 0 : 1,
    think: blockOf(reply, 'think') === '' ? 0 : 1,
    right: answer === 'right' ? 1 : 0,
  },
})
