/**
 * Law kits, arbitraries, scripted policies and environments, matchers and leak checks, for testing
 * your own transforms, environments, rewards, advantages, policies and codecs with any test runner.
 * Needs fast-check.
 */
export {
  type AdvantageSample,
  advantageLaws,
  anyRatedTurns,
  type RatedBatch,
  type RatedTurn,
  ratedBatch,
} from './advantageLaws.js'
export {
  anyBatchShape,
  anyHistory,
  anyKey,
  anyMessage,
  anyName,
  anyRagged,
  anyTask,
  anyTensorDict,
  type TensorDictOptions,
  type TensorDictRecipe,
} from './arbitraries.js'
export { type NestedNumbers, requireClose, requireCloseTensor, type Tolerance } from './close.js'
export { type Codec, type CodecParts, type CodecSample, codecLaws } from './codecLaws.js'
export { type EnvSample, envLaws } from './envLaws.js'
export { type FakeClock, fakeClock } from './fakeClock.js'
export { type Fault, type FaultPlan, type FaultyCall, failNth, withFaults } from './faults.js'
export { checkLaws, type Law, type NumberedLaw } from './law.js'
export { leakChecks, type RunnerHooks, withoutLeaks } from './leaks.js'
export { type MatcherResult, type TandemMatchers, tandemMatchers } from './matchers.js'
export { historyActionSpec, type PolicySample, policyLaws, textActionSpec, tokenActionSpec } from './policyLaws.js'
export { requireLeft, requireRight } from './results.js'
export { hostileReplies, type RewardLawOptions, type RewardSample, rewardLaws } from './rewardLaws.js'
export { requireCloseTensorDict, requireEqualTensorDict } from './sameTensorDict.js'
export { ScriptedEnv, type ScriptedEpisode, type ScriptedState } from './scriptedEnv.js'
export {
  type PolicyScript,
  policyFailure,
  type ScriptedCall,
  ScriptedHistoryPolicy,
  type ScriptedMessage,
  ScriptedPolicy,
  type ScriptedText,
  ScriptedTextPolicy,
  type ScriptedTokens,
  type TokenScript,
} from './scriptedPolicy.js'
export { anyOfSpec, anySpec, type RecipeOf, type ValueArbitraries } from './specArbitraries.js'
export {
  anyGroupRewards,
  anyGroups,
  anyTrajectories,
  type CollectedBatchesOptions,
  collectedBatches,
  type RewardGroup,
  type TrajectoryOptions,
  type TrajectoryRecipe,
  type TrajectoryState,
} from './trajectoryArbitraries.js'
export { collectedSpec, trajectoryProblems } from './trajectoryProblems.js'
export { erased, type TransformSample, transformLaws } from './transformLaws.js'
export { anyTransformSample, type TransformSampleOptions } from './transformSamples.js'
