/** A server of an updater, from push to push: whether it has weights that are known, and which adapters have still to go. */
import type { EngineClient, ServingWeights } from '../../data/engineClient.js'

/** `lost`: which weights it has is not known. Its client refuses requests until weights are loaded and verified there. */
export interface ServerStatus {
  readonly server: string
  readonly status: 'current' | 'lost'
  /** Why it is lost; null otherwise. */
  readonly reason: string | null
}

/** A mutable value. */
export interface Member {
  readonly client: EngineClient
  readonly status: () => ServerStatus
  /** Adapters that nobody is to use any more, and that may be loaded. */
  readonly leftovers: Set<string>
  /** The server has these weights: requests are sampled with them from now on. */
  readonly serve: (weights: ServingWeights) => void
  /** Nobody may sample there. */
  readonly lose: (reason: string) => void
}

/**
 * A server that is believed to have the weights that its client serves.
 *
 * Effects  serves weights at the client, and makes it refuse requests. `onStatus` is called when the status changes.
 */
export const makeMember = (client: EngineClient, onStatus: (status: ServerStatus) => void): Member => {
  let lost: { readonly reason: string; readonly allow: () => void } | null = null
  const status = (): ServerStatus => ({
    server: client.name,
    status: lost === null ? 'current' : 'lost',
    reason: lost?.reason ?? null,
  })
  return {
    ...{ client, status, leftovers: new Set() },
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
