/** Inputs for transforms, drawn from the specs of the inner environment. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import type { EnvSpecs } from 'tandem-rl/envs'
import { merge, type Spec, TensorDict } from 'tandem-rl/tensordict'
import { shown, textOfMade } from './shown.js'
import { anyOfSpec, type ValueArbitraries } from './specArbitraries.js'
import type { TransformSample } from './transformLaws.js'

/** The options of drawn inputs. */
export interface TransformSampleOptions {
  /**
   * Spec of the policy's action for the environment with the transform. Default: that of the inner
   * environment.
   */
  readonly action?: Spec
  /** The arbitraries of data and meta by the type name in their spec, as in `anyOfSpec`. */
  readonly values?: ValueArbitraries
  /** Number of batch elements. Default 1 to 3. */
  readonly batchSizes?: fc.Arbitrary<number>
}

interface Ending {
  readonly reward: number
  readonly terminated: boolean
  readonly truncated: boolean
}

const anyEnding: fc.Arbitrary<Ending> = fc.record({
  reward: fc.float({ min: -10, max: 10, noNaN: true }),
  terminated: fc.boolean(),
  truncated: fc.boolean(),
})

const outcome = (endings: readonly Ending[]): TensorDict => {
  const bools = (f: (ending: Ending) => boolean): tf.Tensor => tf.tensor1d(endings.map(f), 'bool')
  const entries = {
    reward: tf.tensor1d(endings.map(({ reward }) => reward)),
    terminated: bools(({ terminated }) => terminated),
    truncated: bools(({ truncated }) => truncated),
    done: bools(({ terminated, truncated }) => terminated || truncated),
  }
  return TensorDict(entries, [endings.length])
}

/**
 * Draws samples for `transformLaws`: states and actions that satisfy the specs of the inner
 * environment, and outcomes of a step. Counterexamples show their values. Drawing makes no tensors.
 *
 * Errors   throws RangeError for type names without an arbitrary.
 *
 * @example
 * fc.sample(anyTransformSample({ observation: { query: dataSpec('string') }, action: {} }), 1)[0].inner.action // {}
 */
export const anyTransformSample = (
  inner: EnvSpecs,
  options: TransformSampleOptions = {},
): fc.Arbitrary<TransformSample> => {
  const { action = inner.action, values = {}, batchSizes = fc.integer({ min: 1, max: 3 }) } = options
  return batchSizes.chain((size) => {
    const shape = fc.constant([size])
    const states = anyOfSpec(inner.observation, shape, values)
    const endings = fc.array(anyEnding, { minLength: size, maxLength: size })
    return fc
      .tuple(states, anyOfSpec(action, shape, values), states, endings)
      .map(([state, taken, next, ended]): TransformSample => {
        const sample: TransformSample = {
          inner,
          state: state.build,
          action: taken.build,
          next: () => scope(() => merge(next.build(), outcome(ended))),
        }
        const parts = ['state', 'action', 'next'] as const
        return shown(sample, () => parts.map((part) => `\n  ${part}: ${textOfMade(sample[part])}`).join(''))
      })
  })
}
