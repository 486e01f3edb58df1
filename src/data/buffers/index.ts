/** Replay buffers, samplers, selections, curricula and packing. */
export { balancedPartition, type PartitionOptions } from './balancedPartition.js'
export {
  type Curriculum,
  type CurriculumOptions,
  curriculum,
  drawTasks,
  observe,
  type TaskDraw,
  type TaskRecord,
  taskWeight,
} from './curriculum.js'
export { type HeldBuffer, holdBuffer } from './heldBuffer.js'
export { type PackRowsOptions, packRows } from './packRows.js'
export {
  type PrioritizedOptions,
  PrioritizedSampler,
  type PriorityState,
  type PriorityUpdate,
} from './prioritizedSampler.js'
export { type GroupStrategy, type PromptGroupOptions, PromptGroupSampler } from './promptGroupSampler.js'
export {
  MaxValueWriter,
  ReplayBuffer,
  type ReplayBufferOptions,
  type ReplayBufferState,
  RoundRobinWriter,
  type Sampled,
  type WritePlace,
  type Writer,
} from './replayBuffer.js'
export { decodeReplayBuffer, encodeReplayBuffer } from './replayBufferFile.js'
export {
  type Drawn,
  type DrawRequest,
  type PassState,
  RandomSampler,
  type Sampler,
  SamplerWithoutReplacement,
  type StoredRows,
  type WithoutReplacementOptions,
} from './sampler.js'
export {
  type RewardedMember,
  type TopKOutcome,
  type TopKQueue,
  TopKRewardSelector,
  type TopKRewardSelectorOptions,
} from './topKRewardSelector.js'
