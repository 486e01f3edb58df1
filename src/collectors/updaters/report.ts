/** The report of a push of weights, in total and per server. */
import type { WeightFailure } from '@tandem-rl/text'

/** The phases of a push, in order. An adapter is loaded without pausing servers. */
export type PushPhase = 'check' | 'pause' | 'load' | 'resume' | 'verify' | 'undo' | 'retire'

/** The gap between a server's log-probabilities of the probes and the trainer's, in nats. */
export interface ProbeGap {
  /** The largest difference. Infinite if a number is missing. */
  readonly worst: number
  /** The mean of all absolute differences. */
  readonly mean: number
  /** Index of the probe with the largest difference. */
  readonly probe: number
}

/**
 * The outcome of a push at one server. `committed`: it samples with the new weights. `unchanged`:
 * it kept the old weights. `restored`: the old weights were loaded again. `lost`: it is gone, or
 * its weights are unknown; its client refuses requests until weights are loaded and verified.
 */
export interface ServerReport {
  readonly server: string
  readonly outcome: 'committed' | 'unchanged' | 'restored' | 'lost'
  /** The problem at this server, or `null`. */
  readonly problem: string | null
  /** The gap of the new weights, or `null` if they were not probed. */
  readonly gap: ProbeGap | null
  /** Duration of each phase that it went through. */
  readonly milliseconds: Readonly<Partial<Record<PushPhase, number>>>
}

/** A push of weights to all servers. */
export interface PushReport {
  readonly version: number
  readonly how: 'adapter' | 'full'
  /** `committed` if new requests are sampled with the new weights. */
  readonly outcome: 'committed' | 'failed'
  /** Total duration, including writing files and computing the trainer's log-probabilities. */
  readonly milliseconds: number
  readonly servers: readonly ServerReport[]
}

/** A failed push. The old weights stay in use. */
export interface PushFailure extends WeightFailure {
  /** `null` if no server was contacted. */
  readonly report: PushReport | null
}
