/**
 * Wires to MCP servers: a transport of the SDK that also reports why it broke and how to end it.
 */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'

export interface McpWire {
  readonly transport: Transport
  /** Returns the reason why it broke, if known; undefined while it works. */
  readonly why: () => string | undefined
  /** Ends it at once, without notifying the server. */
  readonly cut: () => void
  /** Resolves once its process and connections have ended. */
  readonly end: () => Promise<void>
}
