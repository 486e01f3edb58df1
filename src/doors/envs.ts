/**
 * For those who write environments and transforms: the parts that ours are made of, the entries
 * that each transform adds, and the less common environments. Everyday ones are in the root.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type { AnswerState, UnrewardedState } from '../envs/answerEnv.js'
export {
  addEnds,
  addReward,
  type EnvSpecs,
  endedRows,
  nextRequest,
  outcomeSpec,
  type StepBetween,
} from '../envs/base/env.js'
export type { Episode, SharedEnvironment } from '../envs/base/episode.js'
export { type EnvParts, makeEnv } from '../envs/base/makeEnv.js'
export type { ToolFailure } from '../envs/base/toolFailure.js'
export { COUNTDOWN_SYSTEM_PROMPT } from '../envs/countdownEnv.js'
export type { DatasetChatState, DrawnChats, NoColumns } from '../envs/datasetChatEnv.js'
export { type EnvOfTask, envOfTask } from '../envs/envOfTask.js'
export { GSM8K_SYSTEM_PROMPT } from '../envs/gsm8kEnv.js'
export { IFEVAL_SYSTEM_PROMPT, type IFEvalState } from '../envs/ifEvalEnv.js'
export { type LLMTextEnvOptions, llmTextEnv, type TextResponse, type TokenResponse } from '../envs/llmEnv.js'
export {
  decodedPrompt,
  type Hashing,
  hashTokens,
  LLMHashingEnv,
  type LLMHashingEnvOptions,
  type LLMHashingState,
  nextHash,
} from '../envs/llmHashingEnv.js'
export {
  GSM8KPrepareQuestion,
  type GSM8KPrepareQuestionOptions,
  type MakeGSM8KEnvOptions,
  type MakeGSM8KState,
} from '../envs/makeGSM8KEnv.js'
export { MATH_SYSTEM_PROMPT } from '../envs/mathEnv.js'
export type { MultiTurnEntries, TurnParts, TurnResult, TurnReward } from '../envs/multiTurnEnv.js'
export { rewardAtMost, type ThinkingEntries } from '../envs/transforms/addThinkingPrompt.js'
export type {
  DrawnRow,
  Kept,
  Primed,
  QuestionSpec,
  SourcePosition,
  SourceRow,
  TaskColumns,
  TaskEntries,
  TaskEntry,
} from '../envs/transforms/dataLoadingPrimer.js'
export { episodesOf } from '../envs/transforms/episode.js'
export type { FormatEntries } from '../envs/transforms/formatPenalty.js'
export type { KeptEntries } from '../envs/transforms/keptReply.js'
export type { KLPenaltyOptions } from '../envs/transforms/klComputation.js'
export type { LengthEntries } from '../envs/transforms/overlongPenalty.js'
export type { InputMode } from '../envs/transforms/responses.js'
export type { LogProbRows } from '../envs/transforms/retrieveLogProb.js'
export { type OnAnswer, type PartEntries, type RewardKey, rewardKey } from '../envs/transforms/rewardEntries.js'
export type { RewardReading, When } from '../envs/transforms/rewardTransform.js'
export type { PromptOf, ScoreInput, TokensInput } from '../envs/transforms/scoreInput.js'
export type { SegmentEntries } from '../envs/transforms/segments.js'
export type { BudgetEntries } from '../envs/transforms/tokenBudget.js'
