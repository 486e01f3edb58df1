/** Requests about checkpoints of a run whose conversations have several turns. */
import { beforeAll, describe, expect, it } from 'vitest'
import { loadRecipe } from '../../../../src/cli/recipeFile.js'
import { trainOptionsOf } from '../../../../src/run/define/choices.js'
import { withSetting } from '../../../../src/run/parts/recipe.js'
import type { PolicySettings } from '../../../../src/run/parts/settings.js'
import type { RecipeRecord } from '../../../../src/run/store/options.js'
import { runFolder } from '../../../../src/run/store/store.js'
import { train } from '../../../../src/run/train/train.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { linesOf, linesOfType, postLines } from '../../../../test/kit/viewLines.js'
import { useView } from '../../../../test/kit/viewServer.js'
import type { RolloutAnswer, RolloutsAnswer } from '../../src/protocol.js'

const path = useTemporaryFolder()
useEngine({ threads: 1 })

const SETTINGS = {
  ...{ steps: 2, 'tasks.prompts': 4, 'tasks.group': 2, shown: 64, 'keep.checkpointEvery': 1 },
  ...{ 'keep.trajectories': 8, 'keep.evalTasks': 2 },
}

beforeAll(async () => {
  const { recipe } = await loadRecipe('numberGuessing')
  const given = Object.entries(SETTINGS).reduce(
    (all, [name, value]) => withSetting(all, name.split('.'), value),
    {} as Readonly<Record<string, unknown>>, // nothing yet
  )
  const settings = recipe.settings.parse(given) as PolicySettings & RecipeRecord['settings'] // the output of the schema
  const run = await recipe.build(settings, { memory: 'ignore' })
  const options = { ...trainOptionsOf(settings), store: runFolder(path('guesses')) }
  for await (const event of train(run, { ...options, recipe: { name: recipe.name, file: null, settings } })) void event
})

const view = useView(() => [path('guesses')])

const get = async (address: string): Promise<unknown> =>
  (await fetch(`${view.origin()}/api/runs/guesses/${address}`)).json()

describe('requests about checkpoints of conversations', () => {
  it('fork at a later turn: the environment repeats the turns before it and continues', async () => {
    const { rows } = (await get('rollouts?sort=turns&order=desc')) as RolloutsAnswer // the answer of this path
    const { turns } = (await get(`rollouts/${rows[0]!.id}`)) as RolloutAnswer // likewise
    const turn = turns.findLastIndex(({ tokens }) => tokens !== undefined)
    expect(rows[0]?.turns).toBeGreaterThan(1)
    const place = { rollout: rows[0]!.id, turn, token: 0 }
    const ask = async (request: 'fork' | 'probability', body: object) =>
      linesOf(await postLines({ origin: view.origin(), run: 'guesses', request }, body))
    const lines = await ask('fork', { ...place, checkpoint: 1, count: 3, maxNewTokens: 4 })
    expect(linesOfType(lines, 'mode')).toEqual([{ type: 'mode', mode: 'environment', reason: null }])
    const forks = linesOfType(lines, 'completion')
    expect(forks.length).toBe(3)
    for (const fork of forks) {
      expect(fork.turns[0]?.author).toBe('model')
      expect(fork.reward).not.toBeNull()
    }
    const recorded = turns[turn]!.tokens![0]!
    const at = rows[0]!.version!
    const scores = linesOfType(await ask('probability', place), 'checkpoint')
    expect(scores.find(({ step }) => step === at)?.logProb).toBeCloseTo(recorded.logProb!, 3)
  })
})
