/** Wires to MCP servers: a transport of the SDK, with why it broke and how it ends. */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'

export interface McpWire {
  readonly transport: Transport
  /** Why it is broken, as far as it knows; undefined while it is not. */
  readonly why: () => string | undefined
  /** Ends it at once, with no word to a server that hears none. */
  readonly cut: () => void
  /** Resolves when nothing of it is left: no process, no connection. */
  readonly end: () => Promise<void>
}
