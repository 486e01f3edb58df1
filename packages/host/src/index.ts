/**
 * For those who give functions of Tandem the machine: its files, HTTP, servers, locks, processes,
 * threads, and the models and data sets of the Hugging Face hub. Importing it loads no tensors.
 *
 * @module
 */
export { givenKey, isAuthorized, mayCome } from './access.js'
export { type BodyFailure, LARGE_BODIES, readBodyBytes, SMALL_BODY, unreadBody } from './bodyBytes.js'
export { fileBytes } from './byteSource.js'
export { spawnClosed } from './descriptors.js'
export { filesBelow, liveFiles, readRegularText } from './files.js'
export { fileTimes } from './fileTimes.js'
export { liveGate } from './gate.js'
export { type HttpServer, type HttpServerOptions, type ListenFailure, liveHttpServer } from './httpServer.js'
export { type LiveHubOptions, liveHub } from './hub.js'
export { inflateRaw } from './inflate.js'
export { lineReader } from './lineReader.js'
export { type LockState, liveLocks, lockState } from './lock.js'
export { liveMemory } from './memory.js'
export { isBelow } from './paths.js'
export { liveProcesses } from './processes.js'
export { reportError } from './reportError.js'
export { temporaryFolder } from './temporaryFolder.js'
export { textTail } from './textTail.js'
export { answerJobs, type JobFailure, type ThreadJobs, threadJobs } from './threadJobs.js'
export { liveThreads } from './threads.js'
export { liveTransport } from './transport/liveTransport.js'
export { isLoopback } from './transport/loopback.js'
export { plainRequest } from './transport/plainRequest.js'
export { pauseMs, retryAfterMs } from './transport/retry.js'
export type { TransportOptions } from './transport/settings.js'
export { liveWebFetch, type WebFetchOptions } from './transport/webFetch.js'
