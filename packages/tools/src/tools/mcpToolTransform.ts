/** Tools of MCP servers in a conversation. */

import { checkOptions } from '@tandem-rl/base'
import type { HistoryPrompt, Transform } from 'tandem-rl'
import { MCP_TOOL_TRANSFORM_OPTIONS } from '../optionKinds.js'
import type { McpTools } from './mcpTools.js'
import { type NamedToolOptions, namedToolTransform } from './simpleToolTransform.js'
import { ToolRegistry } from './toolRegistry.js'
import type { ToolEntries } from './toolTransform.js'

/**
 * Makes a `SimpleToolTransform` with the tools that the MCP servers have now.
 *
 * Errors   as `SimpleToolTransform`.
 * Effects  those of the tools. The owner of the connections closes them.
 * Source   TorchRL `MCPToolTransform`, which holds its sessions in its own thread and does not
 *          reconnect.
 */
export const MCPToolTransform = (
  mcp: McpTools,
  options: NamedToolOptions = {},
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('MCPToolTransform', options, MCP_TOOL_TRANSFORM_OPTIONS)
  return namedToolTransform({ name: 'MCPToolTransform', registry: ToolRegistry(mcp.tools()), ...options })
}
