/** `tandem train RECIPE`: a run of a recipe, new or gone on with. */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import { liveFiles } from '../live/files.js'
import { trainOptionsOf } from '../training/choices.js'
import type { RunEvent } from '../training/events.js'
import type { RecipeRecord } from '../training/options.js'
import { differingSettings, parseSettings, type Recipe } from '../training/recipe.js'
import type { AnyRun } from '../training/run.js'
import { openRun, type RunConfig } from '../training/runFolder.js'
import { MAY_CHANGE } from '../training/settings.js'
import { runFolder } from '../training/store.js'
import { train } from '../training/train.js'
import { asCommandError, CommandError, orFail } from './failure.js'
import { type EngineOptions, engineOptions, startEngine } from './options.js'
import { type LoadedRecipe, loadRecipe } from './recipeFile.js'
import { addRecipeFlags, checkedSettings, givenSettings } from './recipeFlags.js'
import { recipeBar, recipeLines } from './recipeProgress.js'

interface RecipeRunFlags extends EngineOptions {
  readonly out?: string
  readonly resume?: string
  readonly json?: true
  readonly printConfig?: true
  readonly dryRun?: true
  readonly memory?: 'check' | 'ignore'
}

type Flags = RecipeRunFlags & Readonly<Record<string, unknown>>
type Settings = Readonly<Record<string, unknown>>

const timestamp = (): string => new Date().toISOString().slice(0, 19).replaceAll(':', '-')

const say = (text: string): void => {
  process.stderr.write(text)
}

/** A run that is to be made: the recipe with its settings, and its folder. */
interface Planned {
  readonly loaded: LoadedRecipe
  readonly settings: Settings
  readonly folder: string
  readonly existing: 'resume' | 'refuse'
}

const mayChange = (recipe: Recipe, path: string): boolean =>
  [...MAY_CHANGE, ...recipe.mayChange].some((each) => path === each || path.startsWith(`${each}.`))

/** The settings to go on with: the stored ones with those that may change. Errors: throws CommandError naming those that may not. */
const resumedSettings = (recipe: Recipe, stored: RunConfig, asked: Settings): Settings => {
  const before = parseSettings(recipe, stored.settings)
  if (E.isLeft(before)) throw new CommandError(`the settings of the run do not fit its recipe: ${before.left.reason}`)
  const refused = differingSettings(before.right, asked).filter(({ path }) => !mayChange(recipe, path))
  if (refused.length > 0)
    throw new CommandError(
      `the run has other settings: ${refused.map(({ path, was, is }) => `${path} is ${JSON.stringify(was)}, not ${JSON.stringify(is)}`).join('; ')}. Resume without these, or start a new run with --out`,
    )
  return asked
}

const plan = async (name: string | undefined, flags: Flags): Promise<Planned> => {
  if (flags.resume === undefined) {
    const loaded = await loadRecipe(name)
    const settings = checkedSettings(loaded.recipe, await givenSettings(loaded.recipe, flags))
    return { loaded, settings, folder: resolve(flags.out ?? `runs/${timestamp()}`), existing: 'refuse' }
  }
  if (flags.out !== undefined) throw new CommandError('--resume goes on in its own folder: leave out --out')
  const folder = resolve(flags.resume)
  const { config } = await orFail(openRun(liveFiles, folder))
  if (config.recipe === null)
    throw new CommandError(`${folder} holds a run of a program, not of a recipe: go on with it in that program`)
  const loaded = await loadRecipe(name ?? config.recipe.file ?? config.recipe.name)
  const given = await givenSettings(loaded.recipe, flags, config.settings)
  const settings = resumedSettings(loaded.recipe, config, checkedSettings(loaded.recipe, given))
  return { loaded, settings, folder, existing: 'resume' }
}

const build = async ({ loaded, settings }: Planned, flags: Flags): Promise<AnyRun> => {
  try {
    return await loaded.recipe.build(settings, {
      memory: flags.memory ?? 'check',
      onProgress: (text) => say(`${text}\n`),
    })
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError)
      throw new CommandError(`the recipe ${loaded.recipe.name} cannot be built: ${error.message}`)
    throw asCommandError(error)
  }
}

const recordOf = ({ loaded: { recipe, file }, settings }: Planned): RecipeRecord => ({
  name: recipe.name,
  file,
  settings: settings as RecipeRecord['settings'], // JSON: they were read from text
})

