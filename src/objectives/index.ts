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
export {
  essOf,
  type GRPOCounts,
  GRPOLoss,
  type GRPOLossInput,
  type GRPOLossOptions,
  type GRPOLossOutput,
  k3,
  totalLoss,
} from './grpoLoss.js'
export { type AdamWOptions, type AdamWState, adamW } from './updates/adamW.js'
export { clipByGlobalNorm, globalNorm, mapNamed, type Optimizer } from './updates/optimizer.js'
