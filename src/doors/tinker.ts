/**
 * For those whose trainer is a server: a client of the Tinker protocol, and a server of it over our
 * own engine.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export { checkTinkerServer, type TinkerCheckOptions } from '../tinker/check/checkTinkerServer.js'
export type { TinkerCheck, TinkerVerdict } from '../tinker/check/measure.js'
export type { CallCounts, TinkerFailure, TinkerFetch } from '../tinker/client/calls.js'
export type { GradientSums } from '../tinker/client/gradientSums.js'
export type { TinkerServer } from '../tinker/client/knownServers.js'
export { measureGradients } from '../tinker/client/measureGradients.js'
export type { Pending } from '../tinker/client/pending.js'
export type { TinkerSampler, TinkerSampling } from '../tinker/client/sampler.js'
export {
  type TinkerBaseModel,
  type TinkerCheckpoint,
  type TinkerClient,
  type TinkerClientOptions,
  type TinkerModelOptions,
  type TinkerSession,
  tinkerClient,
} from '../tinker/client/tinkerClient.js'
export type { ChunkLimits, LossRequest, TinkerSaveOptions, TinkerTrainer } from '../tinker/client/trainer.js'
export { type ExactBackward, exactBackward } from '../tinker/learner/exactRoute.js'
export { type TinkerLearnerOptions, tinkerLearner } from '../tinker/learner/tinkerLearner.js'
export { type TinkerPolicy, type TinkerPolicyOptions, tinkerPolicy } from '../tinker/learner/tinkerPolicy.js'
export { type TokenPrices, tokenCosts } from '../tinker/learner/tokenCosts.js'
export type { AdamParams, TinkerLora } from '../tinker/protocol/jsonWire.js'
export {
  type Datum,
  type ForwardBackwardOutput,
  floatTensor,
  integerTensor,
  type LossConfig,
  type SampledSequence,
  type SampleResult,
  type TopTokens,
  type WireTensor,
} from '../tinker/protocol/values.js'
export { type TinkerApp, type TinkerServerOptions, tinkerApp } from '../tinker/server/app.js'
export type { TinkerLimits, TinkerWorld } from '../tinker/server/desk.js'