/** Runs to the end, or to the end of the step in which Ctrl-C is pressed. */
const follow = async (planned: Planned, run: AnyRun, flags: Flags): Promise<void> => {
  const abort = new AbortController()
  const onSignal = (): void => {
    if (abort.signal.aborted) process.exit(130)
    abort.abort()
    say('\nfinishing this step, then saving; press Ctrl-C again to stop at once\n')
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const isLines = flags.json !== true && !process.stderr.isTTY
  const display = isLines ? recipeLines((line) => process.stdout.write(line)) : recipeBar(process.stderr)
  const show = (event: RunEvent): void => {
    if (flags.json === true) process.stdout.write(`${JSON.stringify(event)}\n`)
    else display.show(event)
  }
  const { settings } = planned
  const options =
    'keep' in settings
      ? trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // the group of that name, by the schema of the recipe
      : { steps: Number(settings.steps ?? 1) }
  const store = runFolder(planned.folder, { existing: planned.existing })
  try {
    for await (const event of train(run, { ...options, store, signal: abort.signal, recipe: recordOf(planned) }))
      show(event)
  } catch (error) {
    throw asCommandError(error)
  } finally {
    display.close()
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
  if (flags.json !== true) {
    const stopped = abort.signal.aborted ? `go on with: tandem train --resume ${planned.folder}\n` : ''
    say(`report: ${planned.folder}/report.html\n${stopped}`)
  }
}

/** Collects one batch, shows what it is, and learns nothing. */
const dryRun = async (run: AnyRun): Promise<void> => {
  const { sampleStep, describeStep } = await import('../training/step.js')
  const { liveClock } = await import('../live/clock.js')
  try {
    const source = await run.source.open({ step: 0, lastStep: 1, position: null, push: run.push })
    const open = { run, source, clock: liveClock }
    try {
      using sampled = await sampleStep(open, {
        step: 0,
        position: source.position,
        klCoefficient: run.source.kl?.coefficient ?? 0,
      })
      process.stdout.write(
        `${JSON.stringify({ type: 'batch', ...describeStep(open, sampled), seconds: sampled.seconds }, undefined, 2)}\n`,
      )
    } finally {
      await source.close()
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    await run.close()
  }
}

const action = async (name: string | undefined, flags: Flags): Promise<void> => {
  const planned = await plan(name, flags)
  if (flags.printConfig === true) {
    process.stdout.write(`${JSON.stringify(planned.settings, undefined, 2)}\n`)
    return
  }
  const engine = await startEngine(flags)
  const run = await build(planned, flags)
  say(`${engine.backend} backend (${engine.packageName}); recipe ${planned.loaded.recipe.name}\n`)
  if (flags.dryRun === true) return dryRun(run)
  say(`run folder ${planned.folder}\n`)
  await follow(planned, run, flags)
}

/** The command for a recipe, which decides the flags. */
export const trainRecipeCommand = async (name: string | undefined, resumed: string | undefined): Promise<Command> => {
  const known =
    name ??
    (resumed === undefined
      ? undefined
      : ((await orFail(openRun(liveFiles, resolve(resumed)))).config.recipe?.file ?? undefined))
  const { recipe } = await loadRecipe(known)
  const command = new Command('train')
    .description(recipe.summary)
    .argument('[recipe]', 'a recipe by name, or a file that exports one')
    .option('--out <folder>', 'run folder (default: runs/ and the time)')
    .option('--resume <folder>', 'go on with a run from its last checkpoint')
    .option('--print-config', 'print all settings as JSON and stop: a file for --config')
    .option('--dry-run', 'check parts and memory, collect one batch, print what it is, and stop')
    .addOption(
      new Option('--memory <how>', 'a run that needs more memory than there is: check refuses it').choices([
        'check',
        'ignore',
      ]),
    )
  addRecipeFlags(command, recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print every event as a line of JSON').action(action)
}

/** The recipe that arguments of `train` name, and the run they go on with; null for the run of `tandem train` itself. */
export const namedRecipe = async (
  args: readonly string[],
): Promise<{ readonly name: string | undefined; readonly resumed: string | undefined } | null> => {
  const [first] = args
  const at = args.indexOf('--resume')
  const resumed = at === -1 ? undefined : args[at + 1]
  if (first !== undefined && !first.startsWith('-')) return { name: first, resumed }
  if (resumed === undefined) return null
  const opened = await openRun(liveFiles, resolve(resumed))()
  return E.isRight(opened) && opened.right.config.recipe !== null ? { name: undefined, resumed } : null
}
