/**
 * For those who let a policy act: tools as values, the transforms that run their calls,
 * interpreters and shells in a sandbox, a browser, retrieval, tools of MCP servers, and MLGym.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export { type CommandBlock, commandBlock } from '../envs/mlgym/commandBlock.js'
export { type MakeMLGymOptions, makeMLGym } from '../envs/mlgym/makeMLGym.js'
export {
  type MLGymEnvState,
  type MLGymEpisode,
  MLGymWrapper,
  type MLGymWrapperOptions,
} from '../envs/mlgym/mlGymWrapper.js'
export { type ProcessMLGymOptions, processMLGym } from '../envs/mlgym/processMLGym.js'
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
} from '../envs/mlgym/session.js'
export {
  type MLGymPlace,
  type MLGymSessions,
  type MLGymSessionsOptions,
  mlgymSessions,
} from '../envs/mlgym/sessions.js'
export type { Lease } from '../envs/resources/places.js'
export {
  type ResourcePool,
  type ResourcePoolOptions,
  type ResourceStats,
  resourcePool,
} from '../envs/resources/resourcePool.js'
export {
  type ToolEnvironment,
  type ToolEnvironmentOptions,
  toolEnvironment,
} from '../envs/resources/toolEnvironment.js'
export type { AcquireOptions } from '../envs/resources/waitingLine.js'
export { answerTool, summarizeTool } from '../envs/tools/answerTools.js'
export {
  type Browser,
  type BrowserFailure,
  type BrowserOptions,
  type BrowserOutcome,
  type BrowserWorld,
  openBrowser,
  type PageRef,
} from '../envs/tools/browser.js'
export { type AllowedOrigins, allowedOrigins, checkAddress } from '../envs/tools/browserOrigins.js'
export type { ActionResult, BrowserAction, BrowserLimits } from '../envs/tools/browserPage.js'
export { BrowserTransform, browserTool } from '../envs/tools/browserTool.js'
export { type CalculatorOptions, calculator } from '../envs/tools/calculator.js'
export type { CellTool, CellToolOptions } from '../envs/tools/cellTool.js'
export { type ContextFoldingOptions, contextFolding, type FoldingOptions } from '../envs/tools/contextFolding.js'
export { type DocumentedToolFailure, type DocumentedToolOptions, documentedTool } from '../envs/tools/documentedTool.js'
export type { FileRequest, FileSession } from '../envs/tools/fileSession.js'
export { type FileToolsOptions, fileTools } from '../envs/tools/fileTools.js'
export type { JavaScriptLimits } from '../envs/tools/javascriptThread.js'
export { type JavaScriptTool, type JavaScriptToolOptions, javascriptTool } from '../envs/tools/javascriptTool.js'
export { bm25Index, denseIndex, type Embed, type PassageIndex } from '../envs/tools/localIndex.js'
export type { McpAddress, McpFailure, McpLimits, McpLink, McpProgram, McpServer, McpWorld } from '../envs/tools/mcp.js'
export { type McpTools, type McpToolsOptions, mcpTools } from '../envs/tools/mcpTools.js'
export { MCPToolTransform } from '../envs/tools/mcpToolTransform.js'
export { PythonInterpreter, type PythonInterpreterOptions } from '../envs/tools/pythonInterpreter.js'
export { pythonTool } from '../envs/tools/pythonTool.js'
export { type RemoteWorldToolOptions, remoteWorldTool } from '../envs/tools/remoteWorldTool.js'
export type { CallFinder, RequestedCalls, TextCalls } from '../envs/tools/requestedCalls.js'
export { type Query, type RetrievalLimits, type RetrievalOptions, retrievalTool } from '../envs/tools/retrieval.js'
export type { Passage, RetrievalCacheOptions, RetrievalStore } from '../envs/tools/retrievalCache.js'
export {
  type CallNotice,
  type CallOutcome,
  type CallsToRun,
  type LateCall,
  type Observation,
  type RanCalls,
  type RunCallsOptions,
  runCalls,
  type ToolStates,
} from '../envs/tools/runCalls.js'
export { shellTool } from '../envs/tools/shellTool.js'
export {
  ExecuteToolsInOrder,
  type ExecuteToolsInOrderOptions,
  type NamedToolOptions,
  SimpleToolTransform,
  type SimpleToolTransformOptions,
} from '../envs/tools/simpleToolTransform.js'
export {
  type HeldEnvironment,
  type Tool,
  type ToolContext,
  type ToolOptions,
  type ToolReply,
  tool,
  toolFailure,
} from '../envs/tools/tool.js'
export { ToolRegistry, type ToolSpec, toolSpecs } from '../envs/tools/toolRegistry.js'
export {
  type ToolCallOptions,
  type ToolEntries,
  type ToolLimits,
  type ToolTransformOptions,
  toolTransform,
} from '../envs/tools/toolTransform.js'
export { type WorldToolOptions, worldTool } from '../envs/tools/worldTool.js'
export { type ChessPuzzle, type ChessState, chessWorld } from '../envs/worlds/chess.js'
export {
  type HouseholdGoal,
  type HouseholdState,
  type HouseholdTask,
  householdSolution,
  householdTasks,
  householdWorld,
} from '../envs/worlds/household.js'
export {
  type LaboratoryGoal,
  type LaboratoryState,
  type LaboratoryTask,
  laboratorySolution,
  laboratoryTasks,
  laboratoryWorld,
} from '../envs/worlds/laboratory.js'
export {
  type ShopGoal,
  type ShopOptions,
  type ShopProduct,
  type ShopState,
  type ShopTask,
  shopCatalogue,
  shopSolution,
  shopTasks,
  shopWorld,
} from '../envs/worlds/shop.js'
export type { TextWorld, WorldView } from '../envs/worlds/textWorld.js'
export { worldService } from '../envs/worlds/worldService.js'
export type { LineProcess, LineProgram } from '../live/resources/lineProcess.js'
export {
  type ContainerOptions,
  containerResource,
  processResource,
  sandboxResource,
} from '../live/resources/runners.js'
export { type ServiceOptions, type ServiceSession, serviceResource } from '../live/resources/serviceResource.js'
export { type LiveSandboxOptions, liveSandbox } from '../live/sandbox/liveSandbox.js'
export { type CodeTest, type CodeTestsOptions, codeTests } from '../envs/rewards/codeTests.js'
export { type SWERewardOptions, sweReward } from '../envs/rewards/sweReward.js'
