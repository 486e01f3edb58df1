/** Tools of MCP servers in a conversation. */
import { checkOptions } from '../../core/options.js'
import type { HistoryPrompt } from '../../data/policy.js'
import type { Transform } from '../transforms/transform.js'
import type { McpTools } from './mcpTools.js'
import { NAMED_TOOL_OPTIONS, type NamedToolOptions, namedToolTransform } from './simpleToolTransform.js'
import { ToolRegistry } from './toolRegistry.js'
import type { ToolEntries } from './toolTransform.js'

/**
 * `SimpleToolTransform` with the tools that MCP servers have when it is made.
 *
 * Errors   as `SimpleToolTransform`.
 * Effects  those of the tools. The connections stay their owner's to close.
 * Source   TorchRL `MCPToolTransform`, which holds its sessions in a thread of its own, and does
 *          not connect again.
 */
export const MCPToolTransform = (
  mcp: McpTools,
  options: NamedToolOptions = {},
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('MCPToolTransform', options, NAMED_TOOL_OPTIONS)
  return namedToolTransform({ name: 'MCPToolTransform', registry: ToolRegistry(mcp.tools()), ...options })
}
