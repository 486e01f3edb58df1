/** Environments, transforms and rewards. */
export { type AgentSpeech, AgentTemplate, type AgentTemplateOptions } from './agents/agentTemplate.js'
export { type AgentScene, agentView, type OthersAs } from './agents/agentView.js'
export {
  type Agent,
  type AgentRewards,
  type Discussion,
  MultiAgentEnv,
  type MultiAgentEnvOptions,
  type MultiAgentState,
  type Verdict,
} from './agents/multiAgentEnv.js'
export {
  type AgentTurn,
  byMention,
  type NextTurn,
  type RoundsOptions,
  roundRobin,
  simultaneous,
  type TurnOrder,
} from './agents/turnOrder.js'
export {
  type SimulatedUser,
  type UserScene,
  UserSimulator,
  type UserSimulatorOptions,
  userView,
} from './agents/userSimulator.js'
export type { AnswerEnv, AnswerState, EpisodeOptions, UnrewardedState } from './answerEnv.js'
export { ChatEnv, type ChatEnvOptions, type ChatState } from './chatEnv.js'
export { COUNTDOWN_SYSTEM_PROMPT, CountdownEnv, type CountdownEnvOptions } from './countdownEnv.js'
export {
  DatasetChatEnv,
  type DatasetChatEnvOptions,
  type DatasetChatState,
  type DatasetChatStateOf,
  type DrawnChats,
  type NoColumns,
} from './datasetChatEnv.js'
export {
  addEnds,
  addReward,
  type Env,
  type EnvFailure,
  type EnvSpecs,
  envFailure,
  nextRequest,
  type Outcome,
  outcomeSpec,
  type StepBetween,
  type StepOptions,
} from './env.js'
export { GSM8K_SYSTEM_PROMPT, GSM8KEnv, type GSM8KEnvOptions, type GSM8KState } from './gsm8kEnv.js'
export { IFEVAL_SYSTEM_PROMPT, IFEvalEnv, type IFEvalEnvOptions, type IFEvalState } from './ifEvalEnv.js'
export {
  LLMEnv,
  type LLMEnvOptions,
  LLMTextEnv,
  type LLMTextEnvOptions,
  type TextResponse,
  type TokenResponse,
} from './llmEnv.js'
export {
  DecodedPrompt,
  type Hashing,
  hashTokens,
  LLMHashingEnv,
  type LLMHashingEnvOptions,
  type LLMHashingState,
  nextHash,
} from './llmHashingEnv.js'
export {
  GSM8KPrepareQuestion,
  type GSM8KPrepareQuestionOptions,
  type MakeGSM8KEnvOptions,
  type MakeGSM8KState,
  makeGSM8KEnv,
} from './makeGSM8KEnv.js'
export { MATH_SYSTEM_PROMPT, MATHEnv, type MATHEnvOptions } from './mathEnv.js'
export { type CommandBlock, commandBlock, guardMultiLine, type MultiLineCommands } from './mlgym/commandBlock.js'
export { type MakeMLGymOptions, makeMLGym } from './mlgym/makeMLGym.js'
export { type MLGymEnvState, type MLGymEpisode, MLGymWrapper, type MLGymWrapperOptions } from './mlgym/mlGymWrapper.js'
export { type ProcessMLGymOptions, processMLGym } from './mlgym/processMLGym.js'
export {
  type MLGym,
  type MLGymFailure,
  type MLGymMetrics,
  type MLGymOpened,
  type MLGymRecording,
  type MLGymReply,
  type MLGymRequest,
  type MLGymSession,
  type MLGymShell,
  recordedMLGym,
} from './mlgym/session.js'
export { type MLGymPlace, type MLGymSessions, type MLGymSessionsOptions, mlgymSessions } from './mlgym/sessions.js'
export {
  type MultiTurnEntries,
  MultiTurnEnv,
  type MultiTurnEnvOptions,
  type MultiTurnState,
  type ReplyFunction,
  type TurnReply,
  type TurnResult,
  type TurnScene,
} from './multiTurnEnv.js'
export type { AnswerReward, AnswerRewardOptions } from './rewards/answerScore.js'
export { type CodeTest, type CodeTestsOptions, codeTests } from './rewards/codeTests.js'
export {
  type CountdownGoal,
  type CountdownRow,
  type CountdownTaskOptions,
  countdownGoal,
  countdownProblem,
  countdownReward,
  countdownTasks,
} from './rewards/countdown.js'
export {
  FORMAT_RULES,
  FormatReward,
  type FormatRule,
  type FormatScore,
  type FormatScoreOptions,
  formatScore,
} from './rewards/format.js'
export {
  canonicalNumber,
  type GSM8KReward,
  type GSM8KRewardOptions,
  gsm8kAnswerReward,
  gsm8kReward,
} from './rewards/gsm8k.js'
export type { CheckContext } from './rewards/ifEval/check.js'
export {
  type IfEvalAggregator,
  type IfEvalReading,
  type IfEvalReward,
  type IfEvalRewardOptions,
  type IfEvalScored,
  type IfEvalWeights,
  ifEvalReward,
  weightedIfEval,
} from './rewards/ifEval/ifEvalReward.js'
export { type IFEvalScoreData, ifEvalScore } from './rewards/ifEval/ifEvalScore.js'
export { type LanguageDetector, loadLanguageDetector } from './rewards/ifEval/language.js'
export { JUDGE_VERDICT, type JudgeOptions, type JudgeVerdict, judgeReward } from './rewards/judge.js'
export { computeEngineOpinion } from './rewards/math/computeEngine.js'
export { type AnswerPlace, mathAnswerOf } from './rewards/math/mathAnswer.js'
export { type MathRewardOptions, mathReward, type Opinion } from './rewards/math/mathReward.js'
export { sameAnswer } from './rewards/math/sameAnswer.js'
export { type OverlongOptions, overlongReward } from './rewards/overlong.js'
export type {
  Answered,
  AnyReward,
  Reward,
  RewardFailure,
  RewardService,
  ScoreContext,
  Scored,
} from './rewards/reward.js'
export {
  type RewardFunction,
  type RewardOfOptions,
  type RewardParts,
  type RewardScene,
  type RewardValue,
  rewardOf,
} from './rewards/rewardFunction.js'
export {
  type ExactMatchOptions,
  exactMatch,
  squadText,
  type TextRewardOptions,
  type TokenF1Options,
  tokenF1,
  tokenF1Reward,
} from './rewards/textMatch.js'
export { type WeightedRewardOptions, weightedReward, weightedService } from './rewards/weightedReward.js'
export { type RolloutOptions, type RolloutSteps, rollout } from './rollout.js'
export { type TokenEnvState, type TokenEnvText, tokenEnv } from './tokenEnv.js'
export { type AskedCalls, type CallFinder, callsOfMessage, callsOfText } from './tools/askedCalls.js'
export {
  type Browser,
  type BrowserFailure,
  type BrowserOptions,
  type BrowserOutcome,
  type BrowserWorld,
  openBrowser,
  type PageRef,
} from './tools/browser.js'
export { type AllowedOrigins, allowedOrigins, checkAddress } from './tools/browserOrigins.js'
export type { ActionResult, BrowserAction, BrowserLimits } from './tools/browserPage.js'
export { BrowserTransform, browserTool } from './tools/browserTool.js'
export { type CalculatorOptions, calculator } from './tools/calculator.js'
export type { CellTool, CellToolOptions } from './tools/cellTool.js'
export { type CodeFence, codeFences } from './tools/codeFences.js'
export type { JavaScriptCell, JavaScriptLimits } from './tools/javascriptThread.js'
export { type JavaScriptTool, type JavaScriptToolOptions, javascriptTool } from './tools/javascriptTool.js'
export type { McpAddress, McpFailure, McpLimits, McpLink, McpProgram, McpServer, McpWorld } from './tools/mcp.js'
export { type McpTools, type McpToolsOptions, mcpTools } from './tools/mcpTools.js'
export { MCPToolTransform } from './tools/mcpToolTransform.js'
export { PythonInterpreter, type PythonInterpreterOptions } from './tools/pythonInterpreter.js'
export { pythonTool } from './tools/pythonTool.js'
export { type Query, type RetrievalLimits, type RetrievalOptions, retrievalTool } from './tools/retrieval.js'
export type { Passage, RetrievalCacheOptions, RetrievalStore } from './tools/retrievalCache.js'
export {
  type CallOutcome,
  type CallsToRun,
  type LateCall,
  type Observation,
  type RanCalls,
  type RunCallsOptions,
  runCalls,
  type ToolStates,
} from './tools/runCalls.js'
export { shellTool } from './tools/shellTool.js'
export {
  ExecuteToolsInOrder,
  type ExecuteToolsInOrderOptions,
  type NamedToolOptions,
  SimpleToolTransform,
  type SimpleToolTransformOptions,
} from './tools/simpleToolTransform.js'
export {
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolOptions,
  type ToolReply,
  tool,
  toolFailure,
} from './tools/tool.js'
export { ToolRegistry, type ToolSpec, toolSpecs } from './tools/toolRegistry.js'
export {
  type ToolCallOptions,
  type ToolEntries,
  type ToolLimits,
  type ToolTransformOptions,
  toolTransform,
} from './tools/toolTransform.js'
export {
  AddThinkingPrompt,
  type AddThinkingPromptOptions,
  rewardAtMost,
  type ThinkingEntries,
} from './transforms/addThinkingPrompt.js'
export {
  type AnswerParts,
  CountdownRewardParser,
  type CountdownRewardParserOptions,
  GSM8KRewardParser,
  type GSM8KRewardParserOptions,
  MATHRewardParser,
  type MATHRewardParserOptions,
  type ParserOptions,
} from './transforms/answerParsers.js'
export {
  DataLoadingPrimer,
  type DataLoadingPrimerOptions,
  type DrawnRow,
  type Kept,
  type Primed,
  type QuestionSpec,
  type SourcePosition,
  type SourceRow,
  type TaskColumns,
  type TaskEntries,
  type TaskEntry,
} from './transforms/dataLoadingPrimer.js'
export { type FormatEntries, FormatPenalty, type FormatPenaltyOptions } from './transforms/formatPenalty.js'
export { type IfEvalEntries, IfEvalScorer, type IfEvalScorerOptions } from './transforms/ifEvalScorer.js'
export { IncrementalTokenizer, type IncrementalTokenizerOptions } from './transforms/incrementalTokenizer.js'
export type { KeptEntries } from './transforms/keptReply.js'
export {
  KLComputation,
  type KLComputationOptions,
  type KLPenalty,
  type KLPenaltyOptions,
  type KLShape,
} from './transforms/klComputation.js'
export {
  type KLEntries,
  KLRewardTransform,
  type KLRewardTransformOptions,
  RetrieveKL,
  type RetrieveKLOptions,
} from './transforms/klRewardTransform.js'
export { ObservationLimit, type ObservationLimitOptions } from './transforms/observationLimit.js'
export { type LengthEntries, OverlongPenalty } from './transforms/overlongPenalty.js'
export { PolicyVersion, type VersionEntry } from './transforms/policyVersion.js'
export type { InputMode } from './transforms/responses.js'
export {
  type LogProbEntries,
  type LogProbRows,
  RetrieveLogProb,
  type RetrieveLogProbOptions,
} from './transforms/retrieveLogProb.js'
export {
  type OnAnswer,
  type PartEntries,
  type RewardEntries,
  type RewardKey,
  rewardKey,
} from './transforms/rewardEntries.js'
export { type EpisodeSums, RewardSum, type RewardSumOptions } from './transforms/rewardSum.js'
export {
  type NeededTask,
  type RewardReading,
  type RewardState,
  RewardTransform,
  type RewardTransformOptions,
  type When,
} from './transforms/rewardTransform.js'
export type { PromptOf, ScoreInput, TokensInput } from './transforms/scoreInput.js'
export { type StepCount, StepCounter } from './transforms/stepCounter.js'
export { TemplateTransform, type TemplateTransformOptions, type TextEntries } from './transforms/templateTransform.js'
export { type BudgetEntries, TokenBudget, type TokenBudgetOptions } from './transforms/tokenBudget.js'
export { Tokenizer } from './transforms/tokenizer.js'
export {
  type Added,
  append,
  compose,
  identity,
  type StepContext,
  type Stepped,
  type Transform,
  type TransformParts,
  transform,
} from './transforms/transform.js'
