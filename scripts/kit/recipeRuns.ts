/** Runs recipes for scripts, as `tandem train` does, in this process. */
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { settingOfFlag } from '../../src/cli/recipeFlags.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { withSetting } from '../../src/run/parts/recipe.js'
import { runFolder } from '../../src/run/store/store.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { train } from '../../src/run/train/train.js'

/** The options of `followRecipe`. */
export interface RecipeRun {
  readonly folder: string
  /** Settings by flag name in camel case. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly signal?: AbortSignal
  readonly onEvent: (event: RunEvent) => void | Promise<void>
}

/**
 * Starts or resumes a run of a recipe in a folder. Throws as `train` does, and for invalid
 * settings.
 */
export const followRecipe = async (name: string, { folder, flags, signal, onEvent }: RecipeRun): Promise<void> => {
  const { recipe } = await loadRecipe(name)
  const given = Object.entries(flags).reduce(
    (settings, [flag, value]) => withSetting(settings, settingOfFlag(recipe, flag).path, value),
    {} as Readonly<Record<string, unknown>>, // nothing yet
  )
  const settings = recipe.settings.parse(given)
  const options = trainOptionsOf(settings as unknown as Parameters<typeof trainOptionsOf>[0]) // these recipes have the common groups
  const run = await recipe.build(settings, { memory: 'ignore' })
  const record = { name, file: null, settings: settings as never } // plain JSON, written to config.json
  const store = runFolder(folder)
  for await (const event of train(run, { ...options, store, recipe: record, ...(signal && { signal }) }))
    await onEvent(event)
}
