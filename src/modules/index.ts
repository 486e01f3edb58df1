/** Models in this process: loading, saving, sampling, scoring. */
export {
  hostArrays,
  type LoadOptions,
  loadConfig,
  loadPretrained,
  loadWeights,
  type ModelText,
  makeParams,
  type Pretrained,
  pretrainedFiles,
  type TextFiles,
  type TextOptions,
  textFromFiles,
} from './pretrained.js'
export type {
  AttentionDescription,
  FeedForwardDescription,
  LayerKind,
  Norm,
  Projection,
  Residual,
  RopeScaling,
  RotaryDescription,
} from './transformer/config/description.js'
export {
  ARCHITECTURES,
  type Architecture,
  type DecoderConfig,
  formatConfig,
  parseConfig,
} from './transformer/config.js'
export {
  forwardSegment,
  type LayerCache,
  logitsOf,
  type Past,
  type Segment,
  type SegmentResult,
} from './transformer/forward.js'
export {
  type Completion,
  type CompletionGenerator,
  completionKeys,
  type GenerationOptions,
  type GenerationRequest,
  makeGenerator,
} from './transformer/generate.js'
export {
  completionBatch,
  groupPrompts,
  type PackedCompletions,
  type PromptGroups,
  packCompletions,
} from './transformer/pack.js'
export { initialParams, type Params, parameterCount, parameterShapes } from './transformer/params.js'
export { type RotaryTableOptions, type RotaryTables, rotaryTables } from './transformer/rotaryTables.js'
export { chooseToken, type TokenChoice } from './transformer/sample.js'
export { type CompletionBatch, completionLogits } from './transformer/score.js'
export { makeScorer, type Scorer } from './transformer/scorer.js'
export { type TransformersPolicy, TransformersWrapper, type TransformersWrapperOptions } from './transformersWrapper.js'
