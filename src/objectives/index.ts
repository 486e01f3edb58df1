/** Advantages, losses and optimizers as pure functions. */

export type {
  Advantage,
  DroppedGroup,
  EstimatedEntries,
  RewardedTurns,
} from './advantages/advantage.js'
export {
  type BatchAdvantageOptions,
  batchAdvantage,
  type Estimator,
  type GroupRule,
  type TrajectoryEntries,
  type TrajectoryRows,
} from './advantages/batchAdvantage.js'
export { type DegenerateGroup, type GroupAdvantageOptions, groupAdvantage } from './advantages/groupAdvantage.js'
export { MCAdvantage, type MCAdvantageOptions } from './advantages/mcAdvantage.js'
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
} from './advantages/outcome.js'
export { type RewardedRows, type TokenAdvantages, type TokenRows, whiten } from './advantages/rows.js'
export {
  type SegmentGAEOptions,
  type SegmentRule,
  segmentGAE,
  segmentRewards,
} from './advantages/segments.js'
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
} from './advantages/temporal.js'
export { GAE, type OffPolicyTurns, type ValuedTurns, VTrace } from './advantages/valueAdvantages.js'
export {
  ALGORITHM_NAMES,
  ALGORITHMS,
  type Algorithm,
  type AlgorithmName,
  type AlgorithmOptions,
  algorithmLoss,
  type ClipPair,
} from './algorithms.js'
export {
  DistillationLoss,
  type DistillationLossInput,
  type DistillationLossOptions,
  type DistillationLossOutput,
  type VocabularyDivergence,
  vocabularyDivergence,
} from './distillationLoss.js'
export {
  type DPOLoss,
  type DPOLossInput,
  type DPOLossOptions,
  type DPOLossOutput,
  type DPOSide,
  dpoLoss,
} from './dpoLoss.js'
export {
  essOf,
  type GRPOCounts,
  GRPOLoss,
  type GRPOLossInput,
  type GRPOLossOptions,
  type GRPOLossOutput,
} from './grpoLoss.js'
export {
  type AdaptiveKLOptions,
  adaptiveKLController,
  constantKLController,
  type KLController,
  type KLRewardOptions,
  klPenalizedRewards,
} from './klControl.js'
export { type AnyLoss, type LossDescription, lossDescription, lossOfDescription } from './lossDescription.js'
export { type Aggregation, aggregate, countsOf, type LossCounts } from './losses/aggregation.js'
export { type CISPOOptions, cispo } from './losses/cispo.js'
export { type ClippedSurrogateOptions, clippedSurrogate } from './losses/clippedSurrogate.js'
export type { ClipEpsilon } from './losses/clipRange.js'
export { type ClipCovOptions, clipCov, type KLCovOptions, klCov } from './losses/covariance.js'
export { type DPPOOptions, dppo } from './losses/dppo.js'
export { type DROOptions, dro } from './losses/dro.js'
export { type GMPOOptions, gmpo } from './losses/gmpo.js'
export { type GSPOOptions, gspo } from './losses/gspo.js'
export { type KLForm, klTerm } from './losses/klForms.js'
export { luspo } from './losses/luspo.js'
export { policyGradient } from './losses/policyGradient.js'
export { type SAPOOptions, sapo } from './losses/sapo.js'
export type { TokenLosses, TokenObjective, TokenTerms } from './losses/tokenObjective.js'
export { type GammaWeight, type VESPOOptions, vespo } from './losses/vespo.js'
export {
  type KLTerm,
  type OptionalInput,
  type PolicyLoss,
  type PolicyLossInput,
  type PolicyLossOptions,
  type PolicyLossOutput,
  policyLoss,
  totalLoss,
} from './policyLoss.js'
export { type PPOLoss, type PPOLossOptions, ppoLoss } from './ppoLoss.js'
export {
  type RewardModelLoss,
  type RewardModelLossInput,
  type RewardModelLossOptions,
  type RewardModelLossOutput,
  rewardModelLoss,
} from './rewardModelLoss.js'
export {
  type CorrectionMetrics,
  type CorrectionWeights,
  type Rejection,
  type RejectionStatistic,
  type RolloutCorrection,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from './rolloutCorrection.js'
export { SFTLoss, type SFTLossInput, type SFTLossOptions, type SFTLossOutput } from './sftLoss.js'
export { highEntropyWeights, offPolicyWeights } from './tokenWeights.js'
export { type AdafactorOptions, type AdafactorState, adafactor } from './updates/adafactor.js'
export { type AdamWOptions, type AdamWState, adamW } from './updates/adamW.js'
export { type AnyOptimizer, type GroupedState, grouped, type ParameterGroup } from './updates/grouped.js'
export type { LearningRate, RateOptions } from './updates/learningRate.js'
export { type LionOptions, type LionState, lion } from './updates/lion.js'
export { type MuonOptions, type MuonState, muon, orthogonalized } from './updates/muon.js'
export { clipByGlobalNorm, globalNorm, mapNamed, type Optimizer } from './updates/optimizer.js'
export { type SGDOptions, type SGDState, sgd } from './updates/sgd.js'
export { type WeightAverage, weightAverage } from './updates/weightAverage.js'
export {
  type ValueLoss,
  type ValueLossInput,
  type ValueLossOptions,
  type ValueLossOutput,
  valueLoss,
} from './valueLoss.js'
