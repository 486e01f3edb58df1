import type * as tf from '@tensorflow/tfjs'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { textOf } from '../../data/history.js'
import { dataSpec } from '../../data/spec.js'
import type { Data } from '../../data/tensorDict/leaf.js'
import { get } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import { envFailure } from '../env.js'
import { type GSM8KRewardOptions, gsm8kReward } from '../rewards/gsm8k.js'
import type { Scored } from '../rewards/reward.js'
import { HISTORY_MODE, type InputMode, responsesOf } from './responses.js'
import { type OnAnswer, rewarded, rewardKeys, rewardSpec, unscored } from './rewardEntries.js'
import { type Transform, transform } from './transform.js'

/** The parts of the reward of an answer block, each `[B]` float32, and whether the answer is right, `[B]` bool. Added on every step. */
export type AnswerParts = {
  readonly rewardAnswer: tf.Tensor
  readonly rewardThink: tf.Tensor
  readonly rewardRight: tf.Tensor
  readonly success: tf.Tensor
}

/** The parts of GSM8K's reward. */
export type GSM8KParts = AnswerParts

export interface GSM8KRewardParserOptions extends GSM8KRewardOptions {
  readonly inputMode?: InputMode
  /** Whether an answer ends the episode. Default `terminate`. */
  readonly onAnswer?: OnAnswer
}

const KEYS = rewardKeys('GSM8KRewardParser', ['answer', 'think', 'right'])

const scoreOf = (text: string, answer: string, options: GSM8KRewardOptions): Scored => {
  const { reward, ...parts } = gsm8kReward(text, answer, options)
  return { reward, success: parts.right === 1, parts }
}

/**
 * Rewards each completion by `gsm8kReward` against the state's `answer`, and ends the episodes in which an answer was given. The
 * reward is added to what is there. Only the completion is read, never the prompt, in every input mode.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names.
 * Source   TorchRL `GSM8KRewardParser`.
 */
export const GSM8KRewardParser = (
  options: GSM8KRewardParserOptions = {},
): Transform<null, { readonly answer: Data<string> }, GSM8KParts> => {
  const { inputMode = HISTORY_MODE, onAnswer = 'terminate', ...rewards } = options
  return transform<null, { readonly answer: Data<string> }, GSM8KParts>({
    name: 'GSM8KRewardParser',
    initial: null,
    needs: { observation: { answer: dataSpec<string>('string') }, action: {} },
    adds: rewardSpec(KEYS),
    // Casts: the three keys are those of the three parts.
    reset: (td) => TE.right([scope(() => unscored(KEYS, td)) as never, null]),
    step: (next, { previous, action }) => {
      const texts = responsesOf(action, inputMode)?.map(textOf)
      if (texts === undefined) {
        return TE.left(
          envFailure('GSM8KRewardParser', `the action has no entry ${inputMode._tag}.response of its kind`),
        )
      }
      const answers = get(next, 'answer').items
      const scores = texts.map((text, i) => scoreOf(text, answers.get(i)!, rewards))
      return TE.right([scope(() => rewarded({ previous, next }, scores, { keys: KEYS, onAnswer })) as never, null])
    },
  })
}
