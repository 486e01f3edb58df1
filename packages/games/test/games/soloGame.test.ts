/** Games of one model against fixed opponents, as servers of environments play them. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { message, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { loadRecipe } from '../../../../src/cli/recipeFile.js'
import type { HistoryPrompt } from '../../../../src/data/policy.js'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { endedRows } from '../../../../src/envs/base/env.js'
import type { EnvOfTask } from '../../../../src/envs/envOfTask.js'
import { parseSettings } from '../../../../src/run/parts/recipe.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { playEpisodes } from '../../../serve/src/openEnv/episode.js'
import { seatTasks, soloGame } from '../../src/games/soloGame.js'
import { minimaxStrategy } from '../../src/games/strategies.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

useEngine({ threads: 1 })

/** Plays a game to its end: each reply is the first or the last of the listed actions. */
const playOut = async (
  envOf: EnvOfTask,
  { seat, pick, turns = 9 }: { readonly seat: number; readonly pick: 0 | -1; readonly turns?: number },
) => {
  const env = envOf({ id: 'game', query: 'game', answer: String(seat) })
  let state = orThrow(await env.reset(TensorDict({}, [1]), keyFromSeed(3))()) as TensorDict<HistoryPrompt>
  const texts = () => get(state, 'history', 'prompt').items.get(0)!.messages.map(textOf).toArray()
  for (let turn = 0; turn < turns && endedRows(state, 'done')[0] !== true; turn++) {
    const actions = [
      ...texts()
        .at(-1)!
        .split('Your actions: ')[1]!
        .matchAll(/\[([^\]]+)\]/g),
    ].map((each) => each[1]!)
    const before = state
    const action = TensorDict({ history: { response: data([message('assistant', `[${actions.at(pick)}]`)]) } }, [1])
    state = orThrow(await env.step(before, action)()) as unknown as TensorDict<HistoryPrompt> // a stepped state is a state
    discard(before, state)
  }
  const said = texts()
  discard(state)
  return said
}

describe('soloGame', () => {
  it('gives the model the seat of the task, and answers within the environment', async () => {
    const envOf = soloGame({ game: ticTacToe, opponent: minimaxStrategy(ticTacToe) })
    const first = await playOut(envOf, { seat: 0, pick: 0 })
    expect(first[0]).toContain('You are player 0. You see:\n...\n...\n...')
    expect(first.at(-1)).toMatch(/^The game is over\. Returns: (-1, 1|0, 0)\.$/)
    const second = await playOut(envOf, { seat: 1, pick: -1 })
    expect(second[0]).toContain('You are player 1.')
    expect(second[0]).toMatch(/x/) // the opponent has moved
  })

  it('has a task for each seat', () => {
    const tasks = seatTasks(ticTacToe)
    expect([0, 1, 2].map((i) => orThrow(tasks.at(i)).answer)).toEqual(['0', '1', '0'])
  })

  it.each(['ticTacToe', 'kuhnPoker'])('is the environment of the recipe %s', async (name) => {
    const { recipe } = await loadRecipe(name)
    const envOf = recipe.envOfTask!(orThrow(parseSettings(recipe, {})))
    for (const seat of [0, 1])
      for (const pick of [0, -1] as const)
        expect((await playOut(envOf, { seat, pick })).at(-1)).toMatch(/^The game is over\. Returns: -?\d, -?\d\.$/)
  })

  it.each([
    ['connect_four', {}, 'random', 2],
    ['kuhn_poker', { players: 3 }, 'random', 3],
    ['leduc_poker', {}, 'random', 2],
    ['repeated_game', { stage: 'matrix_pd', rounds: 3 }, 'random', 2],
    ['nim', { piles: [1, 2] }, 'minimax', 2],
    ['kuhn_poker', {}, 'solved', 2],
  ] as const)('%s %j is an environment of the recipe game', async (game, options, opponent, players) => {
    const { recipe } = await loadRecipe('game')
    const chosen = orThrow(parseSettings(recipe, { game, options, opponent }))
    const said = await playOut(recipe.envOfTask!(chosen), { seat: players - 1, pick: 0, turns: 42 })
    expect(said[0]).toContain(`You are player ${players - 1}.`)
    expect(said.at(-1)).toMatch(/^The game is over\. Returns: -?\d/)
    expect(orThrow((await recipe.tasks!(chosen)).at(players - 1)).answer).toBe(String(players - 1))
  })

  it('plays alone in the recipe game, and names of games are checked', async () => {
    const { recipe } = await loadRecipe('game')
    const alone = recipe.envOfTask!(orThrow(parseSettings(recipe, { game: 'word_guess', illegal: 'retry' })))
    const env = alone({ id: '1', query: 'word_guess', answer: '0' })
    const opened = orThrow(await env.reset(TensorDict({}, [1]), keyFromSeed(3))()) as TensorDict<HistoryPrompt>
    expect(textOf(get(opened, 'history', 'prompt').items.get(0)!.messages.last()!)).toContain('You are player 0.')
    discard(opened)
    expect(() => recipe.envOfTask!(orThrow(parseSettings(recipe, { game: 'tic_tac_to' })))).toThrow(
      "did you mean 'tic_tac_toe'?",
    )
  })

  it('is served in the form of OpenEnv, with a task for each seat', async () => {
    const env = soloGame({ game: ticTacToe, opponent: minimaxStrategy(ticTacToe) })
    const episodes = playEpisodes({ env, tasks: () => seatTasks(ticTacToe), key: keyFromSeed(1) }, () => 0)
    const opened = requireRight(await episodes.reset({ seed: 1 }))
    expect(opened.observation.messages[0]!.content).toContain('You are player 1.')
    const refused = requireRight(await episodes.step('No idea.', new AbortController().signal))
    expect([refused.done, refused.reward, refused.observation.success]).toEqual([true, -1, false])
    episodes.close()
  })

  it('refuses an answer that is no seat', () => {
    const envOf = soloGame({ game: ticTacToe, opponent: minimaxStrategy(ticTacToe) })
    expect(() => envOf({ id: '1', query: '', answer: '2' })).toThrow("answer must be a seat from 0 to 1, got '2'")
  })
})
