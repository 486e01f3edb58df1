/** Agents: a model with tools, a way to read its replies, and a reward. */

import { type Clock, checkOptions, type Failure, type Key, keyFromSeed } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { type ChatTemplate, TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from '@tandem-rl/text'
import { type SimpleToolTransformOptions, type Tool, ToolRegistry, type ToolSpec, toolSpecs } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Env, HistoryAction, ModelText } from 'tandem-rl'
import type { AgentRowTask, AgentTask } from 'tandem-rl/datasets'
import { type AnyReward, type RewardFunction, reward } from 'tandem-rl/rewards'
import type { AgentReward } from 'tandem-rl/run'
import { AGENT_OPTIONS, AGENT_RUN_GENERATION_OPTIONS, AGENT_RUN_OPTIONS } from '../optionKinds.js'
import { type AgentEnvOptions, type AgentParts, type AgentState, agentEnv, MAX_TURNS, readerOf } from './agentEnv.js'
import type { BackendSeat, GenerationConfig, LLMBackend, LLMBackendName } from './backends/backend.js'
import { type BackendConfig, DEFAULT_CONFIGS } from './backends/configs.js'
import { makeBackend } from './backends/makeBackend.js'
import { playChains } from './chains.js'
import { type InputMessages, inputTasks } from './conversations.js'
import type { ChainObserver } from './events.js'
import type { AgentKind } from './kinds/kind.js'
import { type AgentRunResult, runResult } from './trajectory.js'

/** The options of every agent, under AgentFly's names. */
export interface AgentOptions<T extends AgentTask = AgentRowTask> extends Pick<SimpleToolTransformOptions, 'thoughts'> {
  /** A folder or a name on the hub; the name on the server for the backend `client`. */
  readonly modelNameOrPath: string
  readonly tools?: readonly Tool[]
  /**
   * Rewards a finished chain by arguments of these names; `T` is the type of rows. It may return
   * `{ reward, ...extras }`, whose extras become parts of the reward. Default: no reward.
   */
  readonly rewardFn?: AgentReward<T>
  /** A chat template, or a name of one. Default: the model's own. */
  readonly template?: string | ChatTemplate
  /**
   * May have a slot `{tools}`. An empty text is no system prompt. Default: that of the kind of
   * agent.
   */
  readonly systemPrompt?: string
  /** The format in which the model writes calls of tools. Default: as its template teaches. */
  readonly toolParserName?: ToolCallFormat
  /** Default: that of `backendConfig`, or `async_vllm`. */
  readonly backend?: LLMBackendName
  readonly backendConfig?: BackendConfig
  /** A conversation whose next reply might exceed this many tokens ends. Default: no limit. */
  readonly maxModelLen?: number
  /** Ends the conversation if it returns `true` for a reply. Default: never. */
  readonly stopWhen?: (reply: string) => boolean
  /** Limits and order of tool calls. */
  readonly toolOptions?: AgentParts['toolOptions']
  /** Turns of a segment after which a folding agent is asked to summarize. Default: never. */
  readonly contextTriggerTurns?: number
}

/** The options of a run. */
export interface AgentRunOptions {
  /** Conversations in any of four shapes; further fields of a row reach the reward. */
  readonly messages: InputMessages
  /** Default 8. */
  readonly maxTurns?: number
  /** Independent conversations for each prompt. Default 1. */
  readonly numChains?: number
  /** Default: all at once. */
  readonly maxConcurrentChains?: number
  readonly generation?: GenerationConfig
  readonly observers?: readonly ChainObserver[]
  /** Default: that of seed 0. */
  readonly key?: Key
  readonly signal?: AbortSignal
  readonly clock?: Clock
}

/** The conversations of an environment, and the model that will play it. */
export interface TrainedEnvOptions extends AgentEnvOptions {
  /**
   * The model's text side. Its template determines the format of native calls. Required without
   * `toolParserName`.
   */
  readonly text?: Pick<ModelText, 'template'>
}

