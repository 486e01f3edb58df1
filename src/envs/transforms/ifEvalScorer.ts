import { checkOptions } from '@tandem-rl/base'
import { History, type Task } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { IfEvalRow } from '../../data/datasets/ifEval.js'
import { dataSpec } from '../../data/spec.js'
import type { RowTask } from '../../data/task.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { merge } from '../../data/tensorDict/merge.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { endedRows, envFailure } from '../base/env.js'
import { IFEVAL_SCORER_OPTIONS } from '../optionKinds.js'
import { type IfEvalRewardOptions, ifEvalReward } from '../rewards/ifEval/ifEvalReward.js'
import type { IFEvalScoreData } from '../rewards/ifEval/ifEvalScore.js'
import type { TaskEntry } from './dataLoadingPrimer.js'
import { HISTORY_MODE, responsesOf } from './responses.js'
import { isAnswer, type OnAnswer, rewarded, rewardKeys, rewardSpec, unscored } from './rewardEntries.js'
import { type Transform, transform } from './transform.js'

/**
 * The entries of `IfEvalScorer`: the verdicts on each reply, null before the first; the parts of
 * the reward, each `[B]` float32; and `success`, `[B]` bool, for replies that keep all
 * instructions.
 */
export type IfEvalEntries = {
  readonly ifEvalScore: Data<IFEvalScoreData | null>
  readonly rewardAnswer: tf.Tensor
  readonly rewardThink: tf.Tensor
  readonly rewardPromptLevelStrict: tf.Tensor
  readonly rewardInstLevelStrict: tf.Tensor
  readonly rewardPromptLevelLoose: tf.Tensor
  readonly rewardInstLevelLoose: tf.Tensor
  readonly success: tf.Tensor
}

export interface IfEvalScorerOptions extends IfEvalRewardOptions {
  /** Effect of an answer on its episode. Default `terminate`. */
  readonly onAnswer?: OnAnswer
}

type Needed = TaskEntry<RowTask<IfEvalRow>>

/** The verdicts on an element that had ended before the step. */
const verdictsOf = (previous: TensorDict, i: number): IFEvalScoreData | null =>
  get(previous as TensorDict<IfEvalEntries>, 'ifEvalScore').items.get(i)! // a state with ends has them of the step before

/**
 * Scores each reply by the instructions of its task: `ifEvalReward`, with the verdicts as
 * `ifEvalScore` beside the reward. States need the whole task (`DatasetChatEnv` with
 * `keep: 'task'`).
 *
 * Shapes   reward and parts `[B]`.
 * Errors   `Left(EnvFailure)` if the action has no `history.response`. Throws RangeError for tasks
 *          that `IFEVAL` would refuse.
 * Source   TorchRL `IfEvalScorer`, which reads the message alone, judges its first answer block,
 *          and ends an episode with any such block; here one with something in it.
 *
 * @example
 * IfEvalScorer({ detectLanguage: () => 'en' }).name // 'IfEvalScorer'
 */
export const IfEvalScorer = (options: IfEvalScorerOptions): Transform<null, Needed, IfEvalEntries> => {
  checkOptions('IfEvalScorer', options, IFEVAL_SCORER_OPTIONS)
  const { onAnswer = 'terminate', ...judging } = options
  const reward = ifEvalReward(judging)
  const keys = rewardKeys('IfEvalScorer', reward.partNames)
  // Casts in this function: the keys are those of the parts of `ifEvalReward`.
  return transform<null, Needed, IfEvalEntries>({
    name: 'IfEvalScorer',
    initial: null,
    needs: { observation: { task: dataSpec<Task>('Task') }, action: {} },
    adds: { ...rewardSpec(keys), ifEvalScore: dataSpec<IFEvalScoreData | null>('IFEvalScoreData') },
    reset: (td) => {
      const none = TensorDict({ ifEvalScore: data(get(td, 'task').items.map(() => null)) }, td.batchShape)
      return TE.right([scope(() => merge(unscored(keys, td), none)) as never, null])
    },
    step: (next, { previous, action }) => {
      const replies = responsesOf(action, HISTORY_MODE)
      if (replies === undefined) {
        return TE.left(envFailure('IfEvalScorer', 'the action has no entry history.response of messages'))
      }
      const over = endedRows(previous, 'done')
      const tasks = get(next, 'task').items
      const scores = replies.map((reply, i) =>
        over[i] === true ? null : reward.score({ task: tasks.get(i)!, history: History([reply]) }),
      )
      const verdicts = data(scores.map((score, i) => (score === null ? verdictsOf(previous, i) : score.verdicts)))
      const ends = scores.map((score) => score !== null && onAnswer === 'terminate' && isAnswer(score))
      const entries = (): TensorDict =>
        merge(
          rewarded({ previous, next }, scores, { keys, ends }),
          TensorDict({ ifEvalScore: verdicts }, next.batchShape),
        )
      return TE.right([scope(entries) as never, null])
    },
  })
}
