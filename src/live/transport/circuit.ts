/** Leaving a server alone that fails again and again: a pure state machine. */

export interface CircuitOptions {
  /** Failures in a row that open the circuit. */
  readonly failures: number
  /** How long the server is left alone then, and between trials afterwards. */
  readonly coolMs: number
}

/** `untilMs`: the next trial may be made then. Without it the circuit is closed, after `failures` in a row. */
export interface Circuit {
  readonly failures: number
  readonly untilMs?: number
}

/** A circuit at the start. */
export const CLOSED_CIRCUIT: Circuit = { failures: 0 }

/** How a circuit is now. */
export const circuitState = (circuit: Circuit, nowMs: number): 'closed' | 'open' | 'half-open' => {
  if (circuit.untilMs === undefined) return 'closed'
  return nowMs < circuit.untilMs ? 'open' : 'half-open'
}

/**
 * The circuit after a request is let through, or undefined if it may not be. A circuit that has cooled lets one request through, and another
 * one only after another pause: a trial that is not answered closes nothing and blocks nothing.
 */
export const admit = (circuit: Circuit, options: CircuitOptions, nowMs: number): Circuit | undefined => {
  if (circuit.untilMs === undefined) return circuit
  return nowMs < circuit.untilMs ? undefined : { ...circuit, untilMs: nowMs + options.coolMs }
}

/** The circuit after an answer. */
export const succeed = (): Circuit => CLOSED_CIRCUIT

/** The circuit after a failure that is the server's. */
export const failCircuit = (circuit: Circuit, options: CircuitOptions, nowMs: number): Circuit => {
  const failures = circuit.failures + 1
  const isOpen = circuit.untilMs !== undefined || failures >= options.failures
  return isOpen ? { failures, untilMs: nowMs + options.coolMs } : { failures }
}
