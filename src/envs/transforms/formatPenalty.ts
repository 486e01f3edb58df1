import { checkOptions } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { tensorSpec } from '../../data/spec.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addReward, endedRows, envFailure } from '../base/env.js'
import { FORMAT_PENALTY_OPTIONS } from '../optionKinds.js'
import { checkFormat, type FormatScore, type FormatScoreOptions, formatScore } from '../rewards/format.js'
import { HISTORY_MODE, type InputMode, responsesOf } from './responses.js'
import { type Transform, transform } from './transform.js'

/**
 * `[B]` float32: what the form of the last completion cost, 0 or less, and 1 or 0 for each rule,
 * kept or not.
 */
export type FormatEntries = {
  readonly formatPenalty: tf.Tensor
  readonly formatBlocks: tf.Tensor
  readonly formatOrder: tf.Tensor
  readonly formatOutside: tf.Tensor
}

export interface FormatPenaltyOptions extends FormatScoreOptions {
  /** Default history: the content of the message, without the marker of the end of the turn. */
  readonly inputMode?: InputMode
}

const NAME = 'formatPenalty'

const entriesOf = (scores: readonly FormatScore[]): FormatEntries => {
  const each = (f: (score: FormatScore) => number): tf.Tensor => tf.tensor1d(scores.map(f), 'float32')
  return {
    formatPenalty: each(({ penalty }) => penalty),
    formatBlocks: each(({ kept }) => (kept.blocks ? 1 : 0)),
    formatOrder: each(({ kept }) => (kept.order ? 1 : 0)),
    formatOutside: each(({ kept }) => (kept.outside ? 1 : 0)),
  }
}

const UNSCORED: FormatScore = { kept: { blocks: false, order: false, outside: false }, penalty: 0 }

/**
 * Adds the penalty of `formatScore` to the reward of each completion, and reports each rule. In
 * conversations it is the form of the turn. Before the first step no rule is kept, and nothing is
 * paid.
 *
 * Shapes   reward `[B]`.
 * Errors   throws RangeError as `formatScore` does; `Left(EnvFailure)` if the action lacks the view
 *          that `inputMode` names.
 *
 * @example
 * formatPenalty({ blocks: ['answer'], factor: 0.1 }).name // 'formatPenalty'
 */
export const formatPenalty = (options: FormatPenaltyOptions = {}): Transform<null, unknown, FormatEntries> => {
  checkOptions('formatPenalty', options, FORMAT_PENALTY_OPTIONS)
  const { inputMode = HISTORY_MODE, ...format } = options
  checkFormat(NAME, format)
  return transform<null, unknown, FormatEntries>({
    name: NAME,
    initial: null,
    adds: {
      formatPenalty: tensorSpec('float32'),
      formatBlocks: tensorSpec('float32'),
      formatOrder: tensorSpec('float32'),
      formatOutside: tensorSpec('float32'),
    },
    reset: ({ batchShape: [size = 0] }) =>
      TE.right([scope(() => TensorDict(entriesOf(Array.from({ length: size }, () => UNSCORED)), [size])), null]),
    step: (next, { previous, action }) => {
      const texts = responsesOf(action, inputMode)?.map(textOf)
      if (texts === undefined) {
        return TE.left(envFailure(NAME, `the action has no entry ${inputMode._tag}.response of its kind`))
      }
      const over = endedRows(previous, 'done')
      const scores = texts.map((text, i) => (over[i] === true ? UNSCORED : formatScore(text, format)))
      const added = scope(() => {
        const penalties = scores.map(({ penalty }) => penalty)
        return TensorDict({ ...entriesOf(scores), reward: addReward({ previous, next }, penalties) }, next.batchShape)
      })
      return TE.right([added, null])
    },
  })
}
