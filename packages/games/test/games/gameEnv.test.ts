/** Games as environments: turns, chance, fixed players, illegal moves, rewards and prompts. */
import { child, type Key, keyFromSeed, orThrow, uniformInteger } from '@tandem-rl/base'
import { message, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import { afterEach, describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { endedRows } from '../../../../src/envs/base/env.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { uniformGamePolicy } from '../../src/games/exactValues.js'
import type { Game } from '../../src/games/game.js'
import { replayGame } from '../../src/games/game.js'
import { GameEnv, type GameEnvOptions, type GameEnvState } from '../../src/games/gameEnv.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { leducPoker } from '../../src/games/leducPoker.js'
import { liarsDice } from '../../src/games/liarsDice.js'
import { rockPaperScissors } from '../../src/games/matrixGames.js'
import { pig } from '../../src/games/pig.js'
import { minimaxStrategy, policyStrategy } from '../../src/games/strategies.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

useEngine({ threads: 1 })

type State = TensorDict<GameEnvState>

/** The states of a test, which are freed after it. */
const made: State[] = []

afterEach(() => discard(made.splice(0)))

const kept = (state: State): State => {
  made.push(state)
  return state
}

const says = (texts: readonly string[]) =>
  TensorDict({ history: { response: data(texts.map((text) => message('assistant', text))) } }, [texts.length])

const opened = async <P>(options: GameEnvOptions<P>, key: Key = keyFromSeed(1)) => {
  const env = GameEnv(options)
  const state = kept(orThrow(await env.reset(TensorDict({}, [env.batchSize]), key)()))
  const step = async (from: State, texts: readonly string[]): Promise<State> =>
    kept(orThrow(await env.step(from, says(texts))()) as unknown as State) // a stepped state is a state
  return { env, state, step }
}

const played = (state: State) => get(state, 'game').items.toArray()
const promptsOf = (state: State, i = 0) =>
  get(state, 'history', 'prompt')
    .items.get(i)!
    .messages.map((each) => `${each.role}: ${textOf(each)}`)
    .toArray()

/** Plays a batch to its end with random legal replies, which are read from the prompts. */
const playedOut = async <P>(game: Game<P>, options: Partial<GameEnvOptions<P>> = {}, seed = 1) => {
  const { state: first, step } = await opened({ game, prompts: 8, ...options }, keyFromSeed(seed))
  let state = first
  const rewards: Readonly<Record<string, number>>[][] = []
  for (let turn = 0; turn < 500; turn++) {
    const over = endedRows(state as unknown as TensorDict, 'done') // read by names
    if (turn > 0 && over.every((each) => each)) return { state, rewards }
    const replies = played(state).map((_, i) => {
      if (over[i]) return ''
      const asked = promptsOf(state, i).at(-1)!
      const legal = [...asked.slice(asked.lastIndexOf('Your actions:')).matchAll(/\[[^\]]+\]/g)].map(([each]) => each)
      return legal[uniformInteger(child(child(keyFromSeed(seed), i), turn), legal.length)]!
    })
    state = await step(state, replies)
    rewards.push(get(state, 'agentRewards').items.toArray() as never)
  }
  throw new Error('a game did not end')
}

describe('GameEnv', () => {
  it.each<readonly [string, Game<never>]>([
    ['Kuhn poker for 3', kuhnPoker({ players: 3 }) as never],
    ['Leduc poker', leducPoker() as never],
    ["liar's dice", liarsDice() as never],
    ['pig', pig({ winScore: 10 }) as never],
    ['rock-paper-scissors', rockPaperScissors as never],
    ['tic-tac-toe', ticTacToe as never],
  ])('%s: plays by the rules, and rewards add up to the returns', async (_name, game) => {
    const { state, rewards } = await playedOut(game)
    for (const [i, { history, returns, illegal, forfeit }] of played(state).entries()) {
      const end = replayGame(game, history)
      expect(game.turn(end)).toBe('over')
      expect(returns).toEqual(game.returns(end))
      expect([illegal.every((count) => count === 0), forfeit]).toEqual([true, null])
      const earned = returns!.map((_each, player) =>
        rewards.reduce((sum, step) => sum + step[i]![`player_${player}`]!, 0),
      )
      for (const [player, sum] of earned.entries()) expect(sum).toBeCloseTo(returns![player]!, 6)
    }
  })

  it('plays equal games from equal keys, and deals equal cards within a group', async () => {
    const options = { game: kuhnPoker(), prompts: 4, repeats: 2 }
    const cards = (state: State) => played(state).map(({ history }) => history.join())
    const [first, again] = [await opened(options), await opened(options)]
    expect(cards(again.state)).toEqual(cards(first.state))
    const dealt = cards(first.state)
    expect([0, 2, 4, 6].map((i) => dealt[i])).toEqual([1, 3, 5, 7].map((i) => dealt[i]))
    expect(new Set(dealt).size).toBeGreaterThan(1)
    expect(get(first.state, 'groupId').items.toArray().slice(0, 3)).toEqual([
      'kuhn_poker 0',
      'kuhn_poker 0',
      'kuhn_poker 1',
    ])
  })

  it('lets fixed players move within a step, in balanced seats', async () => {
    const casts = [
      ['player', 'perfect'],
      ['perfect', 'player'],
    ]
    const fixed = { perfect: minimaxStrategy(ticTacToe) }
    const { state, step } = await opened({ game: ticTacToe, prompts: 2, casts, fixed })
    expect(get(state, 'agent').items.toArray()).toEqual(['player_0', 'player_1'])
    expect(played(state).map(({ history }) => history.length)).toEqual([0, 1])
    const after = await step(state, ['[0]', '[9]'])
    expect(played(after)[0]!.history).toHaveLength(2)
    expect(Object.keys(get(after, 'agentRewards').items.get(0)!)).toEqual(['player_0', 'player_1'])
  })

  it('never loses with a perfect player, and wins against a random one', async () => {
    const fixed = { perfect: minimaxStrategy(ticTacToe) }
    const { state } = await playedOut(ticTacToe, { prompts: 40, casts: [['player', 'perfect']], fixed })
    const results = played(state).map(({ returns }) => returns![1]!)
    expect(Math.min(...results)).toBeGreaterThanOrEqual(0)
    expect(results.filter((each) => each > 0).length).toBeGreaterThan(25)
  })

  describe('illegal moves', () => {
    const game = ticTacToe

    it('forfeit the game by default', async () => {
      const { state, step } = await opened({ game, prompts: 1 })
      const over = await step(await step(state, ['[4]']), ['[4]'])
      expect(played(over)[0]).toMatchObject({ forfeit: 1, returns: [1, -1], illegal: [0, 1], replies: [1, 1] })
      expect(get(over, 'agentRewards').items.get(0)).toEqual({ player_0: 1, player_1: -1 })
      expect(endedRows(over as unknown as TensorDict, 'terminated')).toEqual([true]) // read by names
    })

    it('are reported and retried, then forfeit', async () => {
      const illegal = { kind: 'retry', attempts: 1, fallback: 'forfeit' } as const
      const { state, step } = await opened({ game, prompts: 1, illegal, stake: 2 })
      const again = await step(state, ['[9]'])
      expect(get(again, 'agent').items.get(0)).toBe('player_0')
      expect(promptsOf(again).at(-1)).toContain('Your reply was illegal: [9] is not a legal action.')
      const over = await step(again, ['nothing'])
      expect(played(over)[0]).toMatchObject({ forfeit: 0, returns: [-2, 2], illegal: [2, 0] })
    })

    it('count the attempts of a turn, not of a game', async () => {
      const illegal = { kind: 'retry', attempts: 1, fallback: 'forfeit' } as const
      const { state, step } = await opened({ game, prompts: 1, illegal })
      let now = state
      for (const reply of ['[9]', '[0]', '[0]', '[1]', '[0]', '[2]']) now = await step(now, [reply])
      expect(played(now)[0]).toMatchObject({ history: [0, 1, 2], illegal: [2, 1], forfeit: null })
    })

    it('are replaced by random moves from the key', async () => {
      const { state, step } = await opened({ game, prompts: 1, illegal: { kind: 'random' } })
      const [a, b] = [await step(state, ['?']), await step(state, ['?'])]
      expect(played(a)[0]!.history).toHaveLength(1)
      expect(played(b)).toEqual(played(a))
    })
  })

  it('pays for turns and by a potential, which adds up to minus its first value', async () => {
    const potential = (state: { readonly history: readonly number[] }, player: number) =>
      1 + state.history.length + player
    const turn = () => [0.25, 0]
    const { state, rewards } = await playedOut(ticTacToe, { shaping: { potential, turn } })
    for (const [i, { returns, replies }] of played(state).entries()) {
      const sums = [0, 1].map((player) => rewards.reduce((sum, step) => sum + step[i]![`player_${player}`]!, 0))
      const turns = replies[0]! + replies[1]!
      expect(sums[0]).toBeCloseTo(returns![0]! - 1 + 0.25 * turns, 5)
      expect(sums[1]).toBeCloseTo(returns![1]! - 2, 5)
    }
  })

  it('shows a conversation that continues, or one turn alone', async () => {
    const { state, step } = await opened({
      game: ticTacToe,
      prompts: 1,
      casts: [['player', 'r']],
      fixed: { r: policyStrategy(uniformGamePolicy) },
    })
    const later = await step(state, ['[4]'])
    expect(promptsOf(later).slice(0, 2)).toEqual([...promptsOf(state), 'assistant: [4]'])
    expect(promptsOf(later)).toHaveLength(3)
    expect(promptsOf(later)[2]).not.toContain('Two players mark')
    const alone = await opened({ game: ticTacToe, prompts: 1, text: { memory: 'turn' } })
    const next = await alone.step(await alone.step(alone.state, ['[4]']), ['[0]'])
    expect(promptsOf(next)).toHaveLength(1)
    expect(promptsOf(next)[0]).toContain('o..\n.x.\n...')
  })

  it('hides what others choose at the same time', async () => {
    const { state, step } = await opened({ game: rockPaperScissors, prompts: 1 })
    const second = await step(state, ['[Rock]'])
    expect(played(second)[0]!.history).toEqual([])
    expect(promptsOf(second).join('\n')).toBe(
      promptsOf(state).join('\n').replace('player 0', 'player 1').replace('player: 0', 'player: 1'),
    )
    const over = await step(second, ['[Paper]'])
    expect(played(over)[0]!.returns).toEqual([-1, 1])
  })

  it('truncates a game that is too long', async () => {
    const { state, step } = await opened({ game: ticTacToe, prompts: 1, maxReplies: 2 })
    const over = await step(await step(state, ['[0]']), ['[1]'])
    expect(endedRows(over as unknown as TensorDict, 'truncated')).toEqual([true]) // read by names
    expect(played(over)[0]!.returns).toBeNull()
  })

  it('refuses casts and options that do not fit', () => {
    const game = ticTacToe
    expect(() => GameEnv({ game, prompts: 1, casts: [['player']] })).toThrow(/must have 2 names/)
    expect(() => GameEnv({ game, prompts: 0 })).toThrow(/prompts must be/)
    expect(() => GameEnv({ game, prompts: 1, fixed: { r: policyStrategy(uniformGamePolicy) } })).toThrow(
      /'r' is in no cast/,
    )
    expect(() =>
      GameEnv({ game, prompts: 1, casts: [['r', 'r']], fixed: { r: policyStrategy(uniformGamePolicy) } }),
    ).toThrow(/who replies/)
    expect(() => GameEnv({ game, prompts: 1, illegal: { kind: 'shrug' } as never })).toThrow(RangeError)
  })
})

describe('minimaxStrategy', () => {
  it('refuses games with chance, and games of several players', () => {
    expect(() => minimaxStrategy(kuhnPoker({ players: 3 }))).toThrow(/zero-sum game of two/)
    const kuhn = kuhnPoker()
    expect(() => minimaxStrategy(kuhn)({ game: kuhn, state: kuhn.initial, player: 0 })).toThrow(RangeError)
  })
})
