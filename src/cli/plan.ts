/** Resolves a command line to a recipe, or a run with its recipe, and their settings. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { printError } from '@tandem-rl/base/host'
import { filesBelow } from '@tandem-rl/host'
import { Option } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import { parseSettings } from '../run/parts/recipe.js'
import type { OpenTraining } from '../run/parts/remoteTraining.js'
import type { AnyRun } from '../run/parts/run.js'
import { openRun, type RunConfig } from '../run/store/runFolder.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError, orFail } from './failure.js'
import { type LoadedRecipe, loadRecipe, loadRunRecipe, recipeForHelp } from './recipeFile.js'
import { checkedSettings, givenSettings } from './recipeFlags.js'
import { TRUST_FLAG, type TrustFlags } from './recipeTrust.js'

export type Settings = Readonly<Record<string, unknown>>

/** A recipe, and the run whose settings are used, if the command names one. */
export interface Chosen extends LoadedRecipe {
  /** The recipe argument as given, or `undefined` if the first argument is an option. */
  readonly named: string | undefined
  readonly run: Run | null
}

/** A run folder and its config.json. */
interface Run {
  readonly folder: string
  readonly config: RunConfig
}

/** Options of every command with a recipe. */
export interface BuildFlags {
  /** Trains on a server. */
  readonly training?: OpenTraining
  readonly memory?: 'check' | 'ignore'
}

export const memoryOption = (): Option =>
  new Option('--memory <how>', 'check rejects a run that is estimated to need too much memory').choices([
    'check',
    'ignore',
  ])

/** Makes the option of commands that continue a run. */
export const acceptOption = (): Option =>
  new Option('--accept-changes', 'go on although rows, tokenizer, chat template or recipe file have changed')

/** The value of `acceptOption`. */
export interface AcceptFlags {
  readonly acceptChanges?: true
}

/** Returns the field of a run store for `acceptOption`. */
export const changesOf = ({ acceptChanges }: AcceptFlags) => ({
  changes: acceptChanges === true ? ('accept' as const) : ('refuse' as const),
})

/** Prints to standard error, which keeps standard output for programs. */
export const say = (text: string): void => {
  printError(text)
}

const isRunFolder = (path: string): boolean => existsSync(`${path}/config.json`) && existsSync(`${path}/checkpoints`)

/** Returns the value of `--resume`, if given. */
const resumed = (args: readonly string[]): string | undefined => {
  const at = args.findIndex((arg) => arg === '--resume' || arg.startsWith('--resume='))
  if (at === -1) return undefined
  const [, value] = args[at]!.split('=', 2)
  return value ?? args[at + 1]
}

/** Reads the config.json of a run. */
const runAt = async (given: string): Promise<Run> => {
  const folder = resolve(given)
  const { config } = await orFail(openRun(filesBelow(folder), folder))
  return { folder, config }
}

/** Returns the recipe that made a run. Throws CommandError if a program made it. */
const recipeOf = ({ folder, config }: Run): NonNullable<RunConfig['recipe']> => {
  if (config.recipe !== null) return config.recipe
  throw new CommandError(
    `${folder} holds a run that was started by a program, not by a recipe: resume it with that program`,
  )
}

/** The place of a run folder in the arguments: the first one, or after `--resume`. */
type RunPlace = 'first' | 'resume'

/**
 * Returns the recipe that the first argument names, else the recipe of the named run, else
 * `wordProblems`. With `--help`, no recipe file is imported.
 *
 * Errors   throws CommandError for an unknown recipe, for a run that no recipe made, and for a
 *          recipe file of a run that needs `--trust-recipe`.
 */
export const choose = async (args: readonly string[], place: RunPlace): Promise<Chosen> => {
  const [first] = args
  const positional = first === undefined || first.startsWith('-') ? undefined : first
  const isRun = place === 'first' && positional !== undefined && isRunFolder(positional)
  const folder = place === 'first' ? (isRun ? positional : undefined) : resumed(args)
  const named = isRun ? undefined : positional
  const isHelp = args.includes('--help') || args.includes('-h')
  const load = isHelp ? recipeForHelp : loadRecipe
  if (folder === undefined) return { ...(await load(named)), named: positional, run: null }
  const run = await runAt(folder)
  if (named !== undefined) return { ...(await load(named)), named: positional, run }
  const recipe = recipeOf(run)
  const loaded = isHelp
    ? await recipeForHelp(recipe.file ?? recipe.name)
    : await loadRunRecipe({ folder, recipe, trust: args.includes(TRUST_FLAG) ? 'trusted' : 'checked' })
  return { ...loaded, named: positional, run }
}

/** Opens the run of a folder with its recipe. Throws CommandError if either is missing. */
export const chooseRun = async (
  folder: string,
  { trustRecipe }: TrustFlags,
): Promise<Chosen & { readonly run: Run }> => {
  if (!isRunFolder(folder)) throw new CommandError(`${folder} is not a run folder`)
  const run = await runAt(folder)
  const trust = trustRecipe === true ? 'trusted' : 'checked'
  return { ...(await loadRunRecipe({ folder, recipe: recipeOf(run), trust })), named: folder, run }
}

/** Throws CommandError if the recipe is not the first argument: it determines the flags. */
export const checkFirst = ({ named }: Chosen, given: string | undefined): void => {
  if (given !== named) throw new CommandError(`give the recipe before its options: tandem COMMAND ${given} ...`)
}

/** Returns the stored settings of a run. Throws CommandError if they no longer match the recipe. */
export const storedSettings = ({ recipe }: LoadedRecipe, config: RunConfig): Settings => {
  const before = parseSettings(recipe, config.settings)
  if (E.isLeft(before)) throw new CommandError(`the settings of the run do not match its recipe: ${before.left.reason}`)
  return before.right
}

/** Merges the given settings into those of the run, or into the defaults. */
export const settingsOf = async (chosen: Chosen, flags: Settings, over: Settings = {}): Promise<Settings> => {
  const base = chosen.run === null ? {} : { ...storedSettings(chosen, chosen.run.config), ...over }
  return checkedSettings(chosen.recipe, await givenSettings(chosen.recipe, flags, base))
}

/** Builds the run of a recipe. Throws CommandError with the recipe and the reason. */
export const build = async (
  { recipe }: LoadedRecipe,
  settings: Settings,
  { memory = 'check', training }: BuildFlags,
): Promise<AnyRun> => {
  try {
    const context = { memory, onProgress: (text: string) => say(`${text}\n`), ...(training && { training }) }
    return await recipe.build(settings, context)
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError)
      throw new CommandError(`the recipe ${recipe.name} cannot be built: ${error.message}`)
    throw asCommandError(error)
  }
}

/** Loads a recipe, and its settings with those of `--set`. */
export const chosenRecipe = async (
  name: string,
  set: readonly string[],
): Promise<{ readonly recipe: LoadedRecipe['recipe']; readonly settings: ReturnType<typeof checkedSettings> }> => {
  const { recipe } = await loadRecipe(name)
  return { recipe, settings: checkedSettings(recipe, await givenSettings(recipe, { set })) }
}
