/** A server of an updater across pushes: its status, and adapters that remain to be unloaded. */
import type { EngineClient, ServingWeights } from '../../data/engineClient.js'

/**
 * `lost`: its weights are unknown. Its client refuses requests until weights are loaded and
 * verified.
 */
export interface ServerStatus {
  readonly server: string
  readonly status: 'current' | 'lost'
  /** The reason for `lost`, otherwise `null`. */
  readonly reason: string | null
}

/** The mutable record of a server. */
export interface Member {
  readonly client: EngineClient
  readonly status: () => ServerStatus
  /** Obsolete adapters that may still be loaded. */
  readonly leftovers: Set<string>
  /** Marks the weights as verified and starts sampling requests with them. */
  readonly serve: (weights: ServingWeights) => void
  /** Marks the server as lost and stops sampling on it. */
  readonly lose: (reason: string) => void
}

/**
 * Makes the member of a server that is assumed to have the weights its client serves.
 *
 * Effects  serves weights at the client, and can make it refuse requests. `onStatus` is called when
 *          the status changes.
 */
export const makeMember = (client: EngineClient, onStatus: (status: ServerStatus) => void): Member => {
  let lost: { readonly reason: string; readonly allow: () => void } | null = null
  const status = (): ServerStatus => ({
    server: client.name,
    status: lost === null ? 'current' : 'lost',
    reason: lost?.reason ?? null,
  })
  return {
    client,
    status,
    leftovers: new Set(),
    serve: (weights) => {
      client.serve(weights)
      if (lost === null) return
      lost.allow()
      lost = null
      onStatus(status())
    },
    lose: (reason) => {
      if (lost !== null) return
      lost = { reason, allow: client.hold('refuse') }
      onStatus(status())
    },
  }
}
