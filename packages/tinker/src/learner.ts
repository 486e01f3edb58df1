/**
 * For those who train on a Tinker server with the runs of `tandem-rl`: a learner with any policy
 * loss, and a policy that samples there.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export { exactBackward } from './learner/exactRoute.js'
export { type TinkerLearnerOptions, tinkerLearner } from './learner/tinkerLearner.js'
export { type TinkerPolicy, type TinkerPolicyOptions, tinkerPolicy } from './learner/tinkerPolicy.js'
