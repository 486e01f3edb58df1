/** Tandem: reinforcement-learning post-training of language models. Everything but `tandem-rl/testing`. */
export { pipe } from 'fp-ts/lib/function.js'
export { z } from 'zod'
export * from './collectors/index.js'
export { type ByteSource, memoryBytes } from './core/byteSource.js'
export type { Alarms, Calendar, Clock, Files, Ids, Output } from './core/capabilities.js'
export {
  type ConfigFailure,
  describe,
  type Failure,
  FailureError,
  type FileFailure,
  type FormatFailure,
  fileFailure,
  type ModelFailure,
  type OutputFailure,
  orThrow,
  type TemplateFailure,
} from './core/failure.js'
export type {
  HttpEvents,
  HttpFailure,
  HttpFailureKind,
  HttpReply,
  HttpRequest,
  Repeat,
  ServerEvent,
  Transport,
  TransportState,
} from './core/http.js'
export type { Hub, HubFailure, HubFile, HubListing, HubProgress, HubRepo } from './core/hub.js'
export {
  child,
  formatKey,
  type Key,
  keyFromSeed,
  normals,
  parseKey,
  permutation,
  uniform,
  uniformInteger,
  uniforms,
} from './core/key.js'
export { type Limiter, limiter } from './core/limiter.js'
export {
  SANDBOX_LIMITS,
  type Sandbox,
  type SandboxEnd,
  type SandboxFailure,
  type SandboxLimits,
  type SandboxProgram,
  type SandboxSaid,
  type SandboxSession,
  type SandboxStop,
  type SandboxText,
  type SandboxWait,
} from './core/sandbox.js'
export { constant, cosine, linear, type Schedule, warmUp } from './core/schedule.js'
export { sipHash } from './core/sipHash.js'
export * from './data/index.js'
export * from './engine/index.js'
export * from './envs/index.js'
export { fileBytes } from './live/byteSource.js'
export { liveCalendar, liveClock } from './live/clock.js'
export { EMBEDDED_MODEL } from './live/embeddedModel.js'
export { liveFiles } from './live/files.js'
export { type HttpServer, type HttpServerOptions, type ListenFailure, liveHttpServer } from './live/httpServer.js'
export { type LiveHubOptions, liveHub } from './live/hub.js'
export { liveOutput } from './live/output.js'
export { type LiveSandboxOptions, liveSandbox } from './live/sandbox/liveSandbox.js'
export { liveTransport } from './live/transport/liveTransport.js'
export type { TransportOptions } from './live/transport/settings.js'
export * from './modules/index.js'
export * from './objectives/index.js'
export * from './serve/index.js'
export * from './tracking/index.js'
export * from './training/index.js'
