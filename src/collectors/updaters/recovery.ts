/** Recovery of servers that return, or that a killed process left in the middle of a push. */
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

/** The state in which a server was found, and its recovery. */
export interface RecoveredServer {
  readonly server: string
  readonly wasPaused: 'yes' | 'no'
  /** Adapters of earlier processes that were unloaded. */
  readonly unloaded: readonly string[]
  /**
   * The remaining problem, or the reason for refusing requests until the next push; `null` if
   * recovered.
   */
  readonly problem: string | null
}

const fail = (run: ServerRun, reason: string): E.Either<PushFailure, never> =>
  E.left({ _tag: 'WeightFailure', receiver: run.client.name, reason: run.problem ?? reason, report: null })

/** Returns the adapters with our prefix that this updater did not load. */
const straysOf = <W>({ settings, names }: Pushes<W>, adapters: readonly string[]): readonly string[] =>
  adapters.filter((name) => name.startsWith(`${settings.sync.adapterPrefix}-v`) && !names.has(name))

/** Unloads adapters. Returns the unloaded ones. */
const unloadAll = async (run: ServerRun, names: readonly string[]): Promise<readonly string[]> => {
  const gone: string[] = []
  for (const name of names) if (await unloadAdapterAt(run, name, 'undo')) gone.push(name)
  return gone
}

/** Loads the missing parts of the current weights on a running server. */
const reload = async <W>(run: ServerRun, pushes: Pushes<W>, budget: Budget): Promise<boolean> => {
  const { current, base } = pushes
  const { adapter: name } = current.expected
  if (base.source !== null && !(await reloadBase(run, base, budget))) return false
  if (current.adapter === null || name === null) return base.source !== null
  const state = await run.client.state()
  if (E.isRight(state) && state.right.adapters.includes(name)) return true
  return loadAdapterAt(run, { name, adapter: current.adapter, phase: 'undo' }, budget)
}

/** Returns true if the probes confirm the current weights. They cannot before the first push. */
const hasCurrent = (run: ServerRun, { expected }: Committed, budget: Budget): Promise<boolean> =>
  expected.probes === null ? Promise.resolve(false) : verifyServer(run, expected, { phase: 'verify', budget })

/**
 * Loads the current weights on a server, unless the probes confirm them already, and uses it again.
 *
 * Errors   `Left(PushFailure)` if the server does not respond, or the weights cannot be loaded or
 *          verified. It stays lost.
 */
const reconcileServer = async <W>(pushes: Pushes<W>, member: Member): Promise<E.Either<PushFailure, number>> => {
  const { settings, current } = pushes
  const run = serverRun(member.client, settings.run)
  const found = await checkServer(run)
  if (found === null) return fail(run, 'it does not respond')
  if (found.state.isPaused === true) run.paused = 'yes'
  if (!(await resumeServer(run, 'check'))) return fail(run, 'it stays paused')
  await unloadAll(run, straysOf(pushes, found.state.adapters))
  const budget = budgetOf(settings.sync.pushMs, settings.run.world)
  if (!(await hasCurrent(run, current, budget))) {
    run.problem = null
    const loaded = await reload(run, pushes, budget)
    await resumeServer(run, 'undo')
    if (!loaded) return fail(run, 'the source of its weights is unknown: push again')
    if (!(await verifyServer(run, current.expected, { phase: 'verify', budget })))
      return fail(run, 'it has other weights')
  }
  member.serve(current.serving)
  return E.right(current.serving.version)
}

/** Resumes a server and unloads the adapters that an earlier process left. */
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
  // A process killed after resuming and before the probes may have left unverified weights without
  // a version.
  const isUnknown = version === null && pushes.settings.how !== 'adapter' && pushes.base.source !== null
  if (wasPaused === 'no' && !isOther && !isUnknown) {
    const kept = strays.filter((name) => !unloaded.includes(name))
    return { server, wasPaused, unloaded, problem: kept.length === 0 ? null : `still loaded: ${kept.join(', ')}` }
  }
  // A push was interrupted here, or its end was not reported. Whole weights may be incomplete.
  const other = isOther ? `it reports version ${version}, not ${expected.version}` : 'it does not report its version'
  member.lose(wasPaused === 'yes' && !isOther ? 'it was paused in the middle of a push' : other)
  if (wasPaused === 'yes') run.paused = 'yes'
  const isRunning = await resumeServer(run, 'check')
  const mended = isRunning && pushes.base.source !== null ? await reconcileServer(pushes, member) : null
  if (mended !== null && E.isRight(mended)) return { server, wasPaused, unloaded, problem: null }
  const why = mended === null ? run.problem : mended.left.reason
  return { server, wasPaused, unloaded, problem: why ?? `${member.status().reason}: it refuses requests until a push` }
}

/** Like `reconcileServer`, for a client of the updater. */
export const reconcileClient = <W>(pushes: Pushes<W>, client: Member['client']) =>
  reconcileServer(pushes, memberOf(pushes, client))

/**
 * Restores servers that an earlier process left in the middle of a push.
 *
 * Never fails: remaining problems are part of the result.
 */
export const recoverServers = <W>(pushes: Pushes<W>): Promise<readonly RecoveredServer[]> =>
  Promise.all(pushes.members.map((member) => recoverServer(pushes, member)))