/** A model with tools. */
export interface Agent {
  readonly name: string
  readonly tools: readonly Tool[]
  /** The tools that a chat template shows to the model; empty if the system prompt shows them. */
  readonly toolSpecs: readonly ToolSpec[]
  /** With the tools filled in. */
  readonly systemPrompt: string | undefined
  readonly backend: LLMBackend
  /**
   * Plays chains. A chain that fails is marked `failed` and the others go on.
   *
   * Errors   `Left` if the messages are not conversations, the backend cannot start, or the model's
   *          template teaches no format of tool calls.
   */
  readonly run: (options: AgentRunOptions) => TE.TaskEither<Failure, AgentRunResult>
  /**
   * The agent's environment, for `LLMCollector`, `grpoParts` and `train`. `run` plays the same one.
   */
  readonly env: (options: TrainedEnvOptions) => Env<AgentState, HistoryAction>
  /** Frees the backend. */
  readonly close: () => Promise<void>
}

const filled = (prompt: string | undefined, specs: readonly ToolSpec[]): string | undefined => {
  if (prompt === undefined || prompt === '') return undefined
  return prompt.replaceAll('{tools}', () => specs.map((spec) => JSON.stringify(spec.function)).join('\n'))
}

const configOf = (
  name: string,
  { backend, backendConfig }: Pick<AgentOptions, 'backend' | 'backendConfig'>,
): BackendConfig => {
  if (backendConfig === undefined) return DEFAULT_CONFIGS[backend ?? 'async_vllm']()
  if (backend !== undefined && backend !== backendConfig.backend)
    throw new RangeError(`${name}: backend is '${backend}', and backendConfig is one of '${backendConfig.backend}'`)
  return backendConfig
}

const partsOf = <T extends AgentTask>(kind: AgentKind, name: string, options: AgentOptions<T>): AgentParts => {
  const { tools = [], rewardFn, stopWhen, toolOptions = {}, contextTriggerTurns: triggerTurns } = options
  const own = kind.folding === undefined ? [] : foldingTools(kind, tools)
  const all = [...tools, ...own]
  const given =
    typeof rewardFn === 'function' ? reward<T>(rewardFn as RewardFunction<T>, { extras: 'parts' }) : rewardFn // with parts
  const parts: AgentParts = {
    kind,
    tools: all,
    stopWhen,
    toolOptions,
    triggerTurns,
    thoughts: options.thoughts,
    systemPrompt: filled(options.systemPrompt ?? kind.systemPrompt, toolSpecs(ToolRegistry(all))),
    reward: given as AnyReward<AgentTask> | undefined, // rows are checked by the reward when it reads them
  }
  if (triggerTurns !== undefined && kind.folding === undefined)
    throw new RangeError(`${name}: contextTriggerTurns is for agents that fold their context`)
  readerOf(parts) // throws for tools that the kind cannot call
  return parts
}

/** The tool that folds the context, unless the agent was given one of this name. */
const foldingTools = ({ folding }: AgentKind, tools: readonly Tool[]): readonly Tool[] => {
  const name = folding?.tool ?? 'summarize'
  return tools.some((tool) => tool.name === name) ? [] : [summaryTool(name)]
}

const summaryTool = (name: string): Tool => ({
  name,
  description: 'Replaces the conversation so far by a summary.',
  parameters: { type: 'object', properties: { summary: { type: 'string' } }, required: ['summary'] },
  initial: null,
  call: () => TE.right({ content: '', state: null }),
})

/** Returns the format of native calls, or the reason why the agent has no format. */
const formatOf = (
  name: string,
  { kind, tools }: AgentParts,
  { toolParserName }: Pick<AgentOptions, 'toolParserName'>,
  template: ChatTemplate | undefined,
): E.Either<Failure, ToolCallFormat | undefined> => {
  if (kind.tools === 'prompt' || tools.length === 0 || toolParserName !== undefined) return E.right(toolParserName)
  if (template === undefined) return E.right(undefined) // the server finds the calls
  const found = toolCallFormatOf(template)
  if (found !== 'none') return E.right(found)
  const reason = `${name}: the chat template of the model teaches no format of tool calls: set toolParserName (${TOOL_CALL_FORMATS.join(', ')}), set template to one with tools (withToolPrompt), or use an agent that shows its tools in the system prompt`
  return E.left({ _tag: 'NoToolFormat', reason })
}

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1

