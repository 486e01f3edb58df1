/** A push to several servers as one change: all that take part get the weights, or all keep those they had. */
import type { Changing } from '../../core/changing.js'
import type { AdapterWeights, WeightSource } from '../../data/generation.js'
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

/** What to do about a server that is gone: fail the push, or go on without the server. */
export type OnLost = 'fail' | 'withdraw'

interface TransactionState {
  /** Those that take part still. */
  readonly active: readonly ServerRun[]
  /** Those of which nobody knows what they would sample with, and why. */
  readonly lost: Map<ServerRun, string>
  /** Those that had no known weights before: they hold nobody up. */
  readonly wereLost: ReadonlySet<ServerRun>
  readonly onLost: OnLost
  readonly budget: Budget
  /** Time to undo it: not cut short by the caller's signal. */
  readonly undoBudget: () => Budget
}

/** The servers of a push, and time for it. A mutable value. */
export type Transaction = Changing<TransactionState>

/** Base weights that servers had before, or are to have. */
export interface BaseWeights {
  readonly expected: ExpectedWeights
  /** Null where nobody knows from where to load them. */
  readonly source: WeightSource | null
}

const each = async (runs: readonly ServerRun[], work: (run: ServerRun) => Promise<unknown>): Promise<void> => {
  await Promise.all(runs.map(work))
}

/** Takes a server out of a push. */
const lose = (tx: Transaction, run: ServerRun): void => {
  tx.lost.set(run, run.problem ?? 'which weights it has is not known')
  tx.active = tx.active.filter((other) => other !== run)
}

/**
 * Whether a push goes on after a step: if nothing went wrong, or only at servers that are gone and may be left out.
 *
 * Effects  servers that are left out are lost.
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

/** An adapter that is pushed, with the numbers that prove it. */
export interface AdapterPush {
  readonly name: string
  readonly adapter: AdapterWeights
  readonly expected: ExpectedWeights
}

/**
 * Loads an adapter on all servers and verifies it there, under a name that no request uses yet. True if it may be used everywhere.
 *
 * Effects  nobody is paused. If it may not be used, it is unloaded wherever it may have been loaded.
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

/** Loads base weights on a server that runs, and verifies them. */
export const reloadBase = async (run: ServerRun, { expected, source }: BaseWeights, budget: Budget): Promise<boolean> =>
  source !== null &&
  (run.paused === 'yes' || (await pauseServer(run, 'undo', budget))) &&
  (await loadBase(run, { source, version: expected.version, phase: 'undo' }, budget)) &&
  (await resumeServer(run, 'undo')) &&
  (await verifyServer(run, expected, { phase: 'undo', budget }))

/**
 * Gives a server the base weights back that it had. True if it is known to have them.
 *
 * Numbers that are right now prove nothing while a load may still come: the old weights are loaded then, behind it.
 */
const restoreBase = async (run: ServerRun, previous: BaseWeights, budget: Budget): Promise<boolean> => {
  const { expected } = previous
  // A server that said no, or that was never reached, has them still.
  if (run.base === 'perhaps new' && expected.probes !== null && (await resumeServer(run, 'undo'))) {
    if (await verifyServer(run, expected, { phase: 'undo', budget })) return true
  }
  return reloadBase(run, previous, budget)
}

/** Brings a server back to what it was before the push; it is lost if that cannot be done. */
const undoAt = async (tx: Transaction, run: ServerRun, previous: BaseWeights): Promise<void> => {
  // Whoever is gone is not waited for: what it has when it comes back is not known.
  if (run.problem !== null && !(await isAlive(run))) return lose(tx, run)
  const restored = run.base === 'old' || (await restoreBase(run, previous, tx.undoBudget()))
  const resumed = await resumeServer(run, 'undo')
  if (!restored || !resumed) lose(tx, run)
}

/** Base weights that are pushed over others. */
export interface FullPush {
  readonly next: BaseWeights & { readonly source: WeightSource }
  readonly previous: (run: ServerRun) => BaseWeights
  /** Called when all servers have the weights, before anybody may go on. */
  readonly commit: () => void
  /** Called before anybody may go on, for `lost` servers: requests are to be refused there. */
  readonly refuse: () => void
}

/** Runs the steps one after the other, each at all servers, for as long as the push goes on. */
const steps = async (tx: Transaction, works: readonly ((run: ServerRun) => Promise<unknown>)[]): Promise<boolean> => {
  for (const work of works) {
    await each(tx.active, work)
    if (!(await goesOn(tx))) return false
  }
  return true
}

/**
 * Replaces the base weights of all servers: pause, load, resume, verify, each at all of them before the next. True if all have them.
 *
 * Effects  our clients hold new requests of policies all the while, so that none is sampled with other weights than it is stamped with. If
 *          something fails, every server that may have changed gets its old weights back, and proves it; one that cannot is lost. Every
 *          server that may be paused is resumed, whatever happens.
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
    // Those that were left out may come back, and must not be found paused. Nobody waits for them.
    await each([...tx.lost.keys()], (run) => resumeServer(run, 'undo'))
  }
}
