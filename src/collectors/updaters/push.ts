/** A single push: the check of the servers, the change of weights, and the cleanup. */
import { problemList } from '@tandem-rl/base'
import type { WeightFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities, EngineState, ServingWeights } from '../../data/engineClient.js'
import { commitAdapter, commitBase, type Pushes } from './committed.js'
import { budgetOf } from './controlCalls.js'
import type { Member } from './member.js'
import type { PushFailure, PushReport, ServerReport } from './report.js'
import { checkServer, learnProbes, resumeServer, type ServerRun, serverRun, unloadAdapterAt } from './serverRun.js'
import { type BaseWeights, goesOn, pushAdapter, pushFull, type Transaction } from './transaction.js'

/** A server in a push. */
interface Part {
  readonly member: Member
  readonly run: ServerRun
}

type Way = 'adapter' | 'full'

interface Found {
  readonly abilities: EngineAbilities
  readonly state: EngineState
}

/** Records the problem of a responding server, if any. */
const judge = async <W>(pushes: Pushes<W>, { member, run }: Part, found: Found): Promise<void> => {
  const { state, abilities } = found
  const { version, adapter } = pushes.current.expected
  const isLost = (): boolean => member.status().status === 'lost'
  if (abilities.promptLogProbs === 'no') {
    run.problem ??= 'it gives no log-probabilities of prompts, which are needed to verify the weights'
    return
  }
  if (adapter !== null && !state.adapters.includes(adapter)) member.lose(`it has lost the adapter ${adapter}`)
  if (adapter === null && state.version !== null && state.version !== version)
    member.lose(`it reports version ${state.version}, not ${version}`)
  if (state.isPaused !== true) return
  run.paused = 'yes'
  if (isLost()) await resumeServer(run, 'check')
  else {
    run.paused = 'no'
    run.problem ??= 'it was paused by someone else: resume it, or call `recover`'
  }
}

/** Chooses the form of the weights according to the servers' abilities. Problems are recorded. */
const wayFor = <W>(pushes: Pushes<W>, weights: W, found: ReadonlyMap<ServerRun, Found>): Way => {
  const { how, weights: forms } = pushes.settings
  const takesAll = (way: Way): boolean => [...found.values()].every(({ abilities }) => abilities.updates.includes(way))
  const chosen =
    how === 'auto' ? (forms.hasAdapter(weights) === 'yes' && takesAll('adapter') ? 'adapter' : 'full') : how
  for (const [run, { abilities }] of found) {
    if (!abilities.updates.includes(chosen)) {
      run.problem ??=
        chosen === 'adapter'
          ? 'it does not support adapters'
          : 'it does not support loading weights (vLLM: VLLM_SERVER_DEV_MODE=1)'
    } else if (chosen === 'full' && abilities.control === 'no') run.problem ??= 'it cannot be paused'
  }
  return chosen
}

/** Returns the serving of a push. Its cache salt is unused. */
const servingOf = <W>({ settings }: Pushes<W>, version: number, adapter: string | null): ServingWeights => ({
  version,
  adapter,
  cacheSalt: adapter !== null || settings.sync.cache === 'salt' ? `v${version}-${settings.run.world.ids.fresh()}` : '',
})

/** Returns an adapter name that no server has seen. */
const freshName = <W>({ settings, names }: Pushes<W>, version: number, states: readonly EngineState[]): string => {
  const taken = new Set([...names, ...states.flatMap(({ adapters }) => adapters)])
  const plain = `${settings.sync.adapterPrefix}-v${version}`
  let name = plain
  for (let i = 2; taken.has(name); i++) name = `${plain}.${i}`
  return name
}

/** A push in progress. */
interface Going<W> {
  readonly pushes: Pushes<W>
  readonly weights: W
  readonly version: number
  readonly parts: readonly Part[]
  readonly tx: Transaction
}

const membersOf = <W>({ parts }: Going<W>, runs: readonly ServerRun[]): readonly Part[] =>
  parts.filter(({ run }) => runs.includes(run))

/** Switches all servers of the push to its weights, in one turn of the event loop. */
const switchAll = <W>(going: Going<W>, serving: ServingWeights): void => {
  for (const { member } of membersOf(going, going.tx.active)) member.serve(serving)
}

const loseAll = <W>(going: Going<W>): void => {
  for (const { member, run } of going.parts) {
    const reason = going.tx.lost.get(run)
    if (reason !== undefined) member.lose(reason)
  }
}

const byAdapter = async <W>(going: Going<W>, states: readonly EngineState[]): Promise<boolean> => {
  const { pushes, weights, version, tx } = going
  const { settings } = pushes
  const name = freshName(pushes, version, states)
  const adapter = settings.weights.adapter(weights)
  const probes = { rows: settings.probes, logProbs: settings.weights.score(weights, settings.probes) }
  const expected = { version, adapter: name, probes }
  pushes.names.add(name)
  const done = await pushAdapter(tx, { name, adapter, expected })
  loseAll(going)
  if (done) {
    const serving = servingOf(pushes, version, name)
    commitAdapter(pushes, { serving, expected, adapter }, name)
    switchAll(going, serving)
  }
  for (const { member, run } of going.parts) {
    if (run.adapter !== null && (!done || tx.lost.has(run))) member.leftovers.add(run.adapter)
  }
  return done
}

