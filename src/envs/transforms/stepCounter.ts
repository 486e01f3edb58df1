import * as tf from '@tensorflow/tfjs'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { tensorSpec } from '../../data/spec.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import { type Transform, transform } from './transform.js'

/** How many steps each episode has had, `[B]` int32. */
export type StepCount = { readonly stepCount: tf.Tensor }

/** The tensor under a key, or zeros of its kind. */
const tensorAt = (td: TensorDict, key: string, dtype: 'bool' | 'int32'): tf.Tensor => {
  const entry = find(td, [key])
  return entry instanceof tf.Tensor ? entry : tf.zeros([...td.batchShape], dtype)
}

/**
 * Counts steps, and truncates an episode at `maxSteps` of them.
 *
 * `stepCount` starts at 0 and grows by 1 with each step; where it reaches `maxSteps`, `truncated` and `done` become true. Without
 * `maxSteps` it only counts.
 *
 * Errors   throws RangeError unless `maxSteps` is at least 1.
 * Source   TorchRL `StepCounter`.
 */
export const StepCounter = (options: { readonly maxSteps?: number } = {}): Transform<null, unknown, StepCount> => {
  const { maxSteps } = options
  if (maxSteps !== undefined && (!Number.isInteger(maxSteps) || maxSteps < 1)) {
    throw new RangeError(`StepCounter: maxSteps must be at least 1, got ${maxSteps}`)
  }
  const count = (next: TensorDict, previous: TensorDict): TensorDict<StepCount> => {
    const stepCount = tf.add(tensorAt(previous, 'stepCount', 'int32'), tf.scalar(1, 'int32'))
    if (maxSteps === undefined) return TensorDict({ stepCount }, next.batchShape)
    const limit = tf.greaterEqual(stepCount, tf.scalar(maxSteps, 'int32'))
    const truncated = tf.logicalOr(tensorAt(next, 'truncated', 'bool'), limit)
    const done = tf.logicalOr(tensorAt(next, 'done', 'bool'), limit)
    return TensorDict({ stepCount, truncated, done }, next.batchShape)
  }
  return transform<null, unknown, StepCount>({
    name: 'StepCounter',
    initial: null,
    adds: { stepCount: tensorSpec('int32') },
    reset: (td) => TE.right([TensorDict({ stepCount: tf.zeros([...td.batchShape], 'int32') }, td.batchShape), null]),
    step: (next, { previous }) => TE.right([scope(() => count(next, previous)), null]),
  })
}
