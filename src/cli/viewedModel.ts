/** Opens the runs whose checkpoints the viewer runs. */
import { withSetting } from '../run/parts/recipe.js'
import type { OpenRecipeRun } from '../view/openModel.js'
import { build, chooseRun, storedSettings } from './plan.js'
import { checkedSettings } from './recipeFlags.js'
import type { TrustFlags } from './recipeTrust.js'

/**
 * Makes a function that builds the run of a folder with its recipe. `startEngine` is called first.
 *
 * Errors   the function throws CommandError if the recipe is missing or does not fit the settings.
 */
export const runOpener =
  (startEngine: () => Promise<unknown>, trust: TrustFlags = {}): OpenRecipeRun =>
  async (folder, changes) => {
    const chosen = await chooseRun(folder, trust)
    const stored = storedSettings(chosen, chosen.run.config)
    const changed = Object.entries(changes).reduce(
      (settings, [path, value]) => withSetting(settings, path.split('.'), value),
      stored,
    )
    const settings = checkedSettings(chosen.recipe, changed)
    await startEngine()
    return build(chosen, settings, { memory: 'ignore' })
  }
