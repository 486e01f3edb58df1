/** Agents that call tools in the native format of their model. */
import type { AgentKind } from './kind.js'

/** The kind of `HFAgent`. */
export const NATIVE: AgentKind = { name: 'hf', tools: 'native', results: { role: 'tool' } }
