/** Serving a model over HTTP with vLLM's protocol. */

export { type ServeApp, serveApp } from './app.js'
export { type CaptureApp, type CaptureOptions, captureApp } from './capture/app.js'
export { clientEngine } from './capture/clientEngine.js'
export { type CaptureJournal, openJournal } from './capture/journal.js'
export { type RecordedCompletion, type RecordedGeneration, recordingEngine } from './capture/recording.js'
export type { CaptureLimits } from './capture/sessions.js'
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
