/**
 * For those who sample beside training or on several machines: collectors that run ahead, single
 * rollouts, replay buffers, dynamic sampling and packing.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export {
  type CapturedBatch,
  type CapturedBatchFailure,
  type CapturedBatchOptions,
  type CapturedEntries,
  capturedBatch,
  type OmittedSession,
} from '../collectors/captured.js'
export {
  type DynamicSamplingOptions,
  dynamicSampling,
  type SampledBatch,
  type SampledGroup,
  type SamplingCounts,
  type SamplingDecision,
  type SamplingRule,
  samplingDecision,
} from '../collectors/dynamicSampling.js'
export type { BatchSink, CollectorWeights } from '../collectors/llmCollector.js'
export { type InFlightUpdaterOptions, inFlightUpdater } from '../collectors/overlap/inFlightUpdater.js'
export type { PushVersion } from '../collectors/overlap/overlapDriver.js'
export type { OverlapSeconds } from '../collectors/overlap/overlapSeconds.js'
export type {
  OverlapCounts,
  OverlapDrop,
  OverlapStart,
  StaleRule,
} from '../collectors/overlap/overlapState.js'
export type { TrainedTask } from '../collectors/overlap/overlapStep.js'
export { type RolloutGroups, type RolloutGroupsOptions, rolloutGroups } from '../collectors/overlap/rolloutGroups.js'
export type { GroupSource, PlayedTask, PlayingTask } from '../collectors/overlap/sampledGroups.js'
export {
  type OverlapEnd,
  type OverlapStopped,
  type SamplerAhead,
  type SamplerAheadOptions,
  sampleAhead,
  type TakenStep,
  type TakenTask,
} from '../collectors/overlap/samplerAhead.js'
export type { FailedTask } from '../collectors/rollouts/group.js'
export type { CollectorPosition } from '../collectors/rollouts/lockstep.js'
export { playMember } from '../collectors/rollouts/playMember.js'
export type {
  EndlessEpisode,
  EpisodeFailure,
  LateRollout,
  PlayedRollout,
  RolloutCause,
  RolloutRules,
  ThrownRollout,
} from '../collectors/rollouts/rollout.js'
export type {
  MemberTurns,
  RolloutBatch,
  RolloutPosition,
  RolloutsEnd,
  RolloutsStopped,
  Trajectory,
} from '../collectors/rollouts/rolloutBatch.js'
export type { RolloutRun, RolloutRunOptions } from '../collectors/rollouts/rolloutRun.js'
export type { ConcurrentOptions, OnRolloutFailure, TurnBatches } from '../collectors/rollouts/settings.js'
export { trajectoryReturns } from '../collectors/rollouts/turnRows.js'
export { segmentRows } from '../collectors/segmentRows.js'
export { balancedPartition, type PartitionOptions } from '../data/buffers/balancedPartition.js'
export {
  type Curriculum,
  type CurriculumOptions,
  curriculum,
  drawTasks,
  observe,
  type TaskDraw,
  type TaskRecord,
} from '../data/buffers/curriculum.js'
export { type HeldBuffer, holdBuffer } from '../data/buffers/heldBuffer.js'
export { type PackRowsOptions, packRows } from '../data/buffers/packRows.js'
export {
  type PrioritizedOptions,
  PrioritizedSampler,
  type PriorityState,
  type PriorityUpdate,
} from '../data/buffers/prioritizedSampler.js'
export { type GroupStrategy, type PromptGroupOptions, PromptGroupSampler } from '../data/buffers/promptGroupSampler.js'
export {
  maxValueWriter,
  ReplayBuffer,
  type ReplayBufferOptions,
  type ReplayBufferState,
  RoundRobinWriter,
  type Sampled,
  type WritePlace,
  type Writer,
} from '../data/buffers/replayBuffer.js'
export { decodeReplayBuffer, encodeReplayBuffer } from '../data/buffers/replayBufferFile.js'
export {
  type Drawn,
  type DrawRequest,
  type PassState,
  RandomSampler,
  type Sampler,
  SamplerWithoutReplacement,
  type StoredRows,
  type WithoutReplacementOptions,
} from '../data/buffers/sampler.js'
export {
  type RewardedMember,
  type TopKOutcome,
  type TopKQueue,
  TopKRewardSelector,
  type TopKRewardSelectorOptions,
} from '../data/buffers/topKRewardSelector.js'
export { tokenLags } from '../learners/staleRows.js'
