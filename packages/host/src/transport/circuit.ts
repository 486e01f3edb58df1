/** A circuit breaker for a server that fails repeatedly, as a pure state machine. */

export interface CircuitOptions {
  /** Consecutive failures that open the circuit. */
  readonly failures: number
  /** Time in milliseconds without requests after that, and between later trials. */
  readonly coolMs: number
}

/**
 * A circuit. With `untilMs` it is open, and the next trial is allowed at that time. Without it, it
 * is closed, after `failures` consecutive failures.
 */
export interface Circuit {
  readonly failures: number
  readonly untilMs?: number
}

/** The initial circuit. */
export const CLOSED_CIRCUIT: Circuit = { failures: 0 }

/** Returns the current state of a circuit. */
export const circuitState = (circuit: Circuit, nowMs: number): 'closed' | 'open' | 'half-open' => {
  if (circuit.untilMs === undefined) return 'closed'
  return nowMs < circuit.untilMs ? 'open' : 'half-open'
}

/**
 * Returns the circuit after admitting a request, or `undefined` if it must be refused. An open
 * circuit admits one request after each pause. A trial without an answer neither closes the circuit
 * nor blocks it.
 */
export const admit = (circuit: Circuit, options: CircuitOptions, nowMs: number): Circuit | undefined => {
  if (circuit.untilMs === undefined) return circuit
  return nowMs < circuit.untilMs ? undefined : { ...circuit, untilMs: nowMs + options.coolMs }
}

/** Returns the circuit after a success. */
export const succeed = (): Circuit => CLOSED_CIRCUIT

/** Returns the circuit after a failure of the server. */
export const failCircuit = (circuit: Circuit, options: CircuitOptions, nowMs: number): Circuit => {
  const failures = circuit.failures + 1
  const isOpen = circuit.untilMs !== undefined || failures >= options.failures
  return isOpen ? { failures, untilMs: nowMs + options.coolMs } : { failures }
}
