/**
 * For those who give functions of Tandem the machine's files, start processes, or serve HTTP: the
 * effects that other modules take as arguments. Importing it loads no tensors.
 *
 * @module
 */
export { filesBelow, liveFiles } from '../live/files.js'
export { type HttpServer, type HttpServerOptions, type ListenFailure, liveHttpServer } from '../live/httpServer.js'
export { liveLocks } from '../live/lock.js'
export { liveProcesses } from '../live/processes.js'
