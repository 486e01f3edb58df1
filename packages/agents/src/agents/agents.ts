/** The kinds of agents by name. */

import { unknownName } from '@tandem-rl/base'
import type { AgentRowTask, AgentTask } from 'tandem-rl/datasets'
import { Agent, type AgentOptions } from './agent.js'
import { ACTION } from './kinds/action.js'
import { BASH_SWE, CODE } from './kinds/fenced.js'
import type { AgentKind } from './kinds/kind.js'
import { FUNCTION_SWE, NATIVE, QWEN3_CODER_SWE } from './kinds/native.js'
import { REACT } from './kinds/react.js'
import { SEARCH } from './kinds/search.js'

/** Makes an agent. */
export type AgentFactory = <T extends AgentTask = AgentRowTask>(options: AgentOptions<T>) => Agent

const of =
  (kind: AgentKind): AgentFactory =>
  (options) =>
    Agent(kind, options)

/**
 * Makes an agent that calls tools in the native format of its model: the chat template shows the
 * tools, and `toolParserName` is only needed if the template does not tell the format.
 *
 * Errors   as `Agent`.
 * Source   AgentFly `HFAgent`.
 *
 * @example
 * HFAgent({ modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct', tools: [calculator()] }).toolSpecs.length // 1
 */
export const HFAgent: AgentFactory = of(NATIVE)

/**
 * Makes an agent that alternates thoughts and actions: `Thought:`, `Action:` and `Input:`, or
 * `Final Answer:`. Works with every model, since the system prompt shows the tools.
 *
 * Errors   as `Agent`.
 * Source   Yao et al. 2023, arXiv:2210.03629; AgentFly `ReactAgent`.
 *
 * @example
 * ReactAgent({ modelNameOrPath: 'gpt2', tools: [calculator()] }).name // 'react'
 */
export const ReactAgent: AgentFactory = of(REACT)

/**
 * Makes an agent that writes one block of Python, which the tool `code_interpreter` (or its only
 * tool) runs. A reply without exactly one block is the answer.
 *
 * Errors   as `Agent`.
 * Source   AgentFly `CodeAgent`.
 *
 * @example
 * CodeAgent({ modelNameOrPath: 'gpt2', tools: [calculator({ name: 'code_interpreter' })] }).name // 'code'
 */
export const CodeAgent: AgentFactory = of(CODE)

/**
 * Makes an agent that searches by `<search>` and answers by `<answer>`. Replies are cut behind the
 * first closing tag, so that a policy cannot write results of its own.
 *
 * Errors   as `Agent`.
 * Source   Jin et al. 2025, arXiv:2503.09516 (Search-R1); AgentFly's agent `searchr1`.
 *
 * @example
 * SearchR1Agent({ modelNameOrPath: 'gpt2', tools: [calculator({ name: 'search' })] }).name // 'searchr1'
 */
export const SearchR1Agent: AgentFactory = of(SEARCH)

/**
 * Makes an agent that acts by `<action>` and folds its context by `<summarize>`: a summary replaces
 * the conversation so far and begins a new segment. The tool `summarize` is added.
 *
 * Errors   as `Agent`.
 * Source   AgentFly's agent `action`.
 *
 * @example
 * ActionAgent({ modelNameOrPath: 'gpt2', contextTriggerTurns: 8 }).tools.map(({ name }) => name) // ['summarize']
 */
export const ActionAgent: AgentFactory = of(ACTION)

/**
 * Makes a software-engineering agent that writes one block of shell commands, which the tool
 * `run_shell_command` (or its only tool) runs.
 *
 * Errors   as `Agent`.
 * Source   AgentFly's agent `bash_swe`.
 *
 * @example
 * BashSWEAgent({ modelNameOrPath: 'gpt2', tools: [calculator()] }).name // 'bash_swe'
 */
export const BashSWEAgent: AgentFactory = of(BASH_SWE)

/**
 * Makes a software-engineering agent that calls shell and edit tools in Qwen3-Coder's XML-like
 * format.
 *
 * Errors   as `Agent`.
 * Source   AgentFly's agent `qwen3coder_swe`.
 *
 * @example
 * Qwen3CoderSWEAgent({ modelNameOrPath: 'gpt2', tools: [calculator()] }).name // 'qwen3coder_swe'
 */
export const Qwen3CoderSWEAgent: AgentFactory = (options) =>
  Agent(QWEN3_CODER_SWE, { toolParserName: 'qwen3_coder', ...options })

/**
 * Makes a software-engineering agent that calls shell and edit tools in its model's native format.
 *
 * Errors   as `Agent`.
 * Source   AgentFly `FunctionCallSWEAgent`.
 *
 * @example
 * FunctionCallSWEAgent({ modelNameOrPath: 'gpt2', tools: [calculator()] }).name // 'function_swe'
 */
export const FunctionCallSWEAgent: AgentFactory = of(FUNCTION_SWE)

const KNOWN: Readonly<Record<string, AgentFactory>> = {
  hf: HFAgent,
  react: ReactAgent,
  code: CodeAgent,
  searchr1: SearchR1Agent,
  action: ActionAgent,
  bash_swe: BashSWEAgent,
  qwen3coder_swe: Qwen3CoderSWEAgent,
  function_swe: FunctionCallSWEAgent,
}

/** The options of an agent with the name of its kind. */
export interface NamedAgentOptions<T extends AgentTask = AgentRowTask> extends AgentOptions<T> {
  readonly agentType: string
  /** Further kinds by name. */
  readonly agents?: Readonly<Record<string, AgentFactory>>
}

/**
 * Makes agents by the name of their kind, for recipes and configuration files.
 *
 * Errors   throws RangeError for an unknown name, with the nearest one.
 * Source   AgentFly `AutoAgent`, whose registry is changed in place.
 *
 * @example
 * AutoAgent.fromConfig({ agentType: 'react', modelNameOrPath: 'gpt2', tools: [calculator()] }).name // 'react'
 */
export const AutoAgent = {
  /** Names that `fromConfig` accepts. */
  names: Object.keys(KNOWN) as readonly string[],
  fromConfig: <T extends AgentTask = AgentRowTask>({
    agentType,
    agents = {},
    ...options
  }: NamedAgentOptions<T>): Agent => {
    const all = { ...KNOWN, ...agents }
    const make = Object.hasOwn(all, agentType) ? all[agentType] : undefined
    if (make === undefined) {
      const names = Object.keys(all)
      throw new RangeError(`AutoAgent: ${unknownName('agent', agentType, names)} (known: ${names.join(', ')})`)
    }
    return make(options)
  },
} as const
