import { checkOptions } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TokenAction } from '../../data/policy.js'
import { tensorSpec } from '../../data/spec.js'
import { rowLengths } from '../../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addReward, endedRows, envFailure } from '../base/env.js'
import { OVERLONG_PENALTY_OPTIONS } from '../optionKinds.js'
import { checkOverlong, type OverlongOptions, overlongReward } from '../rewards/overlong.js'
import { type Transform, transform } from './transform.js'

/** The penalty for the length of the last completion, `[B]` float32, 0 or less. */
export type LengthEntries = { readonly lengthPenalty: tf.Tensor }

/**
 * Adds `overlongReward` of each completion's length in tokens to the reward, and keeps it in
 * `lengthPenalty`. In conversations it is the length of the turn.
 *
 * Shapes   reward `[B]`.
 * Errors   throws RangeError as `overlongReward` does; `Left(EnvFailure)` if the action has no
 *          token ids.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.4.
 */
export const overlongPenalty = (options: OverlongOptions): Transform<null, unknown, LengthEntries> => {
  checkOptions('overlongPenalty', options, OVERLONG_PENALTY_OPTIONS)
  checkOverlong('overlongPenalty', options)
  return transform<null, unknown, LengthEntries>({
    name: 'overlongPenalty',
    initial: null,
    adds: { lengthPenalty: tensorSpec('float32') },
    reset: (td) =>
      TE.right([scope(() => TensorDict({ lengthPenalty: tf.zeros([...td.batchShape]) }, td.batchShape)), null]),
    step: (next, { previous, action }) => {
      if (find(action, ['tokens', 'response']) === undefined)
        return TE.left(envFailure('overlongPenalty', 'the action has no tokens.response'))
      const lengths = rowLengths(get(action as TensorDict<TokenAction>, 'tokens', 'response')) // checked: it has them
      const over = endedRows(previous, 'done')
      const penalties = lengths.map((length, i) => (over[i] === true ? 0 : overlongReward(length, options)))
      const added = scope(() => {
        const lengthPenalty = tf.tensor1d(penalties, 'float32')
        return TensorDict({ reward: addReward({ previous, next }, penalties), lengthPenalty }, next.batchShape)
      })
      return TE.right([added, null])
    },
  })
}
