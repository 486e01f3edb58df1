/**
 * For those who let a policy act: tools as values, the transforms that run their calls,
 * interpreters and shells in a sandbox, a browser, retrieval, tools of MCP servers, rewards that
 * run programs, and MLGym.
 *
 * @module
 */
export { type CommandBlock, commandBlock } from './mlgym/commandBlock.js'
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
export type { LineProcess, LineProgram } from './processes/lineProcess.js'
export { type ContainerOptions, containerResource, processResource, sandboxResource } from './processes/runners.js'
export { type ServiceOptions, type ServiceSession, serviceResource } from './processes/serviceResource.js'
export type { Lease } from './resources/places.js'
export {
  type ResourcePool,
  type ResourcePoolOptions,
  type ResourceStats,
  resourcePool,
} from './resources/resourcePool.js'
export { type ToolEnvironment, type ToolEnvironmentOptions, toolEnvironment } from './resources/toolEnvironment.js'
export type { AcquireOptions } from './resources/waitingLine.js'
export { type CodeTest, type CodeTestsOptions, codeTests } from './rewards/codeTests.js'
export { type SWERewardOptions, sweReward } from './rewards/sweReward.js'
export { type LiveSandboxOptions, liveSandbox } from './sandbox/liveSandbox.js'
export { answerTool, summarizeTool } from './tools/answerTools.js'
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
export { type ContextFoldingOptions, contextFolding, type FoldingOptions } from './tools/contextFolding.js'
export { type DocumentedToolFailure, type DocumentedToolOptions, documentedTool } from './tools/documentedTool.js'
export type { FileRequest, FileSession } from './tools/fileSession.js'
export { type FileToolsOptions, fileTools } from './tools/fileTools.js'
export type { JavaScriptLimits } from './tools/javascriptThread.js'
export { type JavaScriptTool, type JavaScriptToolOptions, javascriptTool } from './tools/javascriptTool.js'
export { bm25Index, denseIndex, type Embed, type PassageIndex } from './tools/localIndex.js'
export type { McpAddress, McpFailure, McpLimits, McpLink, McpProgram, McpServer, McpWorld } from './tools/mcp.js'
export { type McpTools, type McpToolsOptions, mcpTools } from './tools/mcpTools.js'
export { MCPToolTransform } from './tools/mcpToolTransform.js'
export { PythonInterpreter, type PythonInterpreterOptions } from './tools/pythonInterpreter.js'
export { pythonTool } from './tools/pythonTool.js'
export { type RemoteWorldToolOptions, remoteWorldTool } from './tools/remoteWorldTool.js'
export {
  type CallFinder,
  callsOfText,
  type RequestedCalls,
} from './tools/requestedCalls.js'
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
  type HeldEnvironment,
  type Tool,
  type ToolContext,
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
export { type WorldToolOptions, worldTool } from './tools/worldTool.js'
export { type ChessPuzzle, type ChessState, chessWorld } from './worlds/chess.js'
export {
  type HouseholdGoal,
  type HouseholdState,
  type HouseholdTask,
  householdTasks,
  householdWorld,
} from './worlds/household.js'
export {
  type LaboratoryGoal,
  type LaboratoryState,
  type LaboratoryTask,
  laboratoryTasks,
  laboratoryWorld,
} from './worlds/laboratory.js'
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
} from './worlds/shop.js'
export type { TextWorld, WorldView } from './worlds/textWorld.js'
export { worldService } from './worlds/worldService.js'
