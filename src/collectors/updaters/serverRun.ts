/** One server during one push: the calls to it, their duration, and its state afterwards. */
import type { Changing, Ids } from '@tandem-rl/base'
import type { AdapterWeights, PauseMode, WeightSource } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities, EngineClient, EngineFailure, EngineState } from '../../data/engineClient.js'
import {
  type Budget,
  bounded,
  budgetOf,
  type CallWorld,
  type Change,
  changeOnce,
  type Happened,
} from './controlCalls.js'
import { type ExpectedProbes, type Probed, probe, probeGap } from './probes.js'
import type { ProbeGap, PushPhase } from './report.js'

/** Largest allowed gap between log-probabilities of probes and the trainer's, in nats. */
export interface ProbeTolerance {
  /** For any token. */
  readonly worst: number
  /** For the mean over all tokens. */
  readonly mean: number
}

/** The settings that the servers of one push share. */
export interface RunSettings {
  readonly world: CallWorld & { readonly ids: Ids }
  /** Time limit of each short call: health, state, resuming, unloading. */
  readonly callMs: number
  readonly tolerance: ProbeTolerance
  readonly pause: PauseMode
  readonly cache: 'clear' | 'keep'
}

/** The weights that a server should have. */
export interface ExpectedWeights {
  readonly version: number
  readonly adapter: string | null
  /** `null` if the log-probabilities were not computed. Only the version is then compared. */
  readonly probes: ExpectedProbes | null
}

/** The state of a server during one push. */
interface ServerRunState {
  readonly client: EngineClient
  readonly settings: RunSettings
  /** `perhaps` after a call without a response. */
  readonly paused: 'no' | 'perhaps' | 'yes'
  /**
   * State of its base weights. `unanswered`: a load without a response may still take effect later.
   */
  readonly base: 'old' | 'perhaps new' | 'unanswered' | 'new'
  /** The adapter that may have been loaded. */
  readonly adapter: string | null
  readonly problem: string | null
  readonly gap: ProbeGap | null
  readonly milliseconds: Map<PushPhase, number>
}

/** The mutable state of a server during one push. */
export type ServerRun = Changing<ServerRunState>

/** Returns the initial state of a server. */
export const serverRun = (client: EngineClient, settings: RunSettings): ServerRun => ({
  client,
  settings,
  paused: 'no',
  base: 'old',
  adapter: null,
  problem: null,
  gap: null,
  milliseconds: new Map(),
})

/** Runs a part of a push and adds its duration to the phase. */
const timed = async <A>(run: ServerRun, phase: PushPhase, work: () => Promise<A>): Promise<A> => {
  const { clock } = run.settings.world
  const start = clock.now()
  try {
    return await work()
  } finally {
    run.milliseconds.set(phase, (run.milliseconds.get(phase) ?? 0) + clock.now() - start)
  }
}

/** Records the first problem of a server. */
const complain = (run: ServerRun, what: string): false => {
  run.problem ??= what
  return false
}

const describedFailure = (what: string, { kind, reason }: EngineFailure): string => `${what}: ${reason} (${kind})`

const shortBudget = ({ settings }: ServerRun): Budget => budgetOf(settings.callMs, settings.world)

/** Makes a short call, which does not change the server's weights. */
const ask = async <A>(run: ServerRun, task: Parameters<typeof bounded<A>>[1]): Promise<E.Either<EngineFailure, A>> =>
  bounded(run.client.name, task, shortBudget(run))

const change = (run: ServerRun, { call, happened }: Change, budget: Budget) =>
  changeOnce(run.client, { call, happened }, { ...budget, askMs: run.settings.callMs })

/** Returns the abilities and state of a server, or records a problem. */
export const checkServer = (
  run: ServerRun,
): Promise<{ readonly abilities: EngineAbilities; readonly state: EngineState } | null> =>
  timed(run, 'check', async () => {
    const noted = (what: string, failure: EngineFailure): null => {
      complain(run, describedFailure(what, failure))
      return null
    }
    const health = await ask(run, run.client.health)
    if (E.isLeft(health)) return noted('it is not healthy', health.left)
    const abilities = await ask(run, run.client.connect)
    if (E.isLeft(abilities)) return noted('it does not report its abilities', abilities.left)
    const state = await ask(run, run.client.state)
    if (E.isLeft(state)) return noted('it does not report its state', state.left)
    return { abilities: abilities.right, state: state.right }
  })

