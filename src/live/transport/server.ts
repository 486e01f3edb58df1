/** The server of a transport: its queue, its requests underway, and its circuit breaker. */
import { type Cell, cell } from '../../core/cell.js'
import type { TransportState } from '../../core/http.js'
import { admit, type Circuit, CLOSED_CIRCUIT, circuitState, failCircuit, succeed } from './circuit.js'
import { type Connections, openConnections } from './connections.js'
import type { Trouble } from './retry.js'
import type { ServerAddress, TransportSettings } from './settings.js'
import { makePlaces, type Places } from './turns.js'

/** A server, its connections, and what is known of it. */
export interface Server {
  readonly address: ServerAddress
  readonly connections: Connections
  readonly places: Places
  /** Requests that wait for their turn. */
  readonly waiting: Cell<number>
  /** Whether a request may be sent to it now; asking counts as sending one. */
  readonly admit: () => 'yes' | 'no'
  readonly circuit: () => TransportState['circuit']
  /** Until it may be tried again. */
  readonly coolMs: () => number
  /** Takes note of how an attempt ended. */
  readonly note: (trouble: Trouble | undefined) => void
  readonly count: (what: 'requests' | 'attempts' | 'retries' | 'failures') => void
  readonly state: () => TransportState
}

/** Whether a trouble speaks against the server, and not against the request or the caller. */
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

/** Whether it shows that the server is well. */
const isAnswer = ({ kind, status }: Trouble): boolean => kind === 'status' && status !== undefined && status < 500

/** A server of which nothing is known yet. */
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
      // That an idle connection was closed says nothing about the server.
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
