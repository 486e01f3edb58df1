/** Agents that call tools in the native format of their model, also for software engineering. */
import type { AgentKind } from './kind.js'

/** The kind of `HFAgent`. */
export const NATIVE: AgentKind = { name: 'hf', tools: 'native', results: { role: 'tool' } }

const SWE_PROMPT = `You are a software engineer. Solve the task in the repository of the working folder. Look at the code
first, reproduce the problem, change what is needed, and run the tests. When you are done, say what
you have changed, without a call.`

/** The kind of `FunctionCallSWEAgent`. */
export const FUNCTION_SWE: AgentKind = { ...NATIVE, name: 'function_swe', systemPrompt: SWE_PROMPT }

/** The kind of `Qwen3CoderSWEAgent`. */
export const QWEN3_CODER_SWE: AgentKind = { ...NATIVE, name: 'qwen3coder_swe', systemPrompt: SWE_PROMPT }