/** Returns true if a server responds. */
export const isAlive = async (run: ServerRun): Promise<boolean> =>
  E.isRight(await ask(run, run.client.health)) && E.isRight(await ask(run, run.client.state))

const pausedIs =
  (wanted: 'paused' | 'running') =>
  ({ isPaused }: EngineState): Happened => {
    if (isPaused === null) return 'unclear'
    return (isPaused ? 'paused' : 'running') === wanted ? 'yes' : 'no'
  }

/** Pauses a server. Returns false and records a problem if it is not known to be paused. */
export const pauseServer = (run: ServerRun, phase: 'pause' | 'undo', budget: Budget): Promise<boolean> =>
  timed(run, phase, async () => {
    const { pause: mode, cache } = run.settings
    run.paused = 'perhaps'
    const done = await change(run, { call: run.client.pause({ mode, cache }), happened: pausedIs('paused') }, budget)
    if (E.isRight(done) && done.right === 'done') {
      run.paused = 'yes'
      return true
    }
    if (E.isRight(done)) return complain(run, 'it does not report whether it is paused')
    return complain(run, describedFailure('it was not paused', done.left))
  })

/** Number of attempts to resume. Resuming a running server has no effect. */
const RESUMES = 2

/**
 * Resumes a server that may be paused. Returns false and records a problem if it may still be
 * paused.
 */
export const resumeServer = (run: ServerRun, phase: 'check' | 'resume' | 'undo'): Promise<boolean> =>
  timed(run, phase, async () => {
    if (run.paused === 'no') return true
    let last: EngineFailure | null = null
    for (let i = 0; i < RESUMES; i++) {
      const resumed = await change(run, { call: run.client.resume, happened: pausedIs('running') }, shortBudget(run))
      if (E.isRight(resumed)) {
        run.paused = 'no'
        return true
      }
      last = resumed.left
    }
    return complain(run, describedFailure('it was not resumed', last!))
  })

/** Loads other base weights on a server. */
export const loadBase = (
  run: ServerRun,
  weights: { readonly source: WeightSource; readonly version: number; readonly phase: 'load' | 'undo' },
  budget: Budget,
): Promise<boolean> =>
  timed(run, weights.phase, async () => {
    const { source, version } = weights
    run.base = 'perhaps new'
    // Loads that the server may still be running, or may start later.
    let open = 0
    const load = run.client.loadWeights(source, { version })
    const call: Change['call'] = async () => {
      open++
      const answer = await load()
      if (E.isRight(answer) || (answer.left.kind !== 'unknown' && answer.left.kind !== 'protocol')) open--
      return answer
    }
    const loaded = await change(
      run,
      {
        call,
        happened: (state) => (state.version === null ? 'unclear' : state.version === version ? 'yes' : 'no'),
      },
      budget,
    )
    if (open > 0) run.base = 'unanswered'
    if (E.isLeft(loaded)) return complain(run, describedFailure('the weights were not loaded', loaded.left))
    // If the state does not show the result, the probes do.
    if (run.base !== 'unanswered' && loaded.right === 'done') run.base = 'new'
    return true
  })

/** Loads an adapter on a server, under an unused name. */
export const loadAdapterAt = (
  run: ServerRun,
  {
    name,
    adapter,
    phase,
  }: { readonly name: string; readonly adapter: AdapterWeights; readonly phase: 'load' | 'undo' },
  budget: Budget,
): Promise<boolean> =>
  timed(run, phase, async () => {
    run.adapter = name
    const loaded = await change(
      run,
      {
        call: run.client.loadAdapter(name, adapter),
        happened: ({ adapters }) => (adapters.includes(name) ? 'yes' : 'no'),
      },
      budget,
    )
    return E.isRight(loaded) || complain(run, describedFailure(`the adapter ${name} was not loaded`, loaded.left))
  })

