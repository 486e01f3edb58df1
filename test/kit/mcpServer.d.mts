import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'

export declare const makeMcpServer: (world: {
  readonly die: () => unknown
  readonly calls?: Record<string, number>
}) => McpServer
