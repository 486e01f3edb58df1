/** Collecting rollouts, training on them, and updating policies. */

export { agentRows } from './agentRows.js'
export {
  type CapturedBatch,
  type CapturedBatchFailure,
  type CapturedBatchOptions,
  type CapturedEntries,
  capturedBatch,
  type LeftOut,
} from './captured.js'
export {
  type DynamicSamplingOptions,
  dynamicSampling,
  type SampledBatch,
  type SampledGroup,
  type SamplingCounts,
  type SamplingDecision,
  type SamplingRule,
  samplingDecision,
} from './dynamicSampling.js'
export {
  type BatchLossOptions,
  batchLoss,
  type LossOutput,
  type LossOutputs,
  type OutputOf,
} from './learners/batchLoss.js'
export type { Learner, LearnerFailure, Update } from './learners/learner.js'
export {
  type ComputeOptions,
  type LocalLearner,
  type LocalLearnerOptions,
  localLearner,
  type PassOptions,
} from './learners/localLearner.js'
export type {
  BatchOf,
  CompletionEntries,
  DistillationBatch,
  LearnableLoss,
  LossKinds,
  MetricsOf,
  PolicyBatch,
  PPOBatch,
  PreferenceBatch,
  ValueBatch,
} from './learners/lossKinds.js'
export type { OffPolicyOptions } from './learners/policyRows.js'
export { chatBatch, pairBatch } from './learners/textBatch.js'
export {
  type MaskedBatch,
  type PreferenceLists,
  preferenceBatch,
  type TokenLists,
  tokenBatch,
} from './learners/tokenBatch.js'
export type { LoraOptions } from './learners/trainable.js'
export {
  type BatchOptions,
  type BatchSink,
  type Collected,
  type CollectorEnded,
  type CollectorFailure,
  type CollectorWeights,
  type ConcurrentCollectorOptions,
  type ConcurrentLLMCollector,
  LLMCollector,
  type LLMCollectorOptions,
} from './llmCollector.js'
export {
  type EstimatedBatch,
  formatEstimate,
  type MemoryEstimate,
  type MemoryFailure,
  type MemoryRequest,
  memoryEstimate,
} from './memoryEstimate.js'
export { type InFlightUpdaterOptions, inFlightUpdater } from './overlap/inFlightUpdater.js'
export type { OverlapCounts, OverlapDrop, OverlapRules, OverlapStart, StaleRule } from './overlap/overlapState.js'
export type { TrainedTask } from './overlap/overlapStep.js'
export { type RolloutGroups, type RolloutGroupsOptions, rolloutGroups } from './overlap/rolloutGroups.js'
export {
  type GroupSource,
  type OverlapEnd,
  type OverlapSeconds,
  type OverlapStopped,
  type PlayedTask,
  type PlayingTask,
  type PushVersion,
  type SamplerAhead,
  type SamplerAheadOptions,
  sampleAhead,
  type TakenStep,
  type TakenTask,
} from './overlap/samplerAhead.js'
export { tokenLags } from './overlap/staleRows.js'
export {
  addTask,
  type DeliveredRollout,
  deliverRollout,
  expireLeases,
  failRollout,
  groupQueue,
  type LeaseName,
  type LeaseRequest,
  leaseRollout,
  type RolloutLease,
  renewLease,
  returnRollout,
} from './queues/groupQueue.js'
export type { LeaseQueue, TaskEnd } from './queues/queueEvents.js'
export { groupQueueFromJson, groupQueueToJson } from './queues/queueJson.js'
export {
  type Changed,
  type LogRead,
  type LogRecord,
  type LogSnapshot,
  memoryQueueLog,
  type QueueFailure,
  type QueueLog,
  type RolloutBytes,
} from './queues/queueLog.js'
export type {
  DropCause,
  GroupQueueSettings,
  GroupQueueState,
  QueueRefusal,
  Settled,
} from './queues/queueState.js'
export { type RedisQueueLogOptions, redisQueueLog } from './queues/redisQueueLog.js'
export {
  type FinishedRollout,
  openRolloutQueue,
  type QueueProblem,
  type RolloutQueue,
  type RolloutQueueOptions,
  type TakenRollouts,
  type TrainerQueue,
  type WorkerQueue,
} from './queues/rolloutQueue.js'
export {
  dropTask,
  evictStale,
  fateOf,
  forgetSettled,
  type Ledger,
  ledger,
  returnTaken,
  settleGroup,
  type TakenGroup,
  type TaskFate,
  takeGroups,
} from './queues/takeGroups.js'
export type { FailedTask } from './rollouts/group.js'
export type { CollectorPosition } from './rollouts/lockstep.js'
export type { EndlessEpisode, EpisodeFailure, LateRollout, RolloutCause, ThrownRollout } from './rollouts/rollout.js'
export type {
  MemberTurns,
  RolloutBatch,
  RolloutPosition,
  RolloutsEnd,
  RolloutsStopped,
  Trajectory,
} from './rollouts/rolloutBatch.js'
export type { RolloutRun, RolloutRunOptions } from './rollouts/rolloutRun.js'
export type { ConcurrentOptions, OnRolloutFailure, TurnBatches } from './rollouts/settings.js'
export { type CollectedBatch, type TurnEntries, trajectoryReturns } from './rollouts/turnRows.js'
export {
  type DistillationMetrics,
  type DistilledRows,
  type GKDMetrics,
  type GKDStepOptions,
  gkdStep,
  type Teacher,
} from './steps/distillationStep.js'
export type { DPOMetrics } from './steps/dpoStep.js'
export {
  type LossStep,
  type LossStepOptions,
  type MeasuredLoss,
  NonFiniteLoss,
  type TrainerState,
} from './steps/lossStep.js'
export type { PPOMetrics } from './steps/ppoStep.js'
export {
  maskedRows,
  type SFTRows,
  type SFTRowsOptions,
  sftRows,
} from './steps/sftRows.js'
export type { SFTMetrics } from './steps/sftStep.js'
export type { Recompute } from './steps/stepGradients.js'
export type { StepMetrics } from './steps/stepMetrics.js'
export type { ValueMetrics } from './steps/valueStep.js'
export { type DecoderForms, type DecoderFormsOptions, decoderForms } from './updaters/decoderForms.js'
export { type EngineUpdater, engineUpdater, type UpdaterState } from './updaters/engineUpdater.js'
export type { ServerStatus } from './updaters/member.js'
export { drawProbes, type ProbeShape } from './updaters/probes.js'
export type { RecoveredServer } from './updaters/recovery.js'
export type { ProbeGap, PushFailure, PushPhase, PushReport, ServerReport } from './updaters/report.js'
export type { ProbeTolerance } from './updaters/serverRun.js'
export {
  DEFAULT_SYNC,
  type EngineUpdaterOptions,
  type PlacedWeights,
  type SyncSettings,
  type VerifyOptions,
  type WeightForms,
} from './updaters/settings.js'
export type { OnLost } from './updaters/transaction.js'
export { vLLMUpdater, type vLLMUpdaterOptions } from './updaters/vLLMUpdater.js'
export { inProcessUpdater, type WeightUpdater } from './weightSync.js'
export {
  collectFromQueue,
  parseQueuePosition,
  QUEUE_START,
  type QueueBatch,
  type QueueCollector,
  type QueueCollectorOptions,
  type QueueEnd,
  type QueuePosition,
} from './workers/queueCollector.js'
export { decodeRollout, encodeRollout } from './workers/rolloutBytes.js'
export {
  type RolloutWorkerOptions,
  runRolloutWorker,
  type WorkerEvent,
  type WorkerLimits,
  type WorkerReport,
  type WorkerStopped,
} from './workers/rolloutWorker.js'
