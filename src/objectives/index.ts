/** Advantages, losses and optimizers as pure functions. */
export { type DegenerateGroup, type GroupAdvantageOptions, groupAdvantage } from './advantages/groupAdvantage.js'
export {
  type DropReason,
  type GroupMember,
  type GroupOutcome,
  type GroupQueue,
  MCAdvantage,
  type MCAdvantageOptions,
} from './advantages/mcAdvantage.js'
export { type Aggregation, aggregate, countsOf, type LossCounts } from './aggregation.js'
export {
  essOf,
  type GRPOCounts,
  GRPOLoss,
  type GRPOLossInput,
  type GRPOLossOptions,
  type GRPOLossOutput,
} from './grpoLoss.js'
export { type KLForm, klTerm } from './klForms.js'
export { type ClippedSurrogateOptions, clippedSurrogate } from './losses/clippedSurrogate.js'
export type { TokenLosses, TokenObjective, TokenTerms } from './losses/tokenObjective.js'
export {
  type KLTerm,
  type PolicyLoss,
  type PolicyLossInput,
  type PolicyLossOptions,
  type PolicyLossOutput,
  policyLoss,
  type TokenCorrection,
  totalLoss,
} from './policyLoss.js'
export { type AdamWOptions, type AdamWState, adamW } from './updates/adamW.js'
export { clipByGlobalNorm, globalNorm, mapNamed, type Optimizer } from './updates/optimizer.js'
