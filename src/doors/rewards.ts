/**
 * For those who score answers: rewards for math, code, formats, instructions and text matches,
 * judges, weighted sums, and parsers that turn replies into rewards. `reward` makes a reward of a
 * function.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type { RewardKLForm } from '../data/rewardKL.js'
export type { AnswerReward, AnswerRewardOptions } from '../envs/rewards/answerScore.js'
export {
  type CountdownGoal,
  type CountdownRow,
  type CountdownTaskOptions,
  countdownProblem,
  countdownReward,
  countdownTasks,
} from '../envs/rewards/countdown.js'
export { type FormatRule, type FormatScoreOptions, formatReward } from '../envs/rewards/format.js'
export { type GSM8KReward, type GSM8KRewardOptions, gsm8kAnswerReward, gsm8kReward } from '../envs/rewards/gsm8k.js'
export type { CheckContext } from '../envs/rewards/ifEval/check.js'
export {
  type IfEvalAggregator,
  type IfEvalReading,
  type IfEvalReward,
  type IfEvalRewardOptions,
  type IfEvalScored,
  type IfEvalWeights,
  ifEvalReward,
  weightedIfEval,
} from '../envs/rewards/ifEval/ifEvalReward.js'
export { type IFEvalScoreData, ifEvalScore } from '../envs/rewards/ifEval/ifEvalScore.js'
export { type LanguageDetector, loadLanguageDetector } from '../envs/rewards/ifEval/language.js'
export { JUDGE_VERDICT, type JudgeOptions, type JudgeVerdict, judgeReward } from '../envs/rewards/judge.js'
export { computeEngineOpinion } from '../envs/rewards/math/computeEngine.js'
export { type AnswerPlace, mathAnswerOf } from '../envs/rewards/math/mathAnswer.js'
export { type MathRewardOptions, mathReward, type Opinion } from '../envs/rewards/math/mathReward.js'
export { sameAnswer } from '../envs/rewards/math/sameAnswer.js'
export { type OverlongOptions, overlongReward } from '../envs/rewards/overlong.js'
export { type RankingRewardOptions, rankingReward } from '../envs/rewards/ranking.js'
export type {
  Answered,
  AnyReward,
  Reward,
  RewardFailure,
  RewardService,
  ScoreContext,
  Scored,
} from '../envs/rewards/reward.js'
export {
  type RewardArguments,
  type RewardFunction,
  type RewardOptions,
  type RewardParts,
  type RewardScene,
  type RewardValue,
  reward,
} from '../envs/rewards/rewardFunction.js'
export {
  type ExactMatchOptions,
  exactMatch,
  type TextRewardOptions,
  type TokenF1Options,
  tokenF1,
  tokenF1Reward,
} from '../envs/rewards/textMatch.js'
export { type GatedRewardOptions, type ToolUseOptions, thinkReward, toolUseReward } from '../envs/rewards/toolUse.js'
export { type WeightedRewardOptions, weightedReward, weightedService } from '../envs/rewards/weightedReward.js'
export { type WorldRewardOptions, worldReward } from '../envs/rewards/worldReward.js'
export type {
  AnswerParts,
  CountdownRewardParserOptions,
  GSM8KRewardParserOptions,
  MATHRewardParserOptions,
  ParserOptions,
} from '../envs/transforms/answerParsers.js'
export type { IfEvalEntries, IfEvalScorerOptions } from '../envs/transforms/ifEvalScorer.js'
