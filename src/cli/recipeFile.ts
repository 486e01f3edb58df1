/** Recipes by name or file. Files of TypeScript load without a build step, and share this process's Tandem. */
import { existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { unknownName } from '../core/options.js'
import type { Recipe } from '../training/recipe.js'
import { CommandError } from './failure.js'

/** A recipe, and the file that the user named; null for one that comes with Tandem. */
export interface LoadedRecipe {
  readonly recipe: Recipe
  readonly file: string | null
}

const FOLDER = fileURLToPath(new URL('../../recipes/', import.meta.url))

/** The recipe of `tandem train` without arguments. */
const DEFAULT_RECIPE = 'wordProblems'

/** The recipes that come with Tandem. */
const recipeNames = (): readonly string[] =>
  readdirSync(FOLDER)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.slice(0, -'.ts'.length))
    .sort()

const isFile = (name: string): boolean => /[/\\]|\.[cm]?[jt]s$/.test(name)

/** The file of a recipe. Errors: throws CommandError for a file or name that is not there, with the nearest name. */
const fileOf = (name: string): string => {
  if (isFile(name)) {
    const path = resolve(name)
    if (!existsSync(path)) throw new CommandError(`there is no recipe file ${path}`)
    return path
  }
  const names = recipeNames()
  if (!names.includes(name))
    throw new CommandError(
      `${unknownName('recipe', name, names)} (there are ${names.join(', ')}; a file is named by its path, such as ./${name}.ts)`,
    )
  return `${FOLDER}${name}.ts`
}

const isRecipe = (value: unknown): value is Recipe =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'Recipe'

/** The first two lines of what a module threw: what, and where. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const [what = '', where = ''] = error.message.split('\n').map((line) => line.trim())
  return `${error.name}: ${what}${where === '' ? '' : ` (${where})`}`
}

/**
 * Loads a recipe: by the name of one that comes with Tandem, or from a file that exports `recipe`.
 *
 * Errors   throws CommandError with file and reason for a syntax error, an import that fails, and a missing export.
 */
export const loadRecipe = async (name: string = DEFAULT_RECIPE): Promise<LoadedRecipe> => {
  const path = fileOf(name)
  const [{ createJiti }, tandem, zod, fpts] = await Promise.all([
    import('jiti'),
    import('../index.js'),
    import('zod'),
    import('fp-ts/lib/function.js'),
  ])
  const jiti = createJiti(import.meta.url, {
    fsCache: false,
    virtualModules: { 'tandem-rl': tandem, zod, 'fp-ts/lib/function.js': fpts },
  })
  let module: unknown
  try {
    module = await jiti.import(path)
  } catch (error) {
    throw new CommandError(`the recipe ${path} cannot be loaded: ${reasonOf(error)}`)
  }
  const recipe: unknown =
    typeof module === 'object' && module !== null && 'recipe' in module ? module.recipe : undefined
  if (!isRecipe(recipe))
    throw new CommandError(
      `${path} exports no recipe: add 'export const recipe = defineRecipe({ name, summary, settings, build })'`,
    )
  return { recipe, file: isFile(name) ? path : null }
}
