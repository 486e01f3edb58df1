/** One server in one push: what is done to it, how long that takes, and what is known of it afterwards. */

import * as E from 'fp-ts/lib/Either.js'
import type { Ids } from '../../core/capabilities.js'
import type { Changing } from '../../core/changing.js'
import type { EngineAbilities, EngineClient, EngineFailure, EngineState } from '../../data/engineClient.js'
import type { AdapterWeights, PauseMode, WeightSource } from '../../data/generation.js'
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

/** How far log-probabilities of probes may be from the trainer's, in nats. */
export interface ProbeTolerance {
  /** Of any token. */
  readonly worst: number
  /** On average. */
  readonly mean: number
}

/** What the servers of one push share. */
export interface RunSettings {
  readonly world: CallWorld & { readonly ids: Ids }
  /** Bounds each short call: health, state, resuming, unloading. */
  readonly callMs: number
  readonly tolerance: ProbeTolerance
  readonly pause: PauseMode
  readonly cache: 'clear' | 'keep'
}

/** What a server is expected to have. */
export interface ExpectedWeights {
  readonly version: number
  readonly adapter: string | null
  /** Null where nobody has computed the numbers: then only the version is compared. */
  readonly probes: ExpectedProbes | null
}

/** What is known of a server during one push. */
interface ServerRunState {
  readonly client: EngineClient
  readonly settings: RunSettings
  /** `perhaps` after a call whose answer is missing. */
  readonly paused: 'no' | 'perhaps' | 'yes'
  /** Whether its base weights are other ones than before. `unanswered`: they may still become other ones, however late. */
  readonly base: 'old' | 'perhaps new' | 'unanswered' | 'new'
  /** The adapter that may have been loaded. */
  readonly adapter: string | null
  readonly problem: string | null
  readonly gap: ProbeGap | null
  readonly milliseconds: Map<PushPhase, number>
}

/** A mutable value, for the time of one push. */
export type ServerRun = Changing<ServerRunState>

/** A server before anything was done to it. */
export const serverRun = (client: EngineClient, settings: RunSettings): ServerRun => ({
  ...{ client, settings, paused: 'no', base: 'old', adapter: null, problem: null, gap: null },
  milliseconds: new Map(),
})

/** Runs a part of a push and adds its time to the phase. */
const timed = async <A>(run: ServerRun, phase: PushPhase, work: () => Promise<A>): Promise<A> => {
  const { clock } = run.settings.world
  const start = clock.now()
  try {
    return await work()
  } finally {
    run.milliseconds.set(phase, (run.milliseconds.get(phase) ?? 0) + clock.now() - start)
  }
}

/** Notes the first problem of a server. */
const complain = (run: ServerRun, what: string): false => {
  run.problem ??= what
  return false
}

const said = (what: string, { kind, reason }: EngineFailure): string => `${what}: ${reason} (${kind})`

const shortBudget = ({ settings }: ServerRun): Budget => budgetOf(settings.callMs, settings.world)

/** A short call: it does not change what the server samples with. */
const ask = async <A>(run: ServerRun, task: Parameters<typeof bounded<A>>[1]): Promise<E.Either<EngineFailure, A>> =>
  bounded(run.client.name, task, shortBudget(run))

const change = (run: ServerRun, { call, happened }: Change, budget: Budget) =>
  changeOnce(run.client, { call, happened }, { ...budget, askMs: run.settings.callMs })

/** What a server that answers says of itself; a problem is noted otherwise. */
export const checkServer = (
  run: ServerRun,
): Promise<{ readonly abilities: EngineAbilities; readonly state: EngineState } | null> =>
  timed(run, 'check', async () => {
    const noted = (what: string, failure: EngineFailure): null => {
      complain(run, said(what, failure))
      return null
    }
    const health = await ask(run, run.client.health)
    if (E.isLeft(health)) return noted('it is not healthy', health.left)
    const abilities = await ask(run, run.client.connect)
    if (E.isLeft(abilities)) return noted('it does not say what it is', abilities.left)
    const state = await ask(run, run.client.state)
    if (E.isLeft(state)) return noted('it does not tell its state', state.left)
    return { abilities: abilities.right, state: state.right }
  })

/** Whether a server answers at all. */
export const isAlive = async (run: ServerRun): Promise<boolean> =>
  E.isRight(await ask(run, run.client.health)) && E.isRight(await ask(run, run.client.state))

const pausedIs =
  (wanted: 'paused' | 'running') =>
  ({ isPaused }: EngineState): Happened => {
    if (isPaused === null) return 'unclear'
    return (isPaused ? 'paused' : 'running') === wanted ? 'yes' : 'no'
  }

