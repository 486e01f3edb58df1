/**
 * For those who serve models to clients of the Tinker protocol: a server that trains and samples in
 * this process.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export { type TinkerApp, type TinkerServerOptions, tinkerApp } from './server/app.js'
