/** Pushes weights to remote engines: each verifies them, and either all or none switch to them. */
import * as E from 'fp-ts/lib/Either.js'
import type { Task } from 'fp-ts/lib/Task.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { aFunction, aList, aRecord, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import type { EngineClient } from '../../data/engineClient.js'
import type { WeightUpdater } from '../weightSync.js'
import { noPushes } from './committed.js'
import { makeMember, type ServerStatus } from './member.js'
import { pushWeights } from './push.js'
import { type RecoveredServer, reconcileClient, recoverServers } from './recovery.js'
import type { PushFailure, PushReport } from './report.js'
import { type EngineUpdaterOptions, updaterSettings } from './settings.js'

/** What an updater's servers have now. */
export interface UpdaterState {
  /** That new requests are sampled with. */
  readonly version: number
  readonly adapter: string | null
  readonly servers: readonly ServerStatus[]
  /**
   * By server, adapters that are still to be unloaded: a request uses them, or the server did not
   * answer.
   */
  readonly leftovers: Readonly<Record<string, readonly string[]>>
}

/** A `WeightUpdater` of engines behind a wire. Its calls are done one after the other. */
export interface EngineUpdater<in W> extends WeightUpdater<W> {
  /**
   * Answers with the version that all servers sample with from now on.
   *
   * Errors   `Left(PushFailure)` naming server, problem and gap; the version from before is in use.
   */
  readonly push: (
    weights: W,
    version: number,
    options?: { readonly signal?: AbortSignal },
  ) => TaskEither<PushFailure, number>
  readonly state: () => UpdaterState
  /** Of the last push that asked servers; null before the first. */
  readonly report: () => PushReport | null
  /**
   * Gives a lost server that came back the weights in use, verified: it takes part again. Throws
   * RangeError for a client that is not its own.
   */
  readonly reconcile: (client: EngineClient) => TaskEither<PushFailure, number>
  /**
   * To be run first where an earlier process may have been killed in the middle of a push: resumes
   * servers that are paused, unloads adapters with the prefix that nobody knows, and loads the
   * weights of the start, or else lets servers that may have half of others refuse requests until a
   * push. A server that tells no version gets the weights of the start in any case, where it is
   * known from where to load them and more than adapters are pushed.
   */
  readonly recover: Task<readonly RecoveredServer[]>
}

/** The common options of all server updaters, for `checkOptions`. */
export const UPDATER_OPTIONS: OptionKinds<Omit<EngineUpdaterOptions<never>, 'weights'>> = {
  clients: aList,
  how: oneOf('auto', 'full', 'adapter'),
  start: aRecord,
  verify: aRecord,
  sync: aRecord,
  onStatus: aFunction,
  world: aRecord,
}

/**
 * Pushes weights to engines behind a wire, as one change.
 *
 * Each push asks the health of all servers, gives all of them the weights, lets them score a fixed
 * set of probes, and compares with the trainer's own numbers. Only then are requests sampled with
 * the new weights, everywhere at once. An adapter is loaded beside the old one while requests run.
 * Whole weights are loaded while the servers are paused and their clients hold new requests. If
 * anything fails, what was changed is undone, verified too, and every server runs again. A call
 * whose answer is missing is not sent again before the server has told its state. Other processes
 * that sample from the same servers are not held: they must not, or must bring a version of their
 * own.
 *
 * Errors   `Left(PushFailure)`, see `push`. Throws RangeError for wrong options.
 * Effects  serves and holds at the clients; control calls, each with a deadline. Weights are read
 *          until the push has ended.
 * Cost     an adapter: its upload and the probes. Whole weights: one checkpoint, and a pause for as
 *          long as loading it takes.
 * Source   TorchRL's `vLLMUpdater` and weight sync schemes; rules of vLLM's and SGLang's own
 *          clients for versions, caches and adapters.
 */
export const engineUpdater = <W>(options: EngineUpdaterOptions<W>): EngineUpdater<W> => {
  checkOptions('engineUpdater', options, { ...UPDATER_OPTIONS, weights: aRecord })
  const settings = updaterSettings(options)
  const members = settings.clients.map((client) => makeMember(client, settings.onStatus))
  const pushes = noPushes(settings, members)
  let last: PushReport | null = null
  let line: Promise<unknown> = Promise.resolve()

  /** Works one after the other; one that throws does not hold up the next. */
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
