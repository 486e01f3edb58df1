/** Servers that come back, or that a process left behind which was killed in the middle of a push. */
import * as E from 'fp-ts/lib/Either.js'
import { type Committed, memberOf, type Pushes } from './committed.js'
import { type Budget, budgetOf } from './controlCalls.js'
import type { Member } from './member.js'
import type { PushFailure } from './report.js'
import {
  checkServer,
  loadAdapterAt,
  resumeServer,
  type ServerRun,
  serverRun,
  unloadAdapterAt,
  verifyServer,
} from './serverRun.js'
import { reloadBase } from './transaction.js'

/** What a server was found with, and what was done about it. */
export interface RecoveredServer {
  readonly server: string
  readonly wasPaused: 'yes' | 'no'
  /** Adapters of earlier processes that were unloaded. */
  readonly unloaded: readonly string[]
  /** What could not be mended, or why it refuses requests until the next push; null if nothing. */
  readonly problem: string | null
}

const fail = (run: ServerRun, reason: string): E.Either<PushFailure, never> =>
  E.left({ _tag: 'WeightFailure', receiver: run.client.name, reason: run.problem ?? reason, report: null })

/** Adapters with our prefix that this updater does not know. */
const straysOf = <W>({ settings, names }: Pushes<W>, adapters: readonly string[]): readonly string[] =>
  adapters.filter((name) => name.startsWith(`${settings.sync.adapterPrefix}-v`) && !names.has(name))

/** Unloads adapters; answers with those that are gone. */
const unloadAll = async (run: ServerRun, names: readonly string[]): Promise<readonly string[]> => {
  const gone: string[] = []
  for (const name of names) if (await unloadAdapterAt(run, name, 'undo')) gone.push(name)
  return gone
}

/** Loads on a server that runs what is missing of the weights in use. */
const reload = async <W>(run: ServerRun, pushes: Pushes<W>, budget: Budget): Promise<boolean> => {
  const { current, base } = pushes
  const { adapter: name } = current.expected
  if (base.source !== null && !(await reloadBase(run, base, budget))) return false
  if (current.adapter === null || name === null) return base.source !== null
  const state = await run.client.state()
  if (E.isRight(state) && state.right.adapters.includes(name)) return true
  return loadAdapterAt(run, { name, adapter: current.adapter, phase: 'undo' }, budget)
}

/** Whether a server has the weights in use, by the probes: not to be told where nothing was pushed yet. */
const hasCurrent = (run: ServerRun, { expected }: Committed, budget: Budget): Promise<boolean> =>
  expected.probes === null ? Promise.resolve(false) : verifyServer(run, expected, { phase: 'verify', budget })

/**
 * Gives a server the weights in use, unless the probes say that it has them, and lets it take part again.
 *
 * Errors   `Left(PushFailure)` where it does not answer, the weights cannot be loaded, or are others afterwards: it stays lost.
 */
const reconcileServer = async <W>(pushes: Pushes<W>, member: Member): Promise<E.Either<PushFailure, number>> => {
  const { settings, current } = pushes
  const run = serverRun(member.client, settings.run)
  const found = await checkServer(run)
  if (found === null) return fail(run, 'it does not answer')
  if (found.state.isPaused === true) run.paused = 'yes'
  if (!(await resumeServer(run, 'check'))) return fail(run, 'it stays paused')
  await unloadAll(run, straysOf(pushes, found.state.adapters))
  const budget = budgetOf(settings.sync.pushMs, settings.run.world)
  if (!(await hasCurrent(run, current, budget))) {
    run.problem = null
    const loaded = await reload(run, pushes, budget)
    await resumeServer(run, 'undo')
    if (!loaded) return fail(run, 'nobody knows from where to load its weights: push again')
    if (!(await verifyServer(run, current.expected, { phase: 'verify', budget }))) return fail(run, 'it has others')
  }
  member.serve(current.serving)
  return E.right(current.serving.version)
}

/** Resumes a server and unloads what an earlier process left there. */
const recoverServer = async <W>(pushes: Pushes<W>, member: Member): Promise<RecoveredServer> => {
  const run = serverRun(member.client, pushes.settings.run)
  const server = member.client.name
  const found = await checkServer(run)
  if (found === null) return { server, wasPaused: 'no', unloaded: [], problem: run.problem }
  const { isPaused, adapters, version } = found.state
  const wasPaused = isPaused === true ? 'yes' : 'no'
  const strays = straysOf(pushes, adapters)
  const unloaded = await unloadAll(run, strays)
  const { expected } = pushes.base
  const isOther = version !== null && version !== expected.version
  // Whoever was killed after resuming, and before the probes, left weights that nobody asks for by a version.
  const isUntold = version === null && pushes.settings.how !== 'adapter' && pushes.base.source !== null
  if (wasPaused === 'no' && !isOther && !isUntold) {
    const kept = strays.filter((name) => !unloaded.includes(name))
    return { server, wasPaused, unloaded, problem: kept.length === 0 ? null : `still loaded: ${kept.join(', ')}` }
  }
  // A push was under way here, or its end was not told: whole weights may be half loaded.
  const other = isOther ? `it reports version ${version}, not ${expected.version}` : 'it does not tell its version'
  member.lose(wasPaused === 'yes' && !isOther ? 'it was paused in the middle of a push' : other)
  if (wasPaused === 'yes') run.paused = 'yes'
  const isRunning = await resumeServer(run, 'check')
  const mended = isRunning && pushes.base.source !== null ? await reconcileServer(pushes, member) : null
  if (mended !== null && E.isRight(mended)) return { server, wasPaused, unloaded, problem: null }
  const why = mended === null ? run.problem : mended.left.reason
  return { server, wasPaused, unloaded, problem: why ?? `${member.status().reason}: it refuses requests until a push` }
}

/** As `reconcileServer`, for a client of the updater. */
export const reconcileClient = <W>(pushes: Pushes<W>, client: Member['client']) =>
  reconcileServer(pushes, memberOf(pushes, client))

/**
 * Brings servers into order that an earlier process left in the middle of a push.
 *
 * Never fails: what could not be mended is told.
 */
export const recoverServers = <W>(pushes: Pushes<W>): Promise<readonly RecoveredServer[]> =>
  Promise.all(pushes.members.map((member) => recoverServer(pushes, member)))
