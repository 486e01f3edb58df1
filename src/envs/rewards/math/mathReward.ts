/**
 * The reward of MATH: 1 if the answer equals the reference answer.
 *
 * This folder holds the comparison of mathematical answers: parsing LaTeX, exact numbers and equal
 * values. It does not hold rewards for answers that are plain numbers (`../gsm8k.ts`).
 */
import { aFunction, aList, aNumber, checkOptions } from '../../../core/options.js'
import { ANSWER_PARTS, type AnswerReward, type AnswerRewardOptions, answerRange, answerScore } from '../answerScore.js'
import { replyOf } from '../reply.js'
import { type AnswerPlace, mathAnswerOf, unboxed } from './mathAnswer.js'
import { sameAnswer } from './sameAnswer.js'

/** Whether two answers are the same; undefined where it cannot tell. */
export type Opinion = (a: string, b: string) => boolean | undefined

export interface MathRewardOptions extends AnswerRewardOptions {
  /** Where an answer may stand; the first of them that has one counts. Default block, then box. */
  readonly places?: readonly AnswerPlace[]
  /**
   * Asked about answers that are not the same by `sameAnswer`: its yes counts. Default: nobody is.
   */
  readonly secondOpinion?: Opinion
}

/**
 * Scores a reply by its answer: `correctReward` if it is the same as the task's (`sameAnswer`),
 * `formatReward` if it is another, 0 if there is none. The task's answer may be a solution that
 * boxes it. The parts are `answer`, `think` and `right`.
 *
 * Source   TorchRL `MATHRewardParser`, whose score depends on an optional package, and which reads
 *          no box.
 *
 * @example
 * mathReward().range // [0, 1]
 */
export const mathReward = (options: MathRewardOptions = {}): AnswerReward => {
  checkOptions('mathReward', options, {
    places: aList,
    secondOpinion: aFunction,
    correctReward: aNumber,
    formatReward: aNumber,
  })
  const { places = ['block', 'box'], secondOpinion } = options
  return {
    name: 'math',
    partNames: ANSWER_PARTS,
    range: answerRange(options),
    score: (answered) => {
      const reply = replyOf(answered)
      const [answer, truth] = [mathAnswerOf(reply, places), unboxed(answered.task.answer)]
      if (answer === '') return answerScore(reply, 'none', options)
      const isRight = sameAnswer(answer, truth) || secondOpinion?.(answer, truth) === true
      return answerScore(reply, isRight ? 'right' : 'wrong', options)
    },
  }
}
