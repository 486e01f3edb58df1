/** The reward of MATH: 1 if the answer equals the reference answer. */
import { checkOptions } from '@tandem-rl/base'
import { MATH_REWARD_OPTIONS } from '../../optionKinds.js'
import { ANSWER_PARTS, type AnswerReward, type AnswerRewardOptions, answerRange, answerScore } from '../answerScore.js'
import { replyOf } from '../reply.js'
import { type AnswerPlace, mathAnswerOf, unboxed } from './mathAnswer.js'
import { sameAnswer } from './sameAnswer.js'

/** Returns whether two answers are the same; undefined if it cannot decide. */
export type Opinion = (a: string, b: string) => boolean | undefined

export interface MathRewardOptions extends AnswerRewardOptions {
  /** Places of an answer, in order of precedence. Default block, then box. */
  readonly places?: readonly AnswerPlace[]
  /**
   * Called for answers that differ by `sameAnswer`. If it returns true, they count as equal.
   * Default: none.
   */
  readonly secondOpinion?: Opinion
}

/**
 * Scores a reply by its answer: `correctReward` if it equals the task's (`sameAnswer`),
 * `formatReward` if it differs, 0 if there is no answer. The task's answer may be a solution that
 * contains a box. The parts are `answer`, `think` and `right`.
 *
 * Source   TorchRL `MATHRewardParser`, whose score depends on an optional package, and which reads
 *          no boxes.
 *
 * @example
 * mathReward().range // [0, 1]
 */
export const mathReward = (options: MathRewardOptions = {}): AnswerReward => {
  checkOptions('mathReward', options, MATH_REWARD_OPTIONS)
  const { places = ['block', 'box'], secondOpinion } = options
  return {
    name: 'math',
    partNames: ANSWER_PARTS,
    range: answerRange(options),
    score: (answered) => {
      const [answer, truth] = [mathAnswerOf(replyOf(answered), places), unboxed(answered.task.answer)]
      if (answer === '') return answerScore(answered, 'none', options)
      const isRight = sameAnswer(answer, truth) || secondOpinion?.(answer, truth) === true
      return answerScore(answered, isRight ? 'right' : 'wrong', options)
    },
  }
}
