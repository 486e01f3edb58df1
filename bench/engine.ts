/**
 * Measures the engine against PyTorch and the other backends of TensorFlow.js. Prints one JSON
 * line for each figure and, if asked, writes a page of results.
 */
import { writeFileSync } from 'node:fs'
import { availableParallelism, loadavg, release, totalmem, type } from 'node:os'
import { host } from '@tandem-rl/base/host'
import { Command, InvalidArgumentError } from 'commander'
import { CONTESTANTS, type Contestant, missing } from './engine/contestants.js'
import { lineOf, type Outcome } from './engine/figures.js'
import { type MatchOptions, playMatch } from './engine/match.js'
import { renderPage } from './engine/page.js'
import { WORKLOADS, type Workload } from './engine/workloads.js'

interface Options {
  readonly page?: string
  readonly modules?: string
  readonly quick?: boolean
  readonly only?: string
  readonly contestants: readonly Contestant[]
  readonly threads: number
  readonly patience: number
}

const positive = (text: string): number => {
  const value = Number(text)
  if (!(value > 0)) throw new InvalidArgumentError('expected a positive number')
  return value
}

const contestantList = (text: string): readonly Contestant[] =>
  text.split(',').map((name) => {
    const known = CONTESTANTS.find((contestant) => contestant === name)
    if (known === undefined) throw new InvalidArgumentError(`expected some of ${CONTESTANTS.join(', ')}`)
    return known
  })

const options = new Command()
  .description('Measures the engine against PyTorch and other backends of TensorFlow.js, in turns.')
  .option('--page <file>', 'write a page of results')
  .option(
    '--modules <folder>',
    'look for @tensorflow/tfjs-node and -backend-wasm in the node_modules of this folder too',
  )
  .option('--quick', 'the short form: small models, fewer and shorter turns, one number of threads')
  .option('--only <text>', 'only workloads whose name contains this')
  .option('--contestants <names>', `some of ${CONTESTANTS.join(',')}`, contestantList, CONTESTANTS)
  .option('--threads <n>', 'threads of every contestant', positive, Math.min(2, availableParallelism()))
  .option('--patience <seconds>', 'time of one run from which larger sizes are left out', positive, 8)
  .parse()
  .opts<Options>()

const outcomes: Outcome[] = []

const report = (outcome: Outcome): void => {
  outcomes.push(outcome)
  console.log(JSON.stringify(lineOf(outcome)))
}

const { quick = false, only = '', modules, threads, patience } = options
const turns = quick ? { rounds: 3, turnSeconds: 0.2 } : { rounds: 7, turnSeconds: 0.6 }
const load = loadavg()[0]!

const present = options.contestants.filter((contestant) => {
  const problem = missing(contestant, modules)
  if (problem !== undefined) report({ tag: 'Absent', contestant, threads, problem })
  return problem === undefined
})

const chosen = WORKLOADS.filter(({ name, extent }) => name.includes(only) && (!quick || extent === 'short form too'))

/** Contestants that were slow or failed at a family of workloads, and why. */
const spared = new Map<string, string>()

const measure = async (workload: Workload, match: MatchOptions): Promise<void> => {
  const keyOf = (contestant: Contestant): string => [contestant, workload.family, match.threads].join()
  for (const contestant of match.contestants) {
    const problem = spared.get(keyOf(contestant))
    if (problem !== undefined) {
      report({ tag: 'Absent', workload, contestant, threads: match.threads, problem })
    }
  }
  const contestants = match.contestants.filter((contestant) => !spared.has(keyOf(contestant)))
  for (const outcome of await playMatch(workload, { ...match, contestants })) {
    report(outcome)
    if (outcome.tag === 'Figure' && outcome.seconds.median > patience) {
      const problem = `a run of ${workload.name} took ${outcome.seconds.median.toFixed(1)} s, and this one is larger`
      spared.set(keyOf(outcome.contestant), problem)
    }
  }
}

/** After every workload, so that a run which is cut short leaves its page too. */
const writePage = (): void => {
  if (options.page === undefined) return
  const page = renderPage(outcomes, {
    host: host(),
    memoryGiB: totalmem() / 2 ** 30,
    system: `${type()} ${release()}`,
    date: new Date().toISOString().slice(0, 10),
    load: [load, loadavg()[0]!],
    threads,
    ...turns,
    command: `npm run bench -- engine ${quick ? '--quick ' : ''}--page docs/benchmarks.md`,
  })
  writeFileSync(options.page, page)
}

for (const workload of chosen) {
  await measure(workload, { contestants: present, threads, modules, patience, ...turns })
  writePage()
}
if (threads > 1 && !quick) {
  const scalable = present.filter((contestant) => contestant !== 'wasm') // in Node it has one thread
  for (const workload of chosen.filter(({ scaling }) => scaling === 'measured')) {
    await measure(workload, { contestants: scalable, threads: 1, modules, patience, ...turns })
    writePage()
  }
}
