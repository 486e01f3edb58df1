/** Serving a model over HTTP with vLLM's protocol. */

export { type ServeApp, serveApp } from './app.js'
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
} from './served.js'
