/**
 * For those who test their own transforms, environments, rewards, advantages, policies and codecs:
 * law kits, arbitraries, scripted policies and environments, matchers and leak checks. They work
 * with any test runner and need fast-check.
 *
 * @module
 */
export { type AdvantageSample, advantageLaws, type RatedBatch, type RatedTurn, ratedBatch } from './advantageLaws.js'
export {
  anyHistory,
  anyKey,
  anyMessage,
  anyTask,
  anyTensorDict,
  type TensorDictOptions,
  type TensorDictRecipe,
} from './arbitraries.js'
export { type CloseTolerance, type NestedNumbers, requireClose, requireCloseTensor } from './close.js'
export { type Codec, type CodecParts, type CodecSample, codecLaws } from './codecLaws.js'
export { type EnvSample, envLaws } from './envLaws.js'
export { type FakeClock, fakeClock } from './fakeClock.js'
export { type Fault, type FaultPlan, type FaultyCall, failNth, withFaults } from './faults.js'
export { checkLaws, type Law, type NumberedLaw } from './law.js'
export { leakChecks, type RunnerHooks, withoutLeaks } from './leaks.js'
export { type MatcherResult, type TandemMatchers, tandemMatchers } from './matchers.js'
export { historyActionSpec, type PolicySample, policyLaws, textActionSpec, tokenActionSpec } from './policyLaws.js'
export { requireLeft, requireRight } from './results.js'
export { type RewardLawOptions, type RewardSample, rewardLaws } from './rewardLaws.js'
export { requireCloseTensorDict, requireEqualTensorDict } from './sameTensorDict.js'
export { type ScriptedEpisode, type ScriptedState, scriptedEnv } from './scriptedEnv.js'
export {
  type PolicyScript,
  policyFailure,
  type ScriptedCall,
  type ScriptedMessage,
  type ScriptedPolicy,
  type ScriptedText,
  type ScriptedTokens,
  scriptedHistoryPolicy,
  scriptedPolicy,
  scriptedTextPolicy,
  type TokenScript,
} from './scriptedPolicy.js'
export { anyOfSpec, type RecipeOf, type ValueArbitraries } from './specArbitraries.js'
export {
  type AnyTrajectoryOptions,
  anyGroups,
  anyTrajectories,
  type CollectedBatchesOptions,
  collectedBatches,
  type RewardGroup,
  type TrajectoryRecipe,
  type TrajectoryState,
} from './trajectoryArbitraries.js'
export { trajectoryProblems } from './trajectoryProblems.js'
export { erased, type TransformSample, transformLaws } from './transformLaws.js'
export { anyTransformSample, type TransformSampleOptions } from './transformSamples.js'
