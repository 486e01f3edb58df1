/**
 * For those who write a package of Tandem: failures as values, checks of options, strict JSON, keys
 * of randomness, the types of effects, and helpers that several packages share. It runs in pages
 * too.
 *
 * @module
 */
export {
  type Arithmetic,
  type ArithmeticFailure,
  type ArithmeticOptions,
  exactValue,
  floatValue,
  literalsOf,
  parseArithmetic,
} from './arithmetic.js'
export { type ByteSource, memoryBytes, requireRange } from './byteSource.js'
export {
  ABORTED,
  type Cancellation,
  cancellation,
  pauseFor,
  unlessAborted,
  unlessLate,
  untilAborted,
} from './cancellation.js'
export type {
  Calendar,
  Clock,
  Environment,
  FileContents,
  Files,
  Ids,
  Locks,
  Memory,
  OpenFile,
  Output,
  Packages,
  ProcessEnd,
  Processes,
  ProcessProgram,
  RunningProcess,
  TalkingProcess,
  TalkingProgram,
  Thread,
  ThreadOptions,
  ThreadPort,
  ThreadProgram,
  Threads,
  Timers,
  Usage,
} from './capabilities.js'
export { type Cell, cell } from './cell.js'
export type { Changing } from './changing.js'
export { condition } from './condition.js'
export { countOf } from './countOf.js'
export { crc32, crc32c } from './crc32.js'
export { differingSettings } from './differingSettings.js'
export type { Digest, RunningDigest } from './digest.js'
export { evenly } from './evenly.js'
export {
  asError,
  type ConfigFailure,
  describe,
  errorMessage,
  errorNamed,
  type Failure,
  FailureError,
  type FileFailure,
  type FormatFailure,
  fileFailure,
  type LockFailure,
  type ModelFailure,
  modelFailure,
  namedMessage,
  type OutputFailure,
  orThrow,
  type ProcessFailure,
  problemList,
  type TemplateFailure,
  type ThreadFailure,
} from './failure.js'
export { sizeProblem } from './fileLimits.js'
export type { FrameReply, FrameSession, OpenFrames, SocketOptions } from './frames.js'
export { widenHalf } from './halfFloat.js'
export type { HostArray } from './hostArray.js'
export { htmlText, pagePolicy, scriptJson } from './html.js'
export type {
  Gate,
  GateDestination,
  GateFailure,
  HttpEventItem,
  HttpEvents,
  HttpFailure,
  HttpFailureKind,
  HttpReply,
  HttpRequest,
  OpenGate,
  Repeat,
  Transport,
  TransportState,
  WebFetch,
} from './http.js'
export type { Hub, HubFailure, HubFile, HubListing, HubProgress, HubRepo } from './hub.js'
export { joinBytes, joinInts } from './joinBytes.js'
export { type Json, parseJson, plainNumbers } from './json.js'
export {
  collectJsonLines,
  describeIssues,
  MOST_PROBLEMS,
  type NumberedRow,
  parseJsonLines,
  pathed,
  type ReadJsonLinesOptions,
  readJsonLines,
} from './jsonLines.js'
export { jsonSizeProblem } from './jsonSize.js'
export {
  child,
  formatKey,
  type Key,
  keyFromSeed,
  normals,
  parseKey,
  permutation,
  threefry,
  uniform,
  uniformInteger,
  uniforms,
} from './key.js'
export { lfsProblem, lfsProblemOfBytes } from './lfsPointer.js'
export { type Limiter, limiter } from './limiter.js'
export { splitLogin } from './login.js'
export { exportOf, type ModuleExport, moduleExport } from './moduleExport.js'
export { meanOf, normOf } from './moments.js'
export { optionalPackage, type PackageFailure } from './optionalPackage.js'
export { checkOptions, nearestName, notAWeight, refuse, unknownName } from './options.js'
export { ownValue } from './ownValue.js'
export { type MessageWriter, protobufWriter } from './protobuf.js'
export {
  type ProtobufField,
  protobufBytes,
  protobufDouble,
  protobufFields,
  protobufInteger,
  protobufIntegers,
  protobufText,
  protobufWork,
} from './protobufReader.js'
export { median, quantile } from './quantile.js'
export { decimalOf, floorOf, type Rational, rational } from './rational.js'
export { type RecentMap, recall, recentMap, remember } from './recentMap.js'
export { type ResourceFailure, type ResourceScope, type ResourceSpec, resourceFailure } from './resource.js'
export { type RowFailure, type RowProblem, rowFailure } from './rowFailure.js'
export {
  SANDBOX_LIMITS,
  type Sandbox,
  type SandboxEnd,
  type SandboxFailure,
  type SandboxLimits,
  type SandboxMemory,
  type SandboxOutput,
  type SandboxProgram,
  type SandboxSession,
  type SandboxStop,
  type SandboxText,
  type SandboxWait,
} from './sandbox.js'
export { constant, cosine, linear, type Schedule, warmUp } from './schedule.js'
export { fitSchema, type Issues, parseJsonAs, type Schema } from './schemaJson.js'
export { excerpt, hide, redact } from './secrets.js'
export { sipHash } from './sipHash.js'
export {
  isInexact,
  isJsonArray,
  isJsonNumber,
  isJsonObject,
  type JsonNumber,
  parseStrictJson,
  parseWrittenJson,
  plainJson,
  roundedNumber,
  type StrictJson,
  writeJson,
} from './strictJson.js'
export { type Interval, meanInterval, studentQuantile } from './studentInterval.js'
export { tarArchive } from './tar.js'
export { indexOfText } from './textSearch.js'
export { shortNumber, textTable } from './textTable.js'
export { flatten, formatShape, type Tree, type TreeShape, unflatten } from './tree.js'
export { visibleLine, visibleText } from './visibleText.js'
export { type WorkCounter, workCounter } from './workBudget.js'
