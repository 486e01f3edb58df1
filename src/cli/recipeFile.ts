/**
 * Loads recipes by name or file. TypeScript files need no build step and share this Tandem
 * instance.
 */
import { existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { asError, errorMessage, unknownName } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import { z } from 'zod'
import { importUserModule } from '../live/userModules.js'
import { defineRecipe } from '../run/define/defineRecipe.js'
import type { Recipe } from '../run/parts/recipe.js'
import type { RunConfig } from '../run/store/runFolder.js'
import { CommandError } from './failure.js'
import { checkRunRecipe, rememberRecipe } from './recipeTrust.js'

/** A recipe, and its file as given by the user, or `null` for a built-in recipe. */
export interface LoadedRecipe {
  readonly recipe: Recipe
  readonly file: string | null
}

const FOLDER = fileURLToPath(new URL('../../recipes/', import.meta.url))

/** The default recipe of commands. */
const DEFAULT_RECIPE = 'wordProblems'

/** Lists the built-in recipes. */
export const recipeNames = (): readonly string[] =>
  readdirSync(FOLDER)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.slice(0, -'.ts'.length))
    .sort()

const isFile = (name: string): boolean => /[/\\]|\.[cm]?[jt]s$/.test(name)

/**
 * Returns the file of a recipe. Throws CommandError if it does not exist, with the nearest name.
 */
const fileOf = (name: string): string => {
  if (isFile(name)) {
    const path = resolve(name)
    if (!existsSync(path))
      throw new CommandError(`there is no recipe file${/\.[cm]?[jt]s$/.test(path) ? '' : ' or run folder'} ${path}`)
    return path
  }
  const names = recipeNames()
  if (!names.includes(name))
    throw new CommandError(
      `${unknownName('recipe', name, names)} (available: ${names.join(', ')}; give a file by its path, such as ./${name}.ts)`,
    )
  return `${FOLDER}${name}.ts`
}

const isRecipe = (value: unknown): value is Recipe =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'Recipe'

/** Returns the message and place of an import error. Syntax errors have it in their message. */
const reasonOf = (error: unknown): string => {
  const missing = /^Cannot find (?:module|package) '(@tandem-rl\/[\w-]+)/.exec(errorMessage(error))?.[1]
  if (missing !== undefined) return `it needs the package ${missing}: npm install ${missing}`
  const [what = '', where] = errorMessage(error)
    .split('\n')
    .map((line) => line.trim())
  return where === undefined ? thrownText(error) : `${asError(error).name}: ${what} (${where})`
}

/** Imports the recipe that a file exports. */
const importRecipe = async (path: string): Promise<Recipe> => {
  let module: unknown
  try {
    module = await importUserModule(path)
  } catch (error) {
    throw new CommandError(`the recipe ${path} cannot be loaded: ${reasonOf(error)}`)
  }
  const recipe: unknown =
    typeof module === 'object' && module !== null && 'recipe' in module ? module.recipe : undefined
  if (!isRecipe(recipe))
    throw new CommandError(
      `${path} exports no recipe: add 'export const recipe = defineRecipe({ name, summary, settings, build })'`,
    )
  return recipe
}

/**
 * Loads a built-in recipe by name, or a recipe from a file that exports `recipe`. The user names
 * the recipe, so a file is remembered as one that may run.
 *
 * Errors   throws CommandError with file and reason for a syntax error, a failed import, or a
 *          missing export.
 */
export const loadRecipe = async (name: string = DEFAULT_RECIPE): Promise<LoadedRecipe> => {
  const path = fileOf(name)
  if (!isFile(name)) return { recipe: await importRecipe(path), file: null }
  await rememberRecipe(path)
  return { recipe: await importRecipe(path), file: path }
}

/** A run folder, and its recipe by its config.json. */
interface RecipeOfRun {
  readonly folder: string
  readonly recipe: NonNullable<RunConfig['recipe']>
  /** With `trusted`, the user allows to run any file that the folder names. */
  readonly trust: 'trusted' | 'checked'
}

/** Loads the recipe of a run. Throws CommandError for a file that the user has to allow first. */
export const loadRunRecipe = async ({ folder, recipe, trust }: RecipeOfRun): Promise<LoadedRecipe> => {
  const name = recipe.file ?? recipe.name
  if (isFile(name) && trust === 'checked') await checkRunRecipe(fileOf(name), folder)
  return loadRecipe(name)
}

/**
 * Loads a recipe for a help text, which imports no recipe file: a recipe in a file has no settings
 * there.
 */
export const recipeForHelp = async (name: string = DEFAULT_RECIPE): Promise<LoadedRecipe> => {
  if (!isFile(name)) return loadRecipe(name)
  const file = fileOf(name)
  const summary = `The settings of ${file} are not listed, because help does not run it: use --print-config.`
  const build = (): never => {
    throw new CommandError(`give --help without other options: it does not run ${file}`)
  }
  return { recipe: defineRecipe({ name, summary, settings: z.strictObject({}), build }), file }
}
