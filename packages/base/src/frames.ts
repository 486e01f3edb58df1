/** Conversations by text frames, such as WebSockets, as functions. */

/** The response to a frame. */
export interface FrameReply {
  /** The frame to send. Default: none. */
  readonly text?: string
  /** Ends the connection after the frame. Default: it stays open. */
  readonly connection?: 'close'
}

/** One side of a connection. Calls of `receive` do not overlap. */
export interface FrameSession {
  readonly receive: (text: string, signal: AbortSignal) => Promise<FrameReply>
  /** Called once, after the last `receive`. */
  readonly end: () => void
}

/** A session for the connection that a request opens, or the response that refuses it. */
export type OpenFrames = (request: Request) => Promise<FrameSession | Response>

/** WebSocket connections of a server. */
export interface SocketOptions {
  /** Path of connections. */
  readonly path: string
  readonly open: OpenFrames
  /** Largest frame in bytes. Default 32 MiB. */
  readonly maxBytes?: number
  /** Most connections at a time. Default 4,096. */
  readonly maxConnections?: number
  /** Time in milliseconds after which a connection without frames is closed. Default 15 minutes. */
  readonly idleMs?: number
}
