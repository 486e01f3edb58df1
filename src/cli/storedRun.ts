/** Opens stored runs with their recipes, for commands that go on from their checkpoints. */
import type { Option } from 'commander'
import { withSetting } from '../run/parts/recipe.js'
import type { AnyRun } from '../run/parts/run.js'
import type { RunConfig } from '../run/store/runFolder.js'
import { type EngineOptions, engineOptions, startEngine } from './options.js'
import { build, chooseRun, storedSettings } from './plan.js'
import { checkedSettings } from './recipeFlags.js'
import { type TrustFlags, trustOption } from './recipeTrust.js'

/** The values of `storedRunOptions`. */
export interface StoredRunFlags extends EngineOptions, TrustFlags {}

/** Makes the options of a command that opens stored runs. */
export const storedRunOptions = (): readonly Option[] => [trustOption(), ...engineOptions()]

/**
 * Makes a function that builds the run of a folder with its recipe, with the settings of some
 * dotted paths changed. Its first call starts the tensor engine.
 *
 * Errors   the function rejects with CommandError if the folder holds no run of a recipe, its
 *          recipe file is not trusted, or the recipe does not accept the settings.
 */
export const storedRunOpener = (
  flags: StoredRunFlags,
): ((folder: string, changes: RunConfig['settings']) => Promise<AnyRun>) => {
  let engine: ReturnType<typeof startEngine> | undefined
  return async (folder, changes) => {
    const chosen = await chooseRun(folder, flags)
    const changed = Object.entries(changes).reduce(
      (settings, [path, value]) => withSetting(settings, path.split('.'), value),
      storedSettings(chosen, chosen.run.config),
    )
    const settings = checkedSettings(chosen.recipe, changed)
    engine ??= startEngine(flags)
    await engine
    return build(chosen, settings, { memory: 'ignore' })
  }
}
