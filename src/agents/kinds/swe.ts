/** Software-engineering agents that call shell and edit tools. */
import type { AgentKind } from './kind.js'
import { NATIVE } from './native.js'

const PROMPT = `You are a software engineer. Solve the task in the repository of the working folder. Look at the code
first, reproduce the problem, change what is needed, and run the tests. When you are done, say what
you have changed, without a call.`

/** The kind of `FunctionCallSWEAgent`. */
export const FUNCTION_SWE: AgentKind = { ...NATIVE, name: 'function_swe', systemPrompt: PROMPT }

/** The kind of `Qwen3CoderSWEAgent`. */
export const QWEN3_CODER_SWE: AgentKind = { ...NATIVE, name: 'qwen3coder_swe', systemPrompt: PROMPT }
