/** The settings of an updater: servers, form of the weights, and verification. */
import { type Ids, keyFromSeed } from '@tandem-rl/base'
import { harmless, liveClock, liveIds, liveTimers } from '@tandem-rl/base/host'
import type { AdapterWeights, PauseMode, WeightFailure, WeightSource } from '@tandem-rl/text'
import type { Task } from 'fp-ts/lib/Task.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient } from '../../data/engineClient.js'
import type { CallWorld } from './controlCalls.js'
import type { ServerStatus } from './member.js'
import { drawProbes } from './probes.js'
import type { ProbeTolerance, RunSettings } from './serverRun.js'
import type { OnLost } from './transaction.js'

/** Whole weights at a place that servers can read. */
export interface PlacedWeights {
  readonly source: WeightSource
  /** Removes them once no server needs them any more. */
  readonly remove: Task<void>
}

/**
 * Conversions of a trainer's weights for servers. The weights may be read only until the push has
 * ended.
 */
export interface WeightForms<in W> {
  /** Size of the vocabulary from which probes are drawn. */
  readonly vocabularySize: number
  /** Returns `yes` if the weights contain an adapter for the servers' base weights. */
  readonly hasAdapter: (weights: W) => 'yes' | 'no'
  readonly adapter: (weights: W) => AdapterWeights
  readonly full: (weights: W, version: number) => TaskEither<WeightFailure, PlacedWeights>
  /**
   * Computes the trainer's log-probabilities of every token except the first, in nats, row by row.
   */
  readonly score: (weights: W, rows: readonly (readonly number[])[]) => readonly ArrayLike<number>[]
}

/** The settings of pushes. */
export interface SyncSettings {
  /**
   * Treatment of running requests while base weights are replaced. With `wait` each completion has
   * one version. With `keep` it continues with the new weights, and each token is stamped with its
   * version.
   */
  readonly pause: PauseMode
  /**
   * Treatment of cached prefixes. `reset` clears them. `salt` separates versions by a salt in each
   * request, so that old requests can still use theirs.
   */
  readonly cache: 'reset' | 'salt'
  /**
   * Largest age of a running request's weights, in pushes. As many old adapters stay loaded, and a
   * server needs two more slots.
   */
  readonly maxStaleness: number
  /** Adapters are named `PREFIX-v3`. Names are never reused. */
  readonly adapterPrefix: string
  readonly onLost: OnLost
  /** Time limit of a push in milliseconds, from the health check to the last probe. */
  readonly pushMs: number
  /** Time limit in milliseconds for restoring one server. */
  readonly undoMs: number
  /** Time limit in milliseconds for short calls: health, state, resuming, unloading. */
  readonly callMs: number
}

/**
 * Defaults: one version per completion, a cleared prefix cache, requests at most one push old, and
 * a lost server fails the push.
 */
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

/** 32-bit implementations agree to a thousandth of a nat. */
const TOLERANCE: ProbeTolerance = { worst: 1e-3, mean: 1e-3 }

/** The probes and the required accuracy. */
export interface VerifyOptions {
  /**
   * At least one, each of at least 2 ids. Default: 20 rows of random ids and lengths, the same in
   * every run.
   */
  readonly probes?: readonly (readonly number[])[]
  /**
   * Default 1e-3 nats for any token, which suits F32. BF16 needs about `{ worst: 1, mean: 0.05 }`.
   */
  readonly tolerance?: ProbeTolerance
}

export interface EngineUpdaterOptions<in W> {
  readonly clients: readonly EngineClient[]
  readonly weights: WeightForms<W>
  /**
   * `auto`: pushes an adapter if the weights have one and all servers support it, otherwise whole
   * weights.
   */
  readonly how?: 'auto' | 'adapter' | 'full'
  /**
   * The weights that servers have before the first push. Without a source, a first push of whole
   * weights cannot be undone.
   */
  readonly start?: { readonly version?: number; readonly source?: WeightSource }
  readonly verify?: VerifyOptions
  readonly sync?: Partial<SyncSettings>
  /**
   * Called when a server is lost and when it has verified weights again, for example to withdraw
   * and restore it in a pool.
   */
  readonly onStatus?: (status: ServerStatus) => void
  readonly world?: Partial<CallWorld & { readonly ids: Ids }>
}

/** Options with all defaults filled in. */
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
    throw new RangeError(`engineUpdater: sync.maxStaleness must be an integer of at least 0, got ${maxStaleness}`)
  for (const [name, ms] of Object.entries({ pushMs, undoMs, callMs })) {
    if (!(ms > 0 && Number.isFinite(ms))) throw new RangeError(`engineUpdater: sync.${name} must be above 0, got ${ms}`)
  }
}

/**
 * Completes the options of an updater.
 *
 * Errors   throws RangeError if there is no client, if two clients have the same name, and for
 *          invalid probes, staleness or times.
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
    clients,
    weights,
    how,
    probes,
    sync,
    onStatus: harmless('onStatus', onStatus),
    start: { version: start.version ?? first.serving().version, source: start.source ?? null },
    run: {
      world: { clock: liveClock, timers: liveTimers, ids: liveIds, ...options.world },
      callMs: sync.callMs,
      tolerance: verify.tolerance ?? TOLERANCE,
      pause: sync.pause,
      // Frozen requests would otherwise continue with keys and values of the old weights.
      cache: sync.cache === 'reset' || sync.pause === 'keep' ? 'clear' : 'keep',
    },
  }
}
