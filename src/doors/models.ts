/**
 * For those who make, load and save models: Hugging Face folders, adapters (LoRA), value heads, new
 * models, the decoder and its configuration, and estimates of memory.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type { Completions } from '../data/completions.js'
export type { EstimatedBatch, MemoryFailure, MemoryRequest } from '../learners/memoryEstimate.js'
export type { HistoryTokens } from '../modules/historyPolicy.js'
export { type Adapter, initialLora, type LoraParams, mergeLora, withLora } from '../modules/lora/adapter.js'
export { type LoraConfig, type LoraScaling, loraConfig } from '../modules/lora/config.js'
export { type AdapterFilesOptions, adapterFiles, type LoadedAdapter, loadAdapter } from '../modules/lora/peft.js'
export { adapterWeights } from '../modules/lora/weights.js'
export {
  BARE_CHAT,
  CHAT_ML,
  type ChatFormat,
  type FallbackFormat,
  PLAIN_CHAT,
} from '../modules/pretrained/chatFormats.js'
export { samplingDefaults } from '../modules/pretrained/modelConfig.js'
export {
  type ModelSizes,
  type NewModelOptions,
  type NewTokenizer,
  newModel,
} from '../modules/pretrained/newModel.js'
export {
  hostArrays,
  type LoadOptions,
  loadConfig,
  loadText,
  loadWeights,
  makeParams,
  type TextOptions,
} from '../modules/pretrained/pretrained.js'
export { type PretrainedFilesOptions, pretrainedFiles, type SaveOptions } from '../modules/pretrained/saveModel.js'
export { sharedParams } from '../modules/pretrained/sharedParams.js'
export { untieEmbeddings } from '../modules/pretrained/untie.js'
export { type TextEmbeddingOptions, textEmbedding } from '../modules/textEmbedding.js'
export type {
  Architecture,
  AttentionDescription,
  DecoderConfig,
  FeedForwardDescription,
  LayerKind,
  Norm,
  Projection,
  Residual,
  RopeScaling,
  RotaryDescription,
} from '../modules/transformer/config/description.js'
export { formatConfig, parseConfig } from '../modules/transformer/config.js'
export type { FilledPlaces } from '../modules/transformer/filledPlaces.js'
export {
  forwardSegment,
  type LayerCache,
  logitsOf,
  type Past,
  type Segment,
  type SegmentResult,
} from '../modules/transformer/forward.js'
export { completionBatch } from '../modules/transformer/pack.js'
export { initialParams, type Params, parameterCount, parameterShapes } from '../modules/transformer/params.js'
export { type RotaryTableOptions, type RotaryTables, rotaryTables } from '../modules/transformer/rotaryTables.js'
export { type CompletionBatch, completionLogits } from '../modules/transformer/score.js'
export { makeScorer, type Scorer } from '../modules/transformer/scorer.js'
export { initialValueHead, withoutValueHead } from '../modules/valueHead.js'
