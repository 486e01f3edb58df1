import { checkOptions } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { tensorSpec } from '../../data/spec.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addEnds } from '../base/env.js'
import { STEP_COUNTER_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

/** Number of steps of each episode, `[B]` int32. */
export type StepCount = { readonly stepCount: tf.Tensor }

/** The steps so far, or zeros before the first. */
const countOf = (td: TensorDict): tf.Tensor => {
  const entry = find(td, ['stepCount'])
  return entry instanceof tf.Tensor ? entry : tf.zeros([...td.batchShape], 'int32')
}

/**
 * Counts steps, and truncates an episode at `maxSteps` of them.
 *
 * `stepCount` starts at 0 and grows by 1 with each step; where it reaches `maxSteps`, `truncated`
 * and `done` become true. Without `maxSteps` it only counts.
 *
 * Errors   throws RangeError unless `maxSteps` is at least 1.
 * Source   TorchRL `StepCounter`.
 */
export const StepCounter = (options: { readonly maxSteps?: number } = {}): Transform<null, unknown, StepCount> => {
  checkOptions('StepCounter', options, STEP_COUNTER_OPTIONS)
  const { maxSteps } = options
  if (maxSteps !== undefined && (!Number.isInteger(maxSteps) || maxSteps < 1)) {
    throw new RangeError(`StepCounter: maxSteps must be at least 1, got ${maxSteps}`)
  }
  const count = (next: TensorDict, previous: TensorDict): TensorDict<StepCount> => {
    const stepCount = tf.add(countOf(previous), tf.scalar(1, 'int32'))
    if (maxSteps === undefined) return TensorDict({ stepCount }, next.batchShape)
    const truncated = Array.from(stepCount.dataSync(), (steps) => steps >= maxSteps)
    return TensorDict({ stepCount, ...addEnds({ previous, next }, { truncated }) }, next.batchShape)
  }
  return transform<null, unknown, StepCount>({
    name: 'StepCounter',
    initial: null,
    adds: { stepCount: tensorSpec('int32') },
    reset: (td) => TE.right([TensorDict({ stepCount: tf.zeros([...td.batchShape], 'int32') }, td.batchShape), null]),
    step: (next, { previous }) => TE.right([scope(() => count(next, previous)), null]),
  })
}
