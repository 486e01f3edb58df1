/** Pushes weights to remote engines: each verifies them, and either all or none switch to them. */
import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Task } from 'fp-ts/lib/Task.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient } from '../../data/engineClient.js'
import { ENGINE_UPDATER_OPTIONS } from '../optionKinds.js'
import type { WeightUpdater } from '../weightSync.js'
import { noPushes } from './committed.js'
import { makeMember, type ServerStatus } from './member.js'
import { pushWeights } from './push.js'
import { type RecoveredServer, reconcileClient, recoverServers } from './recovery.js'
import type { PushFailure, PushReport } from './report.js'
import { type EngineUpdaterOptions, updaterSettings } from './settings.js'

/** The current state of an updater's servers. */
export interface UpdaterState {
  /** The version that samples new requests. */
  readonly version: number
  readonly adapter: string | null
  readonly servers: readonly ServerStatus[]
  /**
   * Adapters to unload, by server: they are still in use, or the server did not respond.
   */
  readonly leftovers: Readonly<Record<string, readonly string[]>>
}

/** A `WeightUpdater` for remote engines. Its calls run sequentially. */
export interface EngineUpdater<in W> extends WeightUpdater<W> {
  /**
   * Pushes weights. Returns the version that all servers sample with from now on.
   *
   * Errors   `Left(PushFailure)` with server, problem and gap; the previous version stays in use.
   */
  readonly push: (
    weights: W,
    version: number,
    options?: { readonly signal?: AbortSignal },
  ) => TaskEither<PushFailure, number>
  readonly state: () => UpdaterState
  /** Returns the report of the last push that contacted servers, or `null` before the first. */
  readonly report: () => PushReport | null
  /**
   * Loads and verifies the current weights on a lost server that has returned, and uses it again.
   * Throws RangeError for a client that does not belong to the updater.
   */
  readonly reconcile: (client: EngineClient) => TaskEither<PushFailure, number>
  /**
   * Restores servers after an earlier process may have been killed during a push; run it first.
   * Resumes paused servers, unloads unknown adapters with the prefix, and loads the initial
   * weights. If these are not available, servers with possibly incomplete weights refuse requests
   * until a push. A server that reports no version always gets the initial weights, if their source
   * is known and more than adapters are pushed.
   */
  readonly recover: Task<readonly RecoveredServer[]>
}

/**
 * Makes an updater that pushes weights to remote engines atomically.
 *
 * Each push checks the health of all servers, loads the weights on all of them, lets them score a
 * fixed set of probes, and compares the results with the trainer's. Only then do all servers sample
 * with the new weights. An adapter is loaded next to the old one while requests run. Whole weights
 * are loaded while servers are paused and clients hold new requests. If anything fails, changes are
 * undone and verified, and every server resumes. A call without a response is not repeated until
 * the server has reported its state. Requests of other processes to the same servers are not held
 * back: avoid them, or let them use their own version.
 *
 * Errors   `Left(PushFailure)`, see `push`. Throws RangeError for invalid options.
 * Effects  holds and releases requests at the clients, and sends control calls with time limits.
 *          Weights are read until the push has ended.
 * Cost     for an adapter, its upload and the probes; for whole weights, one checkpoint and a pause
 *          while it is loaded.
 * Source   TorchRL's `vLLMUpdater` and weight sync schemes; rules of vLLM's own client for
 *          versions, caches and adapters.
 */
export const engineUpdater = <W>(options: EngineUpdaterOptions<W>): EngineUpdater<W> => {
  checkOptions('engineUpdater', options, ENGINE_UPDATER_OPTIONS)
  const settings = updaterSettings(options)
  const members = settings.clients.map((client) => makeMember(client, settings.onStatus))
  const pushes = noPushes(settings, members)
  let last: PushReport | null = null
  let line: Promise<unknown> = Promise.resolve()

  /** Runs calls one after the other. A failed call does not block the next one. */
  const inLine = <A>(work: () => Promise<A>): Promise<A> => {
    const result = line.then(work)
    line = result.catch(() => undefined)
    return result
  }

  const refuse = (reason: string): E.Either<PushFailure, never> =>
    E.left({ _tag: 'WeightFailure', receiver: 'engine updater', reason, report: null })

  return {
    push: (weights, version, { signal } = {}) => {
      const work = async (): Promise<E.Either<PushFailure, number>> => {
        const inUse = pushes.current.serving.version
        if (!Number.isSafeInteger(version) || version <= inUse)
          return refuse(`version ${version} is not newer than ${inUse}, which is in use`)
        const result = await pushWeights(pushes, { weights, version }, signal)
        const report = E.isLeft(result) ? result.left.report : result.right.report
        last = report ?? last
        return E.isLeft(result) ? result : E.right(version)
      }
      return () => inLine(work)
    },
    state: () => ({
      version: pushes.current.serving.version,
      adapter: pushes.current.serving.adapter,
      servers: members.map((member) => member.status()),
      leftovers: Object.fromEntries(members.map(({ client, leftovers }) => [client.name, [...leftovers]])),
    }),
    report: () => last,
    reconcile: (client) => () => inLine(() => reconcileClient(pushes, client)),
    recover: () => inLine(() => recoverServers(pushes)),
  }
}
