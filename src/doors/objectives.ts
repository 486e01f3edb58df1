/**
 * For those who choose or write an objective: the losses of tokens, estimators of advantages,
 * corrections for off-policy samples, KL control and optimizers, one by one. The everyday ones are
 * in the root.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type { ModuleExport } from '@tandem-rl/base'
export type { MaskedTokensOptions } from '../data/applyChatTemplate.js'
export { type Auxiliary, type GradientsOf, type GradSchema, gradientsOf } from '../data/gradients.js'
export { masked } from '../data/tensorDict/masked.js'
export { type MaskChoice, maskOfSpans, sampledTokens, tokensOfRoles } from '../data/tokenMasks.js'
export { type BatchLossOptions, batchLoss } from '../learners/batchLoss.js'
export type { PlaceLoss } from '../learners/modelArithmetic.js'
export { type ModelTrainer, modelTrainer, type TrainedModel, type TrainedWeights } from '../learners/modelTrainer.js'
export {
  type LogProbGradient,
  type RemoteLearnerOptions,
  type RemoteTrainer,
  remoteLearner,
} from '../learners/remoteLearner.js'
export { NonFiniteLoss } from '../learners/steps/lossStep.js'
export { type SFTRows, type SFTRowsOptions, sftRows } from '../learners/steps/sftRows.js'
export type { Recompute } from '../learners/steps/stepGradients.js'
export type { PreferenceLists, TokenLists } from '../learners/tokenBatch.js'
export type { Advantage, DroppedGroup, EstimatedEntries, RewardedTurns } from '../objectives/advantages/advantage.js'
export {
  type BatchAdvantageOptions,
  batchAdvantage,
  type Estimator,
  type GroupRule,
  type TrajectoryEntries,
  type TrajectoryRows,
} from '../objectives/advantages/batchAdvantage.js'
export {
  type DegenerateGroup,
  type GroupAdvantageOptions,
  groupAdvantage,
} from '../objectives/advantages/groupAdvantage.js'
export {
  gdpoAdvantage,
  gpgAdvantage,
  grpoAdvantage,
  opoAdvantage,
  passKAdvantage,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
  type SingleOptions,
  type WeightedRewards,
} from '../objectives/advantages/outcome.js'
export { type RewardedRows, type TokenAdvantages, type TokenRows, whiten } from '../objectives/advantages/rows.js'
export {
  type SegmentGAEOptions,
  type SegmentRule,
  segmentGAE,
  segmentRewards,
} from '../objectives/advantages/segments.js'
export {
  type Estimated,
  type GAEOptions,
  gae,
  type OptimalTokenBaselineOptions,
  optimalTokenBaseline,
  reinforcePlusPlus,
  remaxAdvantage,
  type TokenProbabilities,
  type VTraceOptions,
  vTrace,
} from '../objectives/advantages/temporal.js'
export { type OffPolicyTurns, type ValuedTurns, VTrace } from '../objectives/advantages/valueAdvantages.js'
export {
  ALGORITHM_NAMES,
  ALGORITHMS,
  type Algorithm,
  type AlgorithmName,
  type AlgorithmOptions,
  algorithmLoss,
  type ClipPair,
} from '../objectives/algorithms.js'
export {
  type DistillationLossInput,
  type DistillationLossOptions,
  type DistillationLossOutput,
  type DistillationMetrics,
  type VocabularyDivergence,
  vocabularyDivergence,
} from '../objectives/distillationLoss.js'
export type { DPOLoss, DPOLossInput, DPOLossOutput, DPOMetrics } from '../objectives/dpoLoss.js'
export { essOf } from '../objectives/ess.js'
export {
  AdaptiveKLController,
  type AdaptiveKLOptions,
  ConstantKLController,
  type KLController,
  type KLRewardOptions,
  klPenalizedRewards,
} from '../objectives/klControl.js'
export {
  type AnyLoss,
  type LossMeasures,
  type LossMetrics,
  type LossNeeds,
  type LossOptions,
  type LossOutput,
  type LossSelection,
  type LossTensors,
  type ModelOutputs,
  type ScalarMetrics,
  type StepSums,
  type TensorsOf,
  type TokenTensors,
  totalLoss,
} from '../objectives/loss.js'
export type { EntriesOf, LossLists, LossRows, RowList } from '../objectives/lossRows.js'
export type {
  KLTerm,
  PolicyLossInput,
  PolicyLossOptions,
  PolicyLossOutput,
  PolicyOutputs,
} from '../objectives/policyLoss.js'
export type { StepMetrics } from '../objectives/policyMetrics.js'
export type { PPOLoss, PPOLossInput, PPOLossOptions, PPOLossOutput, PPOMetrics } from '../objectives/ppoLoss.js'
export type {
  RewardModelLoss,
  RewardModelLossInput,
  RewardModelLossOptions,
  RewardModelLossOutput,
  RewardModelMetrics,
} from '../objectives/rewardModelLoss.js'
export {
  type CorrectionMetrics,
  type CorrectionWeights,
  type Rejection,
  type RejectionStatistic,
  type RolloutCorrection,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../objectives/rolloutCorrection.js'
export type { SFTLossInput, SFTLossOptions, SFTLossOutput, SFTMetrics } from '../objectives/sftLoss.js'
export { type Aggregation, aggregate, countsOf, type LossCounts } from '../objectives/tokenLosses/aggregation.js'
export { type CISPOOptions, cispo } from '../objectives/tokenLosses/cispo.js'
export { type ClippedSurrogateOptions, clippedSurrogate } from '../objectives/tokenLosses/clippedSurrogate.js'
export type { ClipEpsilon } from '../objectives/tokenLosses/clipRange.js'
export { type ClipCovOptions, clipCov, type KLCovOptions, klCov } from '../objectives/tokenLosses/covariance.js'
export { type DPPOOptions, dppo } from '../objectives/tokenLosses/dppo.js'
export { type DROOptions, dro } from '../objectives/tokenLosses/dro.js'
export { type GMPOOptions, gmpo } from '../objectives/tokenLosses/gmpo.js'
export { type GSPOOptions, gspo } from '../objectives/tokenLosses/gspo.js'
export { type KLForm, klTerm } from '../objectives/tokenLosses/klForms.js'
export { luspo } from '../objectives/tokenLosses/luspo.js'
export { policyGradient } from '../objectives/tokenLosses/policyGradient.js'
export { type SAPOOptions, sapo } from '../objectives/tokenLosses/sapo.js'
export type { TokenObjective, TokenTerms } from '../objectives/tokenLosses/tokenObjective.js'
export { type GammaWeight, type VESPOOptions, vespo } from '../objectives/tokenLosses/vespo.js'
export { highEntropyWeights, offPolicyWeights } from '../objectives/tokenWeights.js'
export type { AdafactorOptions, AdafactorState } from '../objectives/updates/adafactor.js'
export type { AdamWState } from '../objectives/updates/adamW.js'
export { type AnyOptimizer, type GroupedState, grouped, type ParameterGroup } from '../objectives/updates/grouped.js'
export type { LearningRate, RateOptions } from '../objectives/updates/learningRate.js'
export type { LionOptions, LionState } from '../objectives/updates/lion.js'
export { type MuonOptions, type MuonState, orthogonalized } from '../objectives/updates/muon.js'
export { clipByGlobalNorm, globalNorm, mapNamed } from '../objectives/updates/optimizer.js'
export type { SGDOptions, SGDState } from '../objectives/updates/sgd.js'
export { type WeightAverage, weightAverage } from '../objectives/updates/weightAverage.js'
export type {
  ValueLoss,
  ValueLossInput,
  ValueLossOptions,
  ValueLossOutput,
  ValueMetrics,
} from '../objectives/valueLoss.js'
