/** Runs benchmarks: rounds of one subject, or of two in turns. */
import { type Clock, checkOptions, child, type Failure, type Key, keyFromSeed, type Usage } from '@tandem-rl/base'
import { harmless, host, liveClock, liveUsage } from '@tandem-rl/base/host'
import { engineReport } from '@tandem-rl/tfjs-onnxruntime'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { BENCHMARK_OPTIONS, COMPARE_SUBJECTS_OPTIONS } from './optionKinds.js'
import { type SpeedRatio, type SpeedVerdict, type Spread, speedRatio, spreadOf, verdictOf } from './statistics.js'
import { startStopwatch } from './stopwatch.js'
import type { Subject } from './subject.js'

/** The measurements of one round. */
export interface BenchmarkRound {
  readonly units: number
  /** The seconds that the speed is computed from, as the subject counts them. */
  readonly seconds: number
  /** Processor seconds of all threads over the whole round. */
  readonly cpuSeconds: number
  /** Seconds with a policy call in progress. */
  readonly policySeconds: number
  /** Seconds with a reset or a step of an environment in progress. */
  readonly envSeconds: number
  /** Seconds with neither in progress. For recipes, also without training. */
  readonly restSeconds: number
  /** Rows that wait for the policy: the mean over time, and the maximum. */
  readonly inFlight: { readonly mean: number; readonly most: number }
  /** The largest reading of resident memory. */
  readonly residentBytes: number
  /** The JavaScript heap after the round. */
  readonly heapBytes: number
  /** Tensors alive after the round. */
  readonly tensors: number
}

/** The machine of a benchmark. */
interface BenchmarkHost {
  readonly cpu: string
  readonly cores: number
  readonly node: string
  /** The tensor backend and its version. */
  readonly backend: string
}

/** The result of a benchmark: a plain JSON value. */
export interface Benchmark {
  readonly _tag: 'Benchmark'
  readonly name: string
  readonly unit: string
  readonly host: BenchmarkHost
  readonly unitsPerSecond: Spread
  /** Milliseconds per unit with no policy or environment call in progress. */
  readonly overheadMs: Spread
  /** Processor milliseconds per unit. */
  readonly cpuMs: Spread
  readonly rounds: readonly BenchmarkRound[]
}

/** The result of a comparison: a plain JSON value. */
export interface Comparison {
  readonly _tag: 'Comparison'
  readonly baseline: Benchmark
  readonly candidate: Benchmark
  /** The candidate's speed over the baseline's. */
  readonly ratio: SpeedRatio
  /** The conclusion about the candidate. */
  readonly verdict: SpeedVerdict
}

export interface BenchmarkOptions {
  readonly subject: Subject
  /** The number of measured rounds of each subject, at least 2. Default 10. */
  readonly rounds?: number
  /** Rounds of each subject before, which are not measured. Default 2. */
  readonly warmUp?: number
  /** Round `i` receives `child(key, i)`. Default: `keyFromSeed(0)`. */
  readonly key?: Key
  /** Called after each measured round, such as to print progress. */
  readonly onRound?: (name: string, round: BenchmarkRound) => void
  /** Default: the monotonic clock of the process. */
  readonly clock?: Clock
  /** Default: the resources of the process. */
  readonly usage?: Usage
}

export interface ComparisonOptions extends Omit<BenchmarkOptions, 'subject'> {
  readonly baseline: Subject
  readonly candidate: Subject
}

type RoundOptions = Omit<BenchmarkOptions, 'subject'>

type Settings = Required<Omit<RoundOptions, 'onRound'>> & Pick<RoundOptions, 'onRound'>

const settingsOf = (name: string, options: RoundOptions): Settings => {
  const { rounds = 10, warmUp = 2, key = keyFromSeed(0), clock = liveClock, usage = liveUsage, onRound } = options
  const problems = Object.entries({ rounds: [rounds, 2], warmUp: [warmUp, 0] } as const).flatMap(
    ([field, [value, least]]) =>
      Number.isSafeInteger(value) && value >= least
        ? []
        : [`${field} must be an integer of at least ${least}, got ${value}`],
  )
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
  return { rounds, warmUp, key, clock, usage, ...(onRound && { onRound: harmless('onRound', onRound) }) }
}

/** Runs a subject for one round and measures it. */
const runRound =
  (
    subject: Subject,
    key: Key,
    { clock, usage }: Pick<Settings, 'clock' | 'usage'>,
  ): TaskEither<Failure, BenchmarkRound> =>
  async () => {
    let residentBytes = 0
    const readMemory = (): void => {
      residentBytes = Math.max(residentBytes, usage.residentBytes())
    }
    const cpuMs = usage.cpuMs()
    const started = clock.now()
    const stopwatch = startStopwatch(clock)
    const done = await subject.run({ key, ...stopwatch, readMemory })()
    const parts = stopwatch.read()
    const counted = { all: clock.now() - started, env: parts.envMs, rest: parts.restMs }[subject.counts]
    const cpuSeconds = (usage.cpuMs() - cpuMs) / 1000
    readMemory()
    return E.map((units: number) => ({
      units,
      seconds: counted / 1000,
      cpuSeconds,
      policySeconds: parts.policyMs / 1000,
      envSeconds: parts.envMs / 1000,
      restSeconds: parts.restMs / 1000,
      inFlight: { mean: parts.meanInFlight, most: parts.mostInFlight },
      residentBytes,
      heapBytes: usage.heapBytes(),
      tensors: liveTensors().count,
    }))(done)
  }

