/**
 * Compares two recipes: `tandem bench RECIPE --against OTHER`.
 *
 * Each round runs each recipe in a process of its own. In one process, the recipes would share
 * compiled code, caches, the heap and the peak of its memory, and a recipe that samples ahead would
 * do so while the other one is measured. New processes also bring the variation from process to
 * process into the confidence interval.
 */
import { resolve } from 'node:path'
import { median } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'
import { CommandError, orFail, say } from 'tandem-rl/command'
import { type BenchmarkRound, type Comparison, comparisonOf, summarize } from '../benchmark.js'
import { type SpeedRatio, speedRatio } from '../statistics.js'
import type { RecipeBenchmark } from './benchRecord.js'

/** Options of the comparison itself, which the processes do not receive. */
const OWN_OPTIONS = ['--against', '--rounds', '--picture']

/** Removes the options of the comparison and their values. */
const withoutOwn = (args: readonly string[]): readonly string[] =>
  args.filter((arg, i) => {
    const isValue = OWN_OPTIONS.includes(args[i - 1] ?? '')
    return !isValue && !OWN_OPTIONS.some((option) => arg === option || arg.startsWith(`${option}=`))
  })

/**
 * Runs `tandem bench` with the given arguments in a process and returns what it prints. `onStart`
 * is called when it runs.
 */
const runOnce = async (args: readonly string[], onStart: () => void): Promise<RecipeBenchmark> => {
  const decoders = { output: new TextDecoder(), errors: new TextDecoder() }
  let [output, errors] = ['', '']
  const running = await orFail(
    liveProcesses.converse({
      command: process.execPath,
      args: [...process.execArgv, process.argv[1]!, 'bench', ...args], // the file of this command
      onOutput: (bytes) => {
        output += decoders.output.decode(bytes, { stream: true })
      },
      onErrors: (bytes) => {
        errors += decoders.errors.decode(bytes, { stream: true })
      },
    }),
  )
  running.endInput()
  onStart()
  const { code, signal } = await running.ended
  if (code !== 0) {
    const lines = errors.split('\n').filter((line) => line !== '')
    const reason = lines.find((line) => /^(tandem|error): /.test(line)) ?? lines.at(-1)
    say('failed\n')
    throw new CommandError(`tandem bench ${args.join(' ')} ended with ${signal ?? code}: ${reason ?? 'no message'}`)
  }
  return JSON.parse(output) as RecipeBenchmark // the line that `tandem bench` prints for one recipe
}

/** Adds up the steps of a process as one round. */
const roundOf = ({ benchmark, peakResidentBytes }: RecipeBenchmark): BenchmarkRound => {
  const { rounds } = benchmark
  const sum = (value: (round: BenchmarkRound) => number): number => rounds.reduce((all, round) => all + value(round), 0)
  const { heapBytes, tensors } = rounds.at(-1)!
  return {
    units: sum(({ units }) => units),
    seconds: sum(({ seconds }) => seconds),
    cpuSeconds: sum(({ cpuSeconds }) => cpuSeconds),
    policySeconds: sum(({ policySeconds }) => policySeconds),
    envSeconds: sum(({ envSeconds }) => envSeconds),
    restSeconds: sum(({ restSeconds }) => restSeconds),
    inFlight: { mean: 0, most: 0 },
    residentBytes: peakResidentBytes,
    heapBytes,
    tensors,
  }
}

/** The ratio of the trained tokens per second, or `null` if a recipe does not report tokens. */
const tokenRatio = (baseline: readonly RecipeBenchmark[], candidate: readonly RecipeBenchmark[]): SpeedRatio | null => {
  const [before, after] = [baseline, candidate].map((all) => all.map(({ tokensPerSecond }) => tokensPerSecond))
  return [...before!, ...after!].every((speed) => speed > 0) ? speedRatio(before!, after!) : null // two of two
}

/** A comparison of two recipes, as the command prints it. */
interface RecipeComparison {
  readonly recipe: string
  readonly against: string
  /** Median seconds per step. */
  readonly phases: Readonly<Record<string, { readonly recipe: number; readonly against: number }>>
  readonly tokensPerSecond: SpeedRatio | null
  readonly comparison: Comparison
}

/**
 * Runs two recipes in turns and compares them. Each round has one process of each, in the order
 * A B B A.
 *
 * Errors   throws CommandError if a process fails.
 * Effects  starts processes, which end with this one.
 */
export const compareRecipes = async (options: {
  readonly args: readonly string[]
  readonly against: string
  readonly rounds: number
}): Promise<RecipeComparison> => {
  const { args, against, rounds } = options
  const own = withoutOwn(args)
  const [first] = own
  const hasName = first !== undefined && !first.startsWith('-')
  const recipe = hasName ? first : 'wordProblems'
  const flags = hasName ? own.slice(1) : own
  const candidate = { name: recipe, args: [recipe, ...flags], taken: [] as RecipeBenchmark[] }
  const name = resolve(against) === resolve(recipe) ? `${against} (against)` : against
  const baseline = { name, args: [against, ...flags], taken: [] as RecipeBenchmark[] }
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? [baseline, candidate] : [candidate, baseline]) {
      const measured = await runOnce(side.args, () => say(`round ${round + 1} of ${rounds}: ${side.name} ... `))
      side.taken.push(measured)
      say(`${measured.secondsPerStep.median.toFixed(3)} s per step\n`)
    }
  }
  const [before, after] = [baseline, candidate].map((side) =>
    summarize({ name: side.name, unit: 'steps' }, side.taken.map(roundOf), side.taken[0]!.benchmark.host),
  )
  const phaseOf = (taken: readonly RecipeBenchmark[], phase: string): number =>
    median(taken.map(({ phases }) => phases[phase]!)) // each process reports all phases
  return {
    recipe,
    against,
    phases: Object.fromEntries(
      Object.keys(candidate.taken[0]!.phases).map((phase) => [
        phase,
        { recipe: phaseOf(candidate.taken, phase), against: phaseOf(baseline.taken, phase) },
      ]),
    ),
    tokensPerSecond: tokenRatio(baseline.taken, candidate.taken),
    comparison: comparisonOf(before!, after!), // two of two
  }
}
