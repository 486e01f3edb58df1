/**
 * `tandem bench RECIPE`: measures the time and memory of a recipe's steps, and compares two
 * recipes.
 */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { countOf } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { train } from 'tandem-rl'
import {
  addRecipeFlags,
  asCommandError,
  type BuildFlags,
  build,
  type Chosen,
  Command,
  CommandError,
  checkFirst,
  choose,
  type EngineOptions,
  engineOptions,
  integerBetween,
  interruptible,
  memoryOption,
  Option,
  orFail,
  type Settings,
  say,
  settingsOf,
  startEngine,
  threadsOfRun,
} from 'tandem-rl/command'
import { type Benchmark, benchmarkHost, type Comparison, summarize } from '../benchmark.js'
import { formatBenchmark } from '../format.js'
import { benchmarkPicture } from '../picture.js'
import { compareRecipes } from './benchAgainst.js'
import { type MeasuredStep, recordOf, stepMeter } from './benchRecord.js'

type Flags = EngineOptions &
  BuildFlags &
  Settings & {
    readonly measured: number
    readonly against?: string
    readonly rounds?: number
    readonly picture?: string
  }

/** Number of warm-up steps, in which graphs are compiled. They are not measured. */
const WARM_UP = 2

/** Number of rounds of each recipe in a comparison. */
const ROUNDS = 5

/** Prints a result to standard error, and draws it if a file is given. */
const show = async (result: Benchmark | Comparison, picture: string | undefined): Promise<void> => {
  say(formatBenchmark(result))
  if (picture === undefined) return
  await orFail(liveFiles.write(picture, benchmarkPicture(result)))
}

/** Measures one recipe in this process. Prints no result after an interruption. */
const measureOne = async (chosen: Chosen, flags: Flags): Promise<void> => {
  const settings = await settingsOf(chosen, flags)
  const engine = await startEngine({ ...threadsOfRun(chosen, settings), ...flags })
  const run = await build(chosen, settings, flags)
  const { name } = chosen.recipe
  say(`${engine.backend} backend (${engine.packageName}); recipe ${name}\n`)
  const steps: MeasuredStep[] = []
  const all = WARM_UP + flags.measured
  const measure = stepMeter()
  await interruptible('\nfinishing this step', async (signal) => {
    try {
      for await (const event of train({ ...run, evaluate: [] }, { steps: all, alarms: { mode: 'off' }, signal })) {
        if (event.type !== 'step') continue
        const measured = measure(event)
        steps.push(measured)
        say(`step ${event.step} of ${all}: ${measured.round.seconds.toFixed(3)} s\n`)
      }
    } catch (error) {
      throw asCommandError(error)
    }
  })
  if (steps.length <= WARM_UP) throw new CommandError(`the recipe ended after ${countOf(steps.length, 'step')}`)
  const measured = steps.slice(WARM_UP)
  const result = summarize(
    { name, unit: 'steps' },
    measured.map(({ round }) => round),
    benchmarkHost(),
  )
  print(`${JSON.stringify(recordOf(name, measured, result))}\n`)
  await show(result, flags.picture)
}

/** Compares two recipes in processes of their own. */
const measureTwo = async (args: readonly string[], flags: Flags & { readonly against: string }): Promise<void> => {
  const { against, rounds = ROUNDS, picture } = flags
  const { comparison, ...rest } = await compareRecipes({ args, against, rounds })
  print(`${JSON.stringify({ ...rest, comparison })}\n`)
  for (const [phase, { recipe, against: other }] of Object.entries(rest.phases))
    say(`${phase}: ${recipe.toFixed(3)} s and ${other.toFixed(3)} s per step (medians)\n`)
  await show(comparison, picture)
}

const action =
  (chosen: Chosen, args: readonly string[]) =>
  async (given: string | undefined, flags: Flags): Promise<void> => {
    checkFirst(chosen, given)
    const { against, rounds, picture } = flags
    if (rounds !== undefined && against === undefined)
      throw new CommandError('--rounds is the number of rounds of a comparison: add --against')
    if (picture !== undefined && !existsSync(dirname(resolve(picture))))
      throw new CommandError(`--picture: there is no folder ${dirname(resolve(picture))}`)
    await (against === undefined ? measureOne(chosen, flags) : measureTwo(args, { ...flags, against }))
  }

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const benchCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'first')
  const command = new Command('bench')
    .description(
      'Benchmark the steps of a recipe. Prints median, spread and phases as a line of JSON. ' +
        `With --against, compare it with another recipe. ${chosen.recipe.summary}`,
    )
    .argument('[recipe]', 'a recipe by name or file, or a run folder (default: wordProblems)')
    .addOption(
      new Option('--measured <n>', 'number of measured steps, after two warm-up steps')
        .argParser(integerBetween(1))
        .default(10),
    )
    .option(
      '--against <recipe>',
      'a recipe to compare with, in alternating processes: prints the ratio of the speeds with its 95 % confidence ' +
        'interval. All other flags apply to both recipes',
    )
    .addOption(
      new Option('--rounds <n>', `processes of each recipe in a comparison (default: ${ROUNDS})`).argParser(
        integerBetween(2),
      ),
    )
    .option('--picture <file>', 'also draw the result as an SVG file')
    .addOption(memoryOption())
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.action(action(chosen, args))
}