/** Returns each server's current base weights, with the probe results that identify them. */
const previousOf = async <W>({ pushes, tx }: Going<W>): Promise<ReadonlyMap<ServerRun, BaseWeights>> => {
  const { base, settings } = pushes
  const withNumbers = async (run: ServerRun): Promise<readonly [ServerRun, BaseWeights]> => {
    const isKnown = base.expected.probes !== null || tx.wereLost.has(run)
    const probes = isKnown ? base.expected.probes : await learnProbes(run, settings.probes, tx.budget)
    return [run, { ...base, expected: { ...base.expected, probes } }]
  }
  return new Map(await Promise.all(tx.active.map(withNumbers)))
}

const byWhole = async <W>(going: Going<W>): Promise<E.Either<WeightFailure, boolean>> => {
  const { pushes, weights, version, tx } = going
  const { settings } = pushes
  const probes = { rows: settings.probes, logProbs: settings.weights.score(weights, settings.probes) }
  const expected = { version, adapter: null, probes }
  const previous = await previousOf(going)
  if (!(await goesOn(tx))) return E.right(false)
  const placed = await settings.weights.full(weights, version)()
  if (E.isLeft(placed)) return placed
  const { source, remove } = placed.right
  const serving = servingOf(pushes, version, null)
  let old: readonly { readonly remove: () => Promise<void> }[] = []
  const done = await pushFull(tx, {
    next: { source, expected },
    previous: (run) => previous.get(run)!, // every active one has an entry
    commit: () => {
      old = commitBase(pushes, { serving, expected, adapter: null }, { source, expected, remove })
      switchAll(going, serving)
    },
    refuse: () => loseAll(going),
  })
  for (const base of done ? old : [{ remove }]) await base.remove()
  return E.right(done)
}

/** Unloads obsolete adapters that no request of ours uses. Those in use wait for a later push. */
const retire = async <W>(going: Going<W>): Promise<void> => {
  await Promise.all(
    membersOf(going, going.tx.active).map(async ({ member, run }) => {
      for (const name of [...member.leftovers]) {
        if (member.client.inFlight(name) > 0) continue
        if (await unloadAdapterAt(run, name, 'retire')) member.leftovers.delete(name)
      }
    }),
  )
}

const outcomeOf = ({ member, run }: Part, outcome: PushReport['outcome']): ServerReport['outcome'] => {
  if (member.status().status === 'lost') return 'lost'
  if (outcome === 'committed') return outcome
  return run.base === 'old' ? 'unchanged' : 'restored'
}

const reportOf = <W>(
  { parts, version, pushes }: Going<W>,
  { how, outcome, start }: Pick<PushReport, 'how' | 'outcome'> & { readonly start: number },
): PushReport => ({
  version,
  how,
  outcome,
  milliseconds: pushes.settings.run.world.clock.now() - start,
  servers: parts.map((part) => ({
    server: part.member.client.name,
    outcome: outcomeOf(part, outcome),
    problem: part.run.problem,
    gap: part.run.gap,
    milliseconds: Object.fromEntries(part.run.milliseconds),
  })),
})

const failureOf = (report: PushReport): PushFailure => {
  const { version, servers } = report
  const wrong = servers.filter(({ problem }) => problem !== null)
  return {
    _tag: 'WeightFailure',
    receiver: wrong.map(({ server }) => server).join(', '),
    reason: `version ${version} is not in use: ${problemList(wrong.map(({ server, problem }) => `${server}: ${problem}`))}`,
    report,
  }
}

/** The result of a push. The report is null if it ended before any server was contacted. */
export type PushResult = E.Either<PushFailure, { readonly version: number; readonly report: PushReport }>

/**
 * Gives all servers the new weights, or none of them.
 *
 * Errors   `Left(PushFailure)` that names each server with a problem, and its current weights.
 */
export const pushWeights = async <W>(
  pushes: Pushes<W>,
  { weights, version }: { readonly weights: W; readonly version: number },
  signal: AbortSignal | undefined,
): Promise<PushResult> => {
  const { settings, members } = pushes
  const { sync, run } = settings
  const start = run.world.clock.now()
  const parts = members.map((member): Part => ({ member, run: serverRun(member.client, run) }))
  const wereLost = new Set(parts.filter(({ member }) => member.status().status === 'lost').map((part) => part.run))
  const tx: Transaction = {
    active: parts.map((part) => part.run),
    lost: new Map(),
    wereLost,
    onLost: sync.onLost,
    budget: budgetOf(sync.pushMs, run.world, signal),
    undoBudget: () => budgetOf(sync.undoMs, run.world),
  }
  const going: Going<W> = { pushes, weights, version, parts, tx }
  const found = new Map<ServerRun, Found>()
  await Promise.all(
    parts.map(async (part) => {
      const answer = await checkServer(part.run)
      if (answer === null) return
      found.set(part.run, answer)
      await judge(pushes, part, answer)
    }),
  )
  const how = wayFor(pushes, weights, found)
  let done = false
  const canBegin = await goesOn(tx)
  loseAll(going)
  if (canBegin) {
    const states = [...found.values()].map(({ state }) => state)
    const changed = how === 'adapter' ? E.right(await byAdapter(going, states)) : await byWhole(going)
    if (E.isLeft(changed)) return E.left({ ...changed.left, report: null })
    done = changed.right
  }
  if (done) await retire(going)
  const report = reportOf(going, { how, outcome: done ? 'committed' : 'failed', start })
  return done ? E.right({ version, report }) : E.left(failureOf(report))
}
