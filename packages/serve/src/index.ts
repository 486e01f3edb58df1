/**
 * For those who serve a model, or record what agents sample: the HTTP server with vLLM's, OpenAI's
 * and Anthropic's protocols over any engine, and the proxy that captures sessions. Importing it
 * loads no tensors.
 *
 * @module
 */
export { type ServeApp, serveApp } from './app.js'
export { type CaptureAgentOptions, type CommandAgent, capture, type RunAgent } from './capture/agent.js'
export { type CaptureApp, type CaptureOptions, captureApp } from './capture/app.js'
export { type CaptureJournal, openJournal } from './capture/journal.js'
export type { AgentContext } from './capture/program.js'
export type { CaptureLimits } from './capture/sessions.js'
export { metricsAnswer, type ReportedEngine } from './metrics.js'
export {
  DEFAULT_LIMITS,
  type ReadAdapter,
  type ServeAccess,
  type ServedModel,
  type ServedText,
  type ServeFeatures,
  type ServeLimits,
  type ServeOptions,
  type ServeWorld,
} from './requests/served.js'
