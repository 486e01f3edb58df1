/** `tandem bench RECIPE`: measures the time and memory of a recipe's steps. */
import { cpus } from 'node:os'
import { Command, Option } from 'commander'
import type { PhaseSeconds, StepRecord } from '../run/records.js'
import { train } from '../run/train.js'
import { asCommandError, CommandError } from './failure.js'
import { type EngineOptions, engineOptions, positiveInteger, startEngine } from './options.js'
import {
  type BuildFlags,
  build,
  type Chosen,
  checkFirst,
  choose,
  memoryOption,
  type Settings,
  say,
  settingsOf,
} from './plan.js'
import { addRecipeFlags } from './recipeFlags.js'

type Flags = EngineOptions & BuildFlags & Settings & { readonly measured: number }

/** Number of warm-up steps, in which graphs are compiled. They are not measured. */
const WARM_UP = 2

interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

const spreadOf = (values: readonly number[]): Spread => {
  const sorted = [...values].sort((a, b) => a - b)
  return { median: sorted[Math.floor(sorted.length / 2)]!, least: sorted[0]!, most: sorted.at(-1)! }
}

const total = ({ generation, environment, training, weightSync }: PhaseSeconds): number =>
  generation + environment + training + weightSync

/** Summarizes the measured steps as one record. */
const measured = (recipe: string, steps: readonly StepRecord[]) => ({
  ...{ recipe, steps: steps.length, cpu: cpus()[0]?.model ?? 'unknown', node: process.version },
  secondsPerStep: spreadOf(steps.map(({ seconds }) => total(seconds))),
  phases: Object.fromEntries(
    (['generation', 'environment', 'training', 'weightSync'] as const).map((phase) => [
      phase,
      spreadOf(steps.map(({ seconds }) => seconds[phase])).median,
    ]),
  ),
  tokensPerSecond: spreadOf(steps.map(({ update, seconds }) => (update.tokens ?? 0) / Math.max(total(seconds), 1e-9)))
    .median,
  peakResidentBytes: process.resourceUsage().maxRSS * 1024,
})

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: Flags): Promise<void> => {
    checkFirst(chosen, given)
    const settings = await settingsOf(chosen, flags)
    const engine = await startEngine(flags)
    const run = await build(chosen, settings, flags)
    say(`${engine.backend} backend (${engine.packageName}); recipe ${chosen.recipe.name}\n`)
    const steps: StepRecord[] = []
    const all = WARM_UP + flags.measured
    try {
      for await (const event of train({ ...run, evaluate: [] }, { steps: all, alarms: { mode: 'off' } })) {
        if (event.type !== 'step') continue
        steps.push(event)
        say(`step ${event.step} of ${all}: ${total(event.seconds).toFixed(3)} s\n`)
      }
    } catch (error) {
      throw asCommandError(error)
    }
    if (steps.length <= WARM_UP) throw new CommandError(`the recipe ended after ${steps.length} steps`)
    process.stdout.write(`${JSON.stringify(measured(chosen.recipe.name, steps.slice(WARM_UP)))}\n`)
  }

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const benchCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'first')
  const command = new Command('bench')
    .description(
      `Benchmark the steps of a recipe. Prints median, spread and phases as a line of JSON. ${chosen.recipe.summary}`,
    )
    .argument('[recipe]', 'a recipe by name or file, or a run folder (default: wordProblems)')
    .addOption(
      new Option('--measured <n>', 'number of measured steps, after two warm-up steps')
        .argParser(positiveInteger)
        .default(10),
    )
    .addOption(memoryOption())
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.action(action(chosen))
}
