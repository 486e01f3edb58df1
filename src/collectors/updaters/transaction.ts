/**
 * An atomic push to several servers: either all of them get the weights, or all keep their old
 * ones.
 */
import type { Changing } from '@tandem-rl/base'
import type { AdapterWeights, WeightSource } from '@tandem-rl/text'
import type { Budget } from './controlCalls.js'
import {
  type ExpectedWeights,
  isAlive,
  loadAdapterAt,
  loadBase,
  pauseServer,
  resumeServer,
  type ServerRun,
  unloadAdapterAt,
  verifyServer,
} from './serverRun.js'

/** The reaction to a lost server: fail the push, or continue without the server. */
export type OnLost = 'fail' | 'withdraw'

interface TransactionState {
  /** The servers that still take part. */
  readonly active: readonly ServerRun[]
  /** The servers with unknown weights, with the reason. */
  readonly lost: Map<ServerRun, string>
  /** The servers that were lost before the push. They do not block it. */
  readonly wereLost: ReadonlySet<ServerRun>
  readonly onLost: OnLost
  readonly budget: Budget
  /** Time limit of an undo. The caller's signal does not shorten it. */
  readonly undoBudget: () => Budget
}

/** The mutable state of a push: its servers and time limits. */
export type Transaction = Changing<TransactionState>

/** Base weights that servers had before, or should get. */
export interface BaseWeights {
  readonly expected: ExpectedWeights
  /** `null` if their source is unknown. */
  readonly source: WeightSource | null
}

const each = async (runs: readonly ServerRun[], work: (run: ServerRun) => Promise<unknown>): Promise<void> => {
  await Promise.all(runs.map(work))
}

/** Removes a server from a push. */
const lose = (tx: Transaction, run: ServerRun): void => {
  tx.lost.set(run, run.problem ?? 'its weights are unknown')
  tx.active = tx.active.filter((other) => other !== run)
}

/**
 * Returns true if a push can continue after a step: all servers succeeded, or only lost ones failed
 * and may be left out.
 *
 * Effects  marks servers that are left out as lost.
 */
export const goesOn = async (tx: Transaction): Promise<boolean> => {
  const failing = tx.active.filter(({ problem }) => problem !== null)
  if (failing.length === 0) return tx.active.length > 0
  if (tx.onLost === 'fail' || failing.length === tx.active.length) return false
  const canGo = await Promise.all(failing.map(async (run) => tx.wereLost.has(run) || !(await isAlive(run))))
  if (canGo.includes(false)) return false
  for (const run of failing) lose(tx, run)
  return true
}

/** An adapter to push, with the probes that verify it. */
export interface AdapterPush {
  readonly name: string
  readonly adapter: AdapterWeights
  readonly expected: ExpectedWeights
}

/**
 * Loads an adapter on all servers under an unused name, and verifies it. Returns true if all
 * servers can use it.
 *
 * Effects  pauses no server. On failure the adapter is unloaded wherever it may have been loaded.
 */
export const pushAdapter = async (tx: Transaction, { name, adapter, expected }: AdapterPush): Promise<boolean> => {
  const all = tx.active
  await each(all, async (run) => {
    const loaded = await loadAdapterAt(run, { name, adapter, phase: 'load' }, tx.budget)
    if (loaded) await verifyServer(run, expected, { phase: 'verify', budget: tx.budget })
  })
  if (await goesOn(tx)) return true
  await each(all, (run) => unloadAdapterAt(run, name, 'undo'))
  return false
}

/** Loads base weights on a running server, and verifies them. */
export const reloadBase = async (run: ServerRun, { expected, source }: BaseWeights, budget: Budget): Promise<boolean> =>
  source !== null &&
  (run.paused === 'yes' || (await pauseServer(run, 'undo', budget))) &&
  (await loadBase(run, { source, version: expected.version, phase: 'undo' }, budget)) &&
  (await resumeServer(run, 'undo')) &&
  (await verifyServer(run, expected, { phase: 'undo', budget }))

/**
 * Restores the previous base weights of a server. Returns true if it is known to have them.
 *
 * Matching probes prove nothing while an unanswered load may still take effect. The old weights are
 * then loaded again after it.
 */
const restoreBase = async (run: ServerRun, previous: BaseWeights, budget: Budget): Promise<boolean> => {
  const { expected } = previous
  // A server that refused the load, or was never reached, still has them.
  if (run.base === 'perhaps new' && expected.probes !== null && (await resumeServer(run, 'undo'))) {
    if (await verifyServer(run, expected, { phase: 'undo', budget })) return true
  }
  return reloadBase(run, previous, budget)
}

/** Restores a server to its state before the push, or marks it as lost. */
const undoAt = async (tx: Transaction, run: ServerRun, previous: BaseWeights): Promise<void> => {
  // A server that does not respond is not waited for. Its weights are unknown if it returns.
  if (run.problem !== null && !(await isAlive(run))) return lose(tx, run)
  const restored = run.base === 'old' || (await restoreBase(run, previous, tx.undoBudget()))
  const resumed = await resumeServer(run, 'undo')
  if (!restored || !resumed) lose(tx, run)
}

/** A push of base weights. */
export interface FullPush {
  readonly next: BaseWeights & { readonly source: WeightSource }
  readonly previous: (run: ServerRun) => BaseWeights
  /** Called when all servers have the weights, before requests are released. */
  readonly commit: () => void
  /** Called before requests are released, so that `lost` servers refuse them. */
  readonly refuse: () => void
}

/** Runs the steps one after the other, each on all servers, as long as the push can continue. */
const steps = async (tx: Transaction, works: readonly ((run: ServerRun) => Promise<unknown>)[]): Promise<boolean> => {
  for (const work of works) {
    await each(tx.active, work)
    if (!(await goesOn(tx))) return false
  }
  return true
}

/**
 * Replaces the base weights of all servers: pause, load, resume, verify. Each step completes on all
 * of them before the next one. Returns true if all have the weights.
 *
 * Effects  our clients hold new requests meanwhile, so that every request is sampled with the
 *          weights of its stamp. On failure, every server that may have changed gets its old
 *          weights back and is verified; if that fails, it is lost. Every server that may be paused
 *          is resumed in any case.
 */
export const pushFull = async (tx: Transaction, push: FullPush): Promise<boolean> => {
  const { next, previous, commit, refuse } = push
  const { source, expected } = next
  const all = tx.active
  const releases = all.map(({ client }) => client.hold())
  try {
    const { budget } = tx
    const done = await steps(tx, [
      (run) => pauseServer(run, 'pause', budget),
      (run) => loadBase(run, { source, version: expected.version, phase: 'load' }, budget),
      (run) => resumeServer(run, 'resume'),
      (run) => verifyServer(run, expected, { phase: 'verify', budget }),
    ])
    if (!done) await each(tx.active, (run) => undoAt(tx, run, previous(run)))
    refuse()
    if (done) commit()
    return done
  } finally {
    for (const release of releases) release()
    // Servers that were left out may return, and must not stay paused. A push does not wait for
    // them.
    await each([...tx.lost.keys()], (run) => resumeServer(run, 'undo'))
  }
}
