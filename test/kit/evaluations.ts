/** The evaluations of a run of a recipe, for tests of learning. */
import { orThrow } from '@tandem-rl/base'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { parseSettings } from '../../src/run/parts/recipe.js'
import { train } from '../../src/run/train/train.js'

export interface Measured {
  readonly recipe: string
  readonly seed: number
  readonly steps: number
  readonly settings?: Readonly<Record<string, unknown>>
}

/**
 * Trains a recipe, and returns a score of its first evaluator before the first step and after the
 * last one.
 */
export const measured = async (
  { recipe: name, seed, steps, settings: given = {} }: Measured,
  score = 'accuracy',
): Promise<{ readonly before: number; readonly after: number }> => {
  const { recipe } = await loadRecipe(name)
  const settings = orThrow(parseSettings(recipe, { ...given, seed, steps, keep: { evalEvery: steps, alarms: 'off' } }))
  const run = await recipe.build(settings, { memory: 'ignore' })
  const options = trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // the recipe has steps and keep
  const [first] = run.evaluate
  const scores: number[] = []
  for await (const event of train(run, options))
    if (event.type === 'evaluation' && event.name === first?.name) scores.push(event.scores[score]!)
  return { before: scores[0]!, after: scores.at(-1)! }
}