/** Pauses a server. False, with a problem noted, where it cannot be known that it is paused. */
export const pauseServer = (run: ServerRun, phase: 'pause' | 'undo', budget: Budget): Promise<boolean> =>
  timed(run, phase, async () => {
    const { pause: mode, cache } = run.settings
    run.paused = 'perhaps'
    const done = await change(run, { call: run.client.pause({ mode, cache }), happened: pausedIs('paused') }, budget)
    if (E.isRight(done) && done.right === 'done') {
      run.paused = 'yes'
      return true
    }
    if (E.isRight(done)) return complain(run, 'it does not say whether it is paused')
    return complain(run, said('it was not paused', done.left))
  })

/** How often resuming is tried: it does nothing to a server that runs. */
const RESUMES = 2

/** Resumes a server that may be paused. False, with a problem noted, where it may still be paused. */
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
    return complain(run, said('it was not resumed', last!))
  })

/** Gives a server other base weights. */
export const loadBase = (
  run: ServerRun,
  weights: { readonly source: WeightSource; readonly version: number; readonly phase: 'load' | 'undo' },
  budget: Budget,
): Promise<boolean> =>
  timed(run, weights.phase, async () => {
    const { source, version } = weights
    run.base = 'perhaps new'
    // Loads that the server may be busy with still, or may begin later.
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
    if (E.isLeft(loaded)) return complain(run, said('the weights were not loaded', loaded.left))
    // Where the state cannot tell, the probes do.
    if (run.base !== 'unanswered' && loaded.right === 'done') run.base = 'new'
    return true
  })

/** Gives a server an adapter under a name that was never used. */
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
    return E.isRight(loaded) || complain(run, said(`the adapter ${name} was not loaded`, loaded.left))
  })

/** Takes an adapter away. False where it may still be there. */
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

/** Why probed weights are not those expected; null if they are. */
const probeProblem = (run: ServerRun, gap: ProbeGap): string | null => {
  const { worst, mean } = run.settings.tolerance
  if (gap.worst <= worst && gap.mean <= mean) return null
  return `probe ${gap.probe} is off by ${shown(gap.worst)} nats, ${shown(gap.mean)} on average; allowed are ${worst} and ${mean}`
}

/** The version that a server reports, if it reports another one. */
const versionProblem = (
  { version, adapter }: ExpectedWeights,
  state: EngineState,
  stamps: readonly number[],
): string | null => {
  if (adapter !== null)
    return state.adapters.includes(adapter) ? null : `the adapter ${adapter} is not there after it was loaded`
  const told = [...(state.version === null ? [] : [state.version]), ...stamps].find((other) => other !== version)
  return told === undefined ? null : `it reports version ${told}, not ${version}`
}

/** What a server says about probes: asked with a salt that nobody has used, with which it is asked at once, held or not. */
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
  return E.isLeft(probed) ? E.left(said('it did not score the probes', probed.left)) : probed.right
}

/**
 * The numbers of the base weights that a server has, whatever they are, so that going back to them can be verified. Null, with a problem noted,
 * where it does not tell.
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

/** Whether a server has the weights that it should have: by the version that it reports and by the probes. The reason otherwise. */
const compare = async (
  run: ServerRun,
  expected: ExpectedWeights,
  { phase, budget }: { readonly phase: 'verify' | 'undo'; readonly budget: Budget },
): Promise<string | null> => {
  const { client } = run
  const state = await ask(run, client.state)
  if (E.isLeft(state)) return said('it does not tell its state', state.left)
  const wrong = versionProblem(expected, state.right, [])
  if (wrong !== null || expected.probes === null) return wrong
  const abilities = await ask(run, client.connect)
  if (E.isLeft(abilities)) return said('it does not say what it is', abilities.left)
  const { rows, logProbs } = expected.probes
  const probed = await askProbes(run, { rows, adapter: expected.adapter }, budget)
  if (E.isLeft(probed)) return probed.left
  const gap = probeGap(probed.right.logProbs, logProbs)
  if (phase === 'verify') run.gap = gap
  const stamps = abilities.right.stamps === 'yes' ? [...probed.right.versions] : []
  return probeProblem(run, gap) ?? versionProblem(expected, state.right, stamps)
}

/** Compares what a server has with what it should have. False, with a problem noted, if they differ. */
export const verifyServer = (
  run: ServerRun,
  expected: ExpectedWeights,
  how: { readonly phase: 'verify' | 'undo'; readonly budget: Budget },
): Promise<boolean> =>
  timed(run, how.phase, async () => {
    const problem = await compare(run, expected, how)
    return problem === null || complain(run, problem)
  })
