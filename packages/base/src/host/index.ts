/**
 * For those who write a package of Tandem: this machine, its clock, its output and its packages.
 * Bundles for pages get the files of `browser` in place of those of Node.
 *
 * @module
 */
export { browser, type FileHandle, type FolderHandle } from './browser/globals.js'
export { liveCalendar, liveClock, liveTimers } from './clock.js'
export { liveDigest } from './digest.js'
export { importPackage, liveEnvironment, packagesOf, type Resolves } from './environment.js'
export {
  defaultThreads,
  environmentVariable,
  isInstalled,
  machineMemory,
  nextTurn,
  ONNXRUNTIME_PACKAGE,
  warn,
} from './host.js'
export { liveIds } from './ids.js'
export {
  commandLine,
  host,
  liveMachine,
  liveUsage,
  platform,
  processorName,
  residentBytes,
  runtimeVersion,
} from './machine.js'
export { liveOutput, print, printError } from './output.js'
export { harmless, isOwnFile, thrownText, VERBOSE, warnThrown } from './thrown.js'
