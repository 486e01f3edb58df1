/** What a push of weights did: as a whole, and at each server. */
import type { WeightFailure } from '../../data/weights.js'

/** Parts of a push, in their order. An adapter is loaded without pausing anybody. */
export type PushPhase = 'check' | 'pause' | 'load' | 'resume' | 'verify' | 'undo' | 'retire'

/** How far a server's log-probabilities of the probes are from the trainer's, in nats. */
export interface ProbeGap {
  /** The largest difference. Infinite where the server gives no number. */
  readonly worst: number
  /** The mean of all absolute differences. */
  readonly mean: number
  /** Number of the probe that has the largest. */
  readonly probe: number
}

/**
 * What came of a push at one server. `committed`: it samples with the new weights. `unchanged`: it has the old ones still, `restored`: again.
 * `lost`: which weights it has is not known, or it is gone; its client refuses requests until weights are loaded and verified there.
 */
export interface ServerReport {
  readonly server: string
  readonly outcome: 'committed' | 'unchanged' | 'restored' | 'lost'
  /** What went wrong here; null if nothing did. */
  readonly problem: string | null
  /** Of the new weights; null if it did not come to that. */
  readonly gap: ProbeGap | null
  /** Of each phase that it went through. */
  readonly milliseconds: Readonly<Partial<Record<PushPhase, number>>>
}

/** A push of weights to all servers. */
export interface PushReport {
  readonly version: number
  readonly how: 'adapter' | 'full'
  /** Whether new requests are sampled with the new weights. */
  readonly outcome: 'committed' | 'failed'
  /** From its start to its end, writing files and computing the trainer's numbers included. */
  readonly milliseconds: number
  readonly servers: readonly ServerReport[]
}

/** A push that failed: the old weights are in use. */
export interface PushFailure extends WeightFailure {
  /** Null if nothing was sent to any server. */
  readonly report: PushReport | null
}
