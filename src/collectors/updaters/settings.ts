/** What an updater is told: where the weights go, in which form, and how carefully. */
import type { Task } from 'fp-ts/lib/Task.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Ids } from '../../core/capabilities.js'
import { keyFromSeed } from '../../core/key.js'
import type { EngineClient } from '../../data/engineClient.js'
import type { AdapterWeights, PauseMode, WeightSource } from '../../data/generation.js'
import type { WeightFailure } from '../../data/weights.js'
import { liveClock, liveTimers } from '../../live/clock.js'
import { liveIds } from '../../live/ids.js'
import type { CallWorld } from './controlCalls.js'
import type { ServerStatus } from './member.js'
import { drawProbes } from './probes.js'
import type { ProbeTolerance, RunSettings } from './serverRun.js'
import type { OnLost } from './transaction.js'

/** Whole weights where servers find them. */
export interface PlacedWeights {
  readonly source: WeightSource
  /** Takes them away, when no server can need them any more. */
  readonly remove: Task<void>
}

/** What a trainer's weights are to servers. All of it may read the weights only until the push has ended. */
export interface WeightForms<in W> {
  /** How many ids there are: probes are drawn from them. */
  readonly vocabularySize: number
  /** `yes` for an adapter on weights that the servers have. */
  readonly hasAdapter: (weights: W) => 'yes' | 'no'
  readonly adapter: (weights: W) => AdapterWeights
  readonly full: (weights: W, version: number) => TaskEither<WeightFailure, PlacedWeights>
  /** The trainer's log-probabilities of every token but the first, in nats: one row for each row. */
  readonly score: (weights: W, rows: readonly (readonly number[])[]) => readonly ArrayLike<number>[]
}

/** How pushes are done. */
export interface SyncSettings {
  /**
   * What becomes of running requests while base weights are replaced. With `wait` each completion has one version; with `keep` it goes on with
   * the new weights, and each of its tokens is stamped.
   */
  readonly pause: PauseMode
  /** Prefixes of other weights: forgotten, or told apart by a salt in each request, so that those of old requests can still be of use. */
  readonly cache: 'reset' | 'salt'
  /** How many pushes old the weights of a running request may be: so many old adapters stay loaded. A server needs two more slots. */
  readonly maxStaleness: number
  /** Adapters are named `PREFIX-v3`. A name is never used twice. */
  readonly adapterPrefix: string
  readonly onLost: OnLost
  /** Milliseconds for a push, from the health check to the last probe. */
  readonly pushMs: number
  /** Milliseconds for bringing one server back to what it was. */
  readonly undoMs: number
  /** Milliseconds for a call that is over at once: health, state, resuming, unloading. */
  readonly callMs: number
}

/** Every completion has one version, the prefix cache is emptied, requests may be one push old, and a server that is gone fails the push. */
const DEFAULT_SYNC: SyncSettings = {
  pause: 'wait',
  cache: 'reset',
  maxStaleness: 1,
  adapterPrefix: 'policy',
  onLost: 'fail',
  pushMs: 600_000,
  undoMs: 600_000,
  callMs: 30_000,
}

/** Numbers of 32 bits agree to a thousandth of a nat everywhere. */
const TOLERANCE: ProbeTolerance = { worst: 1e-3, mean: 1e-3 }

/** Rows of ids and how exactly servers must agree about them. */
export interface VerifyOptions {
  /** At least one, each of at least 2 ids. Default: 20 rows of random ids and lengths, the same in every run. */
  readonly probes?: readonly (readonly number[])[]
  /** Default 1e-3 nats for any token, which is for F32. BF16 wants something like `{ worst: 1, mean: 0.05 }`. */
  readonly tolerance?: ProbeTolerance
}

export interface EngineUpdaterOptions<in W> {
  readonly clients: readonly EngineClient[]
  readonly weights: WeightForms<W>
  /** `auto`: as an adapter where the weights have one and all servers take it, else whole. */
  readonly how?: 'auto' | 'adapter' | 'full'
  /** What the servers have before the first push. Without a source, a first push of whole weights cannot be undone. */
  readonly start?: { readonly version?: number; readonly source?: WeightSource }
  readonly verify?: VerifyOptions
  readonly sync?: Partial<SyncSettings>
  /** Told when a server is lost, and when it has known weights again: a pool withdraws and restores it. */
  readonly onStatus?: (status: ServerStatus) => void
  readonly world?: Partial<CallWorld & { readonly ids: Ids }>
}

/** Options with everything filled in. */
export interface UpdaterSettings<in W>
  extends Omit<Required<EngineUpdaterOptions<W>>, 'start' | 'verify' | 'sync' | 'world'> {
  readonly start: { readonly version: number; readonly source: WeightSource | null }
  readonly probes: readonly (readonly number[])[]
  readonly sync: SyncSettings
  readonly run: RunSettings
}

const COUNT = 20
const LONGEST = 24

const checkProbes = (rows: readonly (readonly number[])[], vocabularySize: number): void => {
  const isId = (id: number): boolean => Number.isSafeInteger(id) && id >= 0 && id < vocabularySize
  const wrong = rows.findIndex((row) => row.length < 2 || !row.every(isId))
  if (rows.length === 0) throw new RangeError('engineUpdater: verify.probes must have at least one row')
  if (wrong !== -1) {
    throw new RangeError(
      `engineUpdater: verify.probes[${wrong}] must have at least 2 ids below ${vocabularySize}, got [${rows[wrong]!.join()}]`,
    )
  }
}

const checkSync = ({ maxStaleness, pushMs, undoMs, callMs }: SyncSettings): void => {
  if (!Number.isSafeInteger(maxStaleness) || maxStaleness < 0)
    throw new RangeError(`engineUpdater: sync.maxStaleness must be an integer from 0 on, got ${maxStaleness}`)
  for (const [name, ms] of Object.entries({ pushMs, undoMs, callMs })) {
    if (!(ms > 0 && Number.isFinite(ms))) throw new RangeError(`engineUpdater: sync.${name} must be above 0, got ${ms}`)
  }
}

/**
 * Completes the options of an updater.
 *
 * Errors   throws RangeError without a client, for two clients of one name, and for probes, a staleness or times that are none.
 */
export const updaterSettings = <W>(options: EngineUpdaterOptions<W>): UpdaterSettings<W> => {
  const { clients, weights, how = 'auto', start = {}, verify = {}, onStatus = () => {} } = options
  const sync = { ...DEFAULT_SYNC, ...options.sync }
  const { vocabularySize } = weights
  const [first] = clients
  if (first === undefined) throw new RangeError('engineUpdater: clients must have at least one client')
  if (new Set(clients.map(({ name }) => name)).size < clients.length)
    throw new RangeError(`engineUpdater: clients must have different names, got ${clients.map(({ name }) => name)}`)
  const probes = verify.probes ?? drawProbes(keyFromSeed(COUNT), { count: COUNT, vocabularySize, longest: LONGEST })
  checkProbes(probes, vocabularySize)
  checkSync(sync)
  return {
    ...{ clients, weights, how, onStatus, probes, sync },
    start: { version: start.version ?? first.serving().version, source: start.source ?? null },
    run: {
      world: { clock: liveClock, timers: liveTimers, ids: liveIds, ...options.world },
      callMs: sync.callMs,
      tolerance: verify.tolerance ?? TOLERANCE,
      pause: sync.pause,
      // Frozen requests would go on with keys and values of the old weights.
      cache: sync.cache === 'reset' || sync.pause === 'keep' ? 'clear' : 'keep',
    },
  }
}
