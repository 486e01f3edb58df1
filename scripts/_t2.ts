import { loadRecipe } from '../src/cli/recipeFile.js'
import { parseSettings } from '../src/run/recipe.js'
import { trainOptionsOf } from '../src/run/choices.js'
import { train, runFolder } from '../src/run/index.js'
import { selectBackend } from '../src/engine/select.js'
await selectBackend()
const { recipe } = await loadRecipe()
const settings: any = (parseSettings(recipe, { model: '/work/main/models/word-problems', steps: 12, keep: { evalTasks: 50 } }) as any).right
const run = await recipe.build(settings, {})
console.time('run')
for await (const e of train(run, { ...trainOptionsOf(settings), store: runFolder('/tmp/runx', {existing:'refuse'}), recipe: { name: recipe.name, file: null, settings } })) {
  if (e.type === 'step') console.log(e.step, e.reward.toFixed(3), JSON.stringify(e.parts), e.update.loss.toFixed(4), e.update.maxLogProbGap, JSON.stringify(e.seconds))
  else if (e.type === 'evaluation') console.log(e.name, e.step, JSON.stringify(e.scores))
  else if (e.type !== 'samples' && e.type !== 'evaluating') console.log(JSON.stringify(e).slice(0, 400))
}
console.timeEnd('run')
