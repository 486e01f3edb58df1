/** What a command line names: a recipe, or a run with its recipe, and the settings that are given. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { Option } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import { liveFiles } from '../live/files.js'
import { parseSettings } from '../training/recipe.js'
import type { AnyRun } from '../training/run.js'
import { openRun, type RunConfig } from '../training/runFolder.js'
import { asCommandError, CommandError, orFail } from './failure.js'
import { type LoadedRecipe, loadRecipe } from './recipeFile.js'
import { checkedSettings, givenSettings } from './recipeFlags.js'

export type Settings = Readonly<Record<string, unknown>>

/** A recipe, and the run that holds its settings where the command names one. */
export interface Chosen extends LoadedRecipe {
  /** The recipe as the user named it; undefined if the first argument is an option. */
  readonly named: string | undefined
  readonly run: { readonly folder: string; readonly config: RunConfig } | null
}

/** Options that every command with a recipe has. */
export interface BuildFlags {
  readonly memory?: 'check' | 'ignore'
}

export const memoryOption = (): Option =>
  new Option('--memory <how>', 'a run that needs more memory than there is: check refuses it').choices([
    'check',
    'ignore',
  ])

/** Prints to people, beside the output that programs read. */
export const say = (text: string): void => {
  process.stderr.write(text)
}

const isRunFolder = (path: string): boolean => existsSync(`${path}/config.json`) && existsSync(`${path}/checkpoints`)

/** The value of `--resume` among arguments. */
const resumed = (args: readonly string[]): string | undefined => {
  const at = args.findIndex((arg) => arg === '--resume' || arg.startsWith('--resume='))
  if (at === -1) return undefined
  const [, value] = args[at]!.split('=', 2)
  return value ?? args[at + 1]
}

/** Where a command has the folder of a run: as its first argument, or after `--resume`. */
type RunPlace = 'first' | 'resume'

/**
 * The recipe that the arguments of a command begin with, else the one of the run that they name, else word problems.
 *
 * Errors   throws CommandError for a recipe that is not there, and for the folder of a run that has none.
 */
export const choose = async (args: readonly string[], place: RunPlace): Promise<Chosen> => {
  const [first] = args
  const positional = first === undefined || first.startsWith('-') ? undefined : first
  const isRun = place === 'first' && positional !== undefined && isRunFolder(positional)
  const folder = place === 'first' ? (isRun ? positional : undefined) : resumed(args)
  const named = isRun ? undefined : positional
  if (folder === undefined) return { ...(await loadRecipe(named)), named: positional, run: null }
  const { config } = await orFail(openRun(liveFiles, resolve(folder)))
  if (named === undefined && config.recipe === null)
    throw new CommandError(
      `${resolve(folder)} holds a run of a program, not of a recipe: go on with it in that program`,
    )
  const loaded = await loadRecipe(named ?? config.recipe?.file ?? config.recipe?.name)
  return { ...loaded, named: positional, run: { folder: resolve(folder), config } }
}

/** The run of a folder with its recipe. Errors: throws CommandError for a folder without a run, and for a run without a recipe. */
export const chooseRun = async (folder: string): Promise<Chosen & { readonly run: NonNullable<Chosen['run']> }> => {
  const { run, ...rest } = isRunFolder(folder) ? await choose([folder], 'first') : { run: null }
  if (run === null || !('recipe' in rest)) throw new CommandError(`${folder} holds no run: name the folder of one`)
  return { ...rest, run }
}

/** Errors: throws CommandError for a recipe that does not come first: the flags are those of the recipe. */
export const checkFirst = ({ named }: Chosen, given: string | undefined): void => {
  if (given !== named) throw new CommandError(`name the recipe before its options: tandem COMMAND ${given} ...`)
}

/** The settings of a run as it stored them. Errors: throws CommandError if they do not fit the recipe any more. */
export const storedSettings = ({ recipe }: LoadedRecipe, config: RunConfig): Settings => {
  const before = parseSettings(recipe, config.settings)
  if (E.isLeft(before)) throw new CommandError(`the settings of the run do not fit its recipe: ${before.left.reason}`)
  return before.right
}

/** The settings of the run, or the defaults, with those that are given. */
export const settingsOf = async (chosen: Chosen, flags: Settings, over: Settings = {}): Promise<Settings> => {
  const base = chosen.run === null ? {} : { ...storedSettings(chosen, chosen.run.config), ...over }
  return checkedSettings(chosen.recipe, await givenSettings(chosen.recipe, flags, base))
}

/** Builds the run of a recipe. Errors: throws CommandError with the recipe and the reason. */
export const build = async (
  { recipe }: LoadedRecipe,
  settings: Settings,
  { memory = 'check' }: BuildFlags,
): Promise<AnyRun> => {
  try {
    return await recipe.build(settings, { memory, onProgress: (text) => say(`${text}\n`) })
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError)
      throw new CommandError(`the recipe ${recipe.name} cannot be built: ${error.message}`)
    throw asCommandError(error)
  }
}