const checkRun = (name: string, options: AgentRunOptions): void => {
  checkOptions(`${name}, run`, options, AGENT_RUN_OPTIONS)
  checkOptions(`${name}, run: generation`, options.generation ?? {}, AGENT_RUN_GENERATION_OPTIONS)
  const { maxTurns = 1, numChains = 1, maxConcurrentChains = 1 } = options
  const problems = Object.entries({ maxTurns, numChains, maxConcurrentChains }).flatMap(([field, value]) =>
    isCount(value) ? [] : [`${field} must be an integer of at least 1, got ${value}`],
  )
  if (problems.length > 0) throw new RangeError(`${name}, run: ${problems.join('; ')}`)
}

/** Tokens after which a conversation has no room for another reply. */
const budgetOf = (
  { maxModelLen }: Pick<AgentOptions, 'maxModelLen'>,
  maxNewTokens: number,
  { reads }: BackendSeat,
): number | undefined =>
  maxModelLen === undefined || reads === 'messages' ? undefined : Math.max(1, maxModelLen - maxNewTokens)

/** Default number of new tokens, as of AgentFly's backends. */
const MAX_NEW_TOKENS = 1024

/**
 * Makes an agent of a kind: `HFAgent`, `ReactAgent` and the others are this function with a kind.
 * The kind determines how the model writes calls; `kind.reader` supports your own formats.
 *
 * Errors   throws RangeError for unknown options, two tools of one name, tools that the kind cannot
 *          call, and a configuration of another backend.
 * Source   AgentFly `BaseAgent`.
 *
 * @example
 * const shout: AgentKind = { name: 'shout', tools: 'native', systemPrompt: 'Shout.', results: { role: 'tool' } }
 * Agent(shout, { modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct' }).systemPrompt // 'Shout.'
 */
export const Agent = <T extends AgentTask = AgentRowTask>(kind: AgentKind, options: AgentOptions<T>): Agent => {
  const { name } = kind
  checkOptions(`Agent ${name}`, options, AGENT_OPTIONS)
  const parts = partsOf(kind, name, options)
  const config = configOf(name, options)
  const { modelNameOrPath, template } = options
  const backend = makeBackend({ modelNameOrPath, ...(template !== undefined && { template }) }, config)
  const specs = kind.tools === 'native' ? toolSpecs(ToolRegistry(parts.tools)) : []

  const run: Agent['run'] = (given) => {
    checkRun(name, given)
    const { messages, maxTurns = MAX_TURNS, numChains = 1, generation = {} } = given
    const stop = generation.stop ?? (config.backend === 'async_vllm' ? kind.cutAfter : undefined)
    const { toolParserName: toolCalls } = options
    const settings = {
      ...generation,
      ...(stop !== undefined && { stop }),
      ...(specs.length > 0 && { tools: specs, ...(toolCalls !== undefined && { toolCalls }) }),
    }
    return pipe(
      TE.fromEither(inputTasks(messages)),
      TE.bindTo('tasks'),
      TE.bind('seat', () => backend.seat(settings)),
      TE.bind('format', ({ seat }) =>
        TE.fromEither(formatOf(name, parts, options, seat.reads === 'tokens' ? seat.text.template : undefined)),
      ),
      TE.chain(({ tasks, seat, format }) => async () => {
        const { maxConcurrentChains = tasks.length * numChains, observers = [], signal } = given
        const { key = keyFromSeed(0), clock = liveClock } = given
        const maxNewTokens = generation.maxNewTokens ?? config.maxNewTokens ?? MAX_NEW_TOKENS
        const trajectories = await playChains({
          parts,
          seat,
          format,
          tasks,
          numChains,
          maxTurns,
          maxConcurrentChains,
          observers,
          key,
          clock,
          tokenBudget: budgetOf(options, maxNewTokens, seat),
          signal: signal ?? new AbortController().signal,
        })
        return E.right(runResult(trajectories))
      }),
    )
  }

  return {
    name,
    tools: parts.tools,
    toolSpecs: specs,
    systemPrompt: parts.systemPrompt,
    backend,
    run,
    env: ({ text, ...drawn }) => {
      const format = formatOf(name, parts, options, text?.template)
      if (E.isLeft(format)) throw new RangeError(format.left.reason)
      return agentEnv(parts, drawn, { format: format.right, template: text?.template })
    },
    close: backend.close,
  }
}
