/**
 * For those who test their own transforms, environments, games, rewards, advantages, policies and
 * codecs: law kits, arbitraries, scripted policies and environments, matchers and leak checks. They
 * work with any test runner and need fast-check.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export {
  type AdvantageSample,
  advantageLaws,
  type RatedBatch,
  type RatedTurn,
  ratedBatch,
} from '../testing/advantageLaws.js'
export {
  anyHistory,
  anyKey,
  anyMessage,
  anyTask,
  anyTensorDict,
  type TensorDictOptions,
  type TensorDictRecipe,
} from '../testing/arbitraries.js'
export { type CloseTolerance, type NestedNumbers, requireClose, requireCloseTensor } from '../testing/close.js'
export { type Codec, type CodecParts, type CodecSample, codecLaws } from '../testing/codecLaws.js'
export { type EnvSample, envLaws } from '../testing/envLaws.js'
export { type FakeClock, fakeClock } from '../testing/fakeClock.js'
export { type Fault, type FaultPlan, type FaultyCall, failNth, withFaults } from '../testing/faults.js'
export { type GameLawOptions, gameLaws } from '../testing/gameLaws.js'
export { checkLaws, type Law, type NumberedLaw } from '../testing/law.js'
export { leakChecks, type RunnerHooks, withoutLeaks } from '../testing/leaks.js'
export { type MatcherResult, type TandemMatchers, tandemMatchers } from '../testing/matchers.js'
export {
  historyActionSpec,
  type PolicySample,
  policyLaws,
  textActionSpec,
  tokenActionSpec,
} from '../testing/policyLaws.js'
export { requireLeft, requireRight } from '../testing/results.js'
export { type RewardLawOptions, type RewardSample, rewardLaws } from '../testing/rewardLaws.js'
export { requireCloseTensorDict, requireEqualTensorDict } from '../testing/sameTensorDict.js'
export { type ScriptedEpisode, type ScriptedState, scriptedEnv } from '../testing/scriptedEnv.js'
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
} from '../testing/scriptedPolicy.js'
export { anyOfSpec, type RecipeOf, type ValueArbitraries } from '../testing/specArbitraries.js'
export {
  type AnyTrajectoryOptions,
  anyGroups,
  anyTrajectories,
  type CollectedBatchesOptions,
  collectedBatches,
  type RewardGroup,
  type TrajectoryRecipe,
  type TrajectoryState,
} from '../testing/trajectoryArbitraries.js'
export { trajectoryProblems } from '../testing/trajectoryProblems.js'
export { erased, type TransformSample, transformLaws } from '../testing/transformLaws.js'
export { anyTransformSample, type TransformSampleOptions } from '../testing/transformSamples.js'