/** Unloads an adapter. Returns false if it may still be loaded. */
export const unloadAdapterAt = (run: ServerRun, name: string, phase: 'undo' | 'retire'): Promise<boolean> =>
  timed(run, phase, async () => {
    const state = await ask(run, run.client.state)
    if (E.isLeft(state)) return false
    if (!state.right.adapters.includes(name)) return true
    const unloaded = await change(
      run,
      {
        call: run.client.unloadAdapter(name),
        happened: ({ adapters }) => (adapters.includes(name) ? 'no' : 'yes'),
      },
      shortBudget(run),
    )
    return E.isRight(unloaded)
  })

const shown = (nats: number): string => (Number.isFinite(nats) ? nats.toExponential(2) : 'no number')

/** Returns the problem with probed weights, or `null`. */
const probeProblem = (run: ServerRun, gap: ProbeGap): string | null => {
  const { worst, mean } = run.settings.tolerance
  if (gap.worst <= worst && gap.mean <= mean) return null
  return `probe ${gap.probe} is off by ${shown(gap.worst)} nats, ${shown(gap.mean)} on average; allowed are ${worst} and ${mean}`
}

/** Returns a problem if the server reports another version. */
const versionProblem = (
  { version, adapter }: ExpectedWeights,
  state: EngineState,
  stamps: readonly number[],
): string | null => {
  if (adapter !== null)
    return state.adapters.includes(adapter) ? null : `the adapter ${adapter} is missing after it was loaded`
  const reported = [...(state.version === null ? [] : [state.version]), ...stamps].find((other) => other !== version)
  return reported === undefined ? null : `it reports version ${reported}, not ${version}`
}

/** Probes a server with an unused salt. Such requests are sent even while others are held. */
const askProbes = async (
  run: ServerRun,
  { rows, adapter }: { readonly rows: ExpectedProbes['rows']; readonly adapter: string | null },
  budget: Budget,
): Promise<E.Either<string, Probed>> => {
  const { client, settings } = run
  const control = new AbortController()
  const options = { adapter, cacheSalt: `probe-${settings.world.ids.fresh()}`, signal: control.signal }
  const probed = await bounded(client.name, async () => E.right(await probe(client, rows, options)), budget)
  control.abort()
  return E.isLeft(probed) ? E.left(describedFailure('it did not score the probes', probed.left)) : probed.right
}

/**
 * Probes the current base weights of a server, whatever they are, so that restoring them can be
 * verified. Returns `null` and records a problem if the server does not respond.
 */
export const learnProbes = (
  run: ServerRun,
  rows: ExpectedProbes['rows'],
  budget: Budget,
): Promise<ExpectedProbes | null> =>
  timed(run, 'check', async () => {
    const probed = await askProbes(run, { rows, adapter: null }, budget)
    if (E.isRight(probed)) return { rows, logProbs: probed.right.logProbs }
    complain(run, probed.left)
    return null
  })

/**
 * Returns the reason why a server does not have the expected weights, by reported version and
 * probes, or `null`.
 */
const compare = async (
  run: ServerRun,
  expected: ExpectedWeights,
  { phase, budget }: { readonly phase: 'verify' | 'undo'; readonly budget: Budget },
): Promise<string | null> => {
  const { client } = run
  const state = await ask(run, client.state)
  if (E.isLeft(state)) return describedFailure('it does not report its state', state.left)
  const wrong = versionProblem(expected, state.right, [])
  if (wrong !== null || expected.probes === null) return wrong
  const abilities = await ask(run, client.connect)
  if (E.isLeft(abilities)) return describedFailure('it does not report its abilities', abilities.left)
  const { rows, logProbs } = expected.probes
  const probed = await askProbes(run, { rows, adapter: expected.adapter }, budget)
  if (E.isLeft(probed)) return probed.left
  const gap = probeGap(probed.right.logProbs, logProbs)
  if (phase === 'verify') run.gap = gap
  const stamps = abilities.right.stamps === 'yes' ? [...probed.right.versions] : []
  return probeProblem(run, gap) ?? versionProblem(expected, state.right, stamps)
}

/**
 * Verifies the weights of a server. Returns false and records a problem if they are not the
 * expected ones.
 */
export const verifyServer = (
  run: ServerRun,
  expected: ExpectedWeights,
  how: { readonly phase: 'verify' | 'undo'; readonly budget: Budget },
): Promise<boolean> =>
  timed(run, how.phase, async () => {
    const problem = await compare(run, expected, how)
    return problem === null || complain(run, problem)
  })
