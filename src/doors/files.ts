/**
 * For those who read and write files: safetensors, JSON lines, TensorDict files, logs of
 * trajectories and TensorBoard events.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export {
  type ByteSource,
  type HostArray,
  type Json,
  memoryBytes,
  type NumberedRow,
  type PackageFailure,
  type ReadJsonLinesOptions,
  readJsonLines,
  sipHash,
} from '@tandem-rl/base'
export { fileBytes } from '@tandem-rl/host'
export type { WeightFailure } from '@tandem-rl/text'
export { decodeValue, encodeValue, type ValueCodec } from '../data/codecs/plainValues.js'
export {
  decodeSafetensors,
  encodeSafetensors,
  type FileInParts,
  type SafetensorsFile,
  type SafetensorsOptions,
  safetensorsParts,
  type WritableArray,
} from '../data/codecs/safetensors.js'
export {
  type OpenSafetensors,
  openSafetensors,
  readSafetensors,
  type SafetensorsReadFailure,
  writeSafetensors,
} from '../data/codecs/safetensorsFile.js'
export { openCheckpoint, type ShardOptions, shardedSafetensors } from '../data/codecs/safetensorsShards.js'
export {
  asInt32,
  type HostNumbers,
  type MemoryUse,
  type StorageType,
  type StoredArray,
} from '../data/codecs/storage.js'
export {
  readTensorDict,
  readTensorDictAt,
  type TensorDictOpenOptions,
  type TensorDictReadFailure,
  writeTensorDict,
} from '../data/codecs/tensorDictFile.js'
export { decodeTensorDict, decodeTensorDictAt, type TensorDictReadOptions } from '../data/codecs/tensorDictFileRead.js'
export { encodeTensorDict, type TensorDictFileOptions } from '../data/codecs/tensorDictFileWrite.js'
export {
  decodeTrajectories,
  encodeTrajectories,
  readTrajectories,
  type SalvagedTrajectories,
  salvageTrajectories,
  type TrajectoryFailure,
} from '../data/codecs/trajectories.js'
export { decodeTrajectoriesParquet, encodeTrajectoriesParquet } from '../data/codecs/trajectoriesParquet.js'
export { appendTrajectories, cutTorn, openTrajectoryLog, type TrajectoryLog } from '../data/codecs/trajectoryLog.js'
export type { NamedTensors, WeightReceiver } from '../data/weights.js'
