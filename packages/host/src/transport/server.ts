/** The server of a transport: its queue, running requests, and circuit breaker. */
import { type Cell, cell, type TransportState } from '@tandem-rl/base'
import { admit, type Circuit, CLOSED_CIRCUIT, circuitState, failCircuit, succeed } from './circuit.js'
import { type Connections, openConnections } from './connections.js'
import type { Trouble } from './retry.js'
import type { ServerAddress, TransportSettings } from './settings.js'
import { makePlaces, type Places } from './turns.js'

/** A server, its connections, and its state. */
export interface Server {
  readonly address: ServerAddress
  readonly connections: Connections
  readonly places: Places
  /** Number of waiting requests. */
  readonly waiting: Cell<number>
  /** Returns `yes` if a request may be sent now. The call counts as sending one. */
  readonly admit: () => 'yes' | 'no'
  readonly circuit: () => TransportState['circuit']
  /** Milliseconds until the next trial. */
  readonly coolMs: () => number
  /** Records the outcome of an attempt. */
  readonly note: (trouble: Trouble | undefined) => void
  readonly count: (what: 'requests' | 'attempts' | 'retries' | 'failures') => void
  readonly state: () => TransportState
}

/** Returns true if a failure is the server's, rather than the request's or the caller's. */
const isServers = ({ kind, status }: Trouble): boolean => {
  switch (kind) {
    case 'unreachable':
    case 'reset':
    case 'malformed':
    case 'timeout':
      return true
    case 'status':
      return status !== undefined && status >= 500 && status !== 501
    default:
      return false
  }
}

/** Returns true if the failure shows that the server is working. */
const isAnswer = ({ kind, status }: Trouble): boolean => kind === 'status' && status !== undefined && status < 500

/** Makes a server in its initial state. */
export const openServer = (address: ServerAddress, settings: TransportSettings): Server => {
  const { timing } = settings
  const counts = { requests: 0, attempts: 0, retries: 0, failures: 0 }
  const places = makePlaces(settings.connections)
  let circuit: Circuit = CLOSED_CIRCUIT
  const server: Server = {
    address,
    connections: openConnections(address.origin, settings),
    places,
    waiting: cell(0),
    admit: () => {
      const next = admit(circuit, settings.circuit, timing.now())
      if (next === undefined) return 'no'
      circuit = next
      return 'yes'
    },
    circuit: () => circuitState(circuit, timing.now()),
    coolMs: () => Math.max(0, (circuit.untilMs ?? 0) - timing.now()),
    note: (trouble) => {
      if (trouble === undefined || isAnswer(trouble)) circuit = succeed()
      // A closed idle connection is not a failure of the server.
      else if (isServers(trouble) && trouble.wire !== 'stale')
        circuit = failCircuit(circuit, settings.circuit, timing.now())
    },
    count: (what) => {
      counts[what]++
    },
    state: () => ({
      server: address.origin,
      circuit: server.circuit(),
      inFlight: places.taken(),
      waiting: server.waiting.get(),
      ...counts,
    }),
  }
  return server
}
