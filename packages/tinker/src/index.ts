/**
 * For those whose trainer is a server: a client of the Tinker protocol, and checks of what a server
 * computes. Importing it loads no tensors.
 *
 * @module
 */
export { checkTinkerServer, type TinkerCheckOptions } from './check/checkTinkerServer.js'
export type { TinkerCheck, TinkerVerdict } from './check/measure.js'
export type { TinkerFailure, TinkerFetch } from './client/calls.js'
export type { GradientSums } from './client/gradientSums.js'
export type { TinkerServer } from './client/knownServers.js'
export { measureGradients } from './client/measureGradients.js'
export type { Pending } from './client/pending.js'
export type { TinkerSampler, TinkerSampling } from './client/sampler.js'
export {
  type TinkerClient,
  type TinkerClientOptions,
  type TinkerModelOptions,
  type TinkerSession,
  tinkerClient,
} from './client/tinkerClient.js'
export { tokenCosts } from './client/tokenCosts.js'
export type { LossRequest, TinkerTrainer } from './client/trainer.js'
export {
  type Datum,
  type ForwardBackwardOutput,
  floatTensor,
  integerTensor,
  type SampleResult,
  type WireTensor,
} from './protocol/values.js'