const requireWork = ({ name, unit }: Subject, { units, seconds }: BenchmarkRound): void => {
  if (!(units > 0)) throw new RangeError(`benchmark: a round of '${name}' did no ${unit}`)
  if (!(seconds > 0)) throw new RangeError(`benchmark: a round of '${name}' took no measurable time; make it longer`)
}

/** Describes the machine and the active backend. */
export const benchmarkHost = (): BenchmarkHost => {
  const { backend, version } = engineReport()
  return { ...host(), backend: `${backend} ${version}` }
}

const speeds = (rounds: readonly BenchmarkRound[]): readonly number[] =>
  rounds.map(({ units, seconds }) => units / seconds)

/** Summarizes the rounds of a subject. */
export const summarize = (
  { name, unit }: Pick<Subject, 'name' | 'unit'>,
  rounds: readonly BenchmarkRound[],
  machine: BenchmarkHost,
): Benchmark => ({
  _tag: 'Benchmark',
  name,
  unit,
  host: machine,
  unitsPerSecond: spreadOf(speeds(rounds)),
  overheadMs: spreadOf(rounds.map(({ units, restSeconds }) => (1000 * restSeconds) / units)),
  cpuMs: spreadOf(rounds.map(({ units, cpuSeconds }) => (1000 * cpuSeconds) / units)),
  rounds,
})

/** Compares two benchmarks whose rounds took place in pairs. */
export const comparisonOf = (baseline: Benchmark, candidate: Benchmark): Comparison => {
  const ratio = speedRatio(speeds(baseline.rounds), speeds(candidate.rounds))
  return { _tag: 'Comparison', baseline, candidate, ratio, verdict: verdictOf(ratio) }
}

/** Runs the rounds of some subjects in turns, each second time in the opposite order. */
const runAll =
  (subjects: readonly Subject[], settings: Settings): TaskEither<Failure, readonly Benchmark[]> =>
  async () => {
    const { rounds, warmUp, key, onRound } = settings
    const seats = subjects.map((subject) => ({ subject, taken: [] as BenchmarkRound[] }))
    for (let i = -warmUp; i < rounds; i++) {
      for (const { subject, taken } of i % 2 === 0 ? seats : seats.toReversed()) {
        const own = i < 0 ? child(child(key, 'warm-up'), i + warmUp) : child(key, i)
        const round = await runRound(subject, own, settings)()
        if (E.isLeft(round)) return round
        requireWork(subject, round.right)
        if (i < 0) continue
        taken.push(round.right)
        onRound?.(subject.name, round.right)
      }
    }
    const machine = benchmarkHost()
    return E.right(seats.map(({ subject, taken }) => summarize(subject, taken, machine)))
  }

/**
 * Benchmarks a subject: its speed, its overhead and processor time per unit, rows in flight, and
 * memory, for each round and as medians with quartiles.
 *
 * Errors   returns the first failure of the subject. Throws RangeError for unknown options, fewer
 *          than two rounds, and a round without work or without measurable time.
 * Effects  those of the subject. Collects garbage after each round if Node runs with `--expose-gc`.
 * Source   TorchRL measures collectors and environments with scripts in its `benchmarks` folder.
 *
 * @example
 * const sum = { name: 'sum', unit: 'sums', counts: 'all', run: () => async () => right(Array.from({ length: 1e5 }, Math.sqrt).length) }
 * typeof benchmark({ subject: sum, rounds: 3 }) // 'function'
 */
export const benchmark = (options: BenchmarkOptions): TaskEither<Failure, Benchmark> => {
  checkOptions('benchmark', options, BENCHMARK_OPTIONS)
  const settings = settingsOf('benchmark', options)
  return async () => E.map(([only]: readonly Benchmark[]) => only!)(await runAll([options.subject], settings)()) // one of one
}

/**
 * Compares the speed of two subjects with the same unit. Their rounds alternate in the order
 * A B B A, so that a machine that slows down affects both, and the ratio of the speeds comes with
 * Student's 95 % confidence interval of the paired rounds.
 *
 * Both subjects share the heap and the compiled code of this process. `tandem bench --against` runs
 * recipes in processes of their own.
 *
 * Errors   as `benchmark`. Throws RangeError if the units or the counted times differ.
 *
 * @example
 * const sum = (name) => ({ name, unit: 'sums', counts: 'all', run: () => async () => right(Array.from({ length: 1e5 }, Math.sqrt).length) })
 * typeof compareSubjects({ baseline: sum('a'), candidate: sum('b'), rounds: 3 }) // 'function'
 */
export const compareSubjects = (options: ComparisonOptions): TaskEither<Failure, Comparison> => {
  checkOptions('compareSubjects', options, COMPARE_SUBJECTS_OPTIONS)
  const settings = settingsOf('compareSubjects', options)
  const { baseline, candidate } = options
  const kinds = [baseline, candidate].map(({ unit, counts }) => `${unit} (${counts})`)
  if (kinds[0] !== kinds[1]) throw new RangeError(`compareSubjects: the units differ: ${kinds.join(' and ')}`)
  return async () =>
    E.map(([first, second]: readonly Benchmark[]) => comparisonOf(first!, second!))(
      await runAll([baseline, candidate], settings)(), // two of two
    )
}
