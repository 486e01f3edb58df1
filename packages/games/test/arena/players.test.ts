/** Players: what they choose, what they refuse, and that they are pure in their keys. */
import { child, keyFromSeed } from '@tandem-rl/base'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { message, textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { planTournament } from '../../src/arena/matches/plan.js'
import { runTournament } from '../../src/arena/matches/tournament.js'
import { solveGame } from '../../src/arena/players/cfr.js'
import { languageModelPlayer } from '../../src/arena/players/languageModel.js'
import { mctsPlayer } from '../../src/arena/players/mcts.js'
import { minimaxPlayer } from '../../src/arena/players/minimax.js'
import { anyGame, type Player, playerFailure, sceneOf } from '../../src/arena/players/player.js'
import { humanPlayer, mixturePlayer, randomPlayer, tabularPlayer } from '../../src/arena/players/simple.js'
import { connectFour } from '../../src/games/connectFour.js'
import { nashConv } from '../../src/games/exactValues.js'
import { type Game, replayGame } from '../../src/games/game.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { matchingPennies, rockPaperScissors } from '../../src/games/matrixGames.js'
import { nim } from '../../src/games/nim.js'
import { pig } from '../../src/games/pig.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const key = keyFromSeed(3)
const { signal } = new AbortController()
const board = anyGame(ticTacToe)
const kuhn = anyGame(kuhnPoker())

const chosen = async (player: Player, game: Game, history: readonly number[], seed = 0) => {
  const state = replayGame(game, history)
  const scene = sceneOf(game, state, { player: Number(game.turn(state)) })
  return rightOf(player.move(scene, { key: child(key, seed), gameKey: key, signal }))
}

/** The returns of the first player in games against the second, who both take both seats. */
const returnsOf = async (
  first: Player,
  second: Player,
  { game, games }: { readonly game: Game; readonly games: number },
) => {
  const plans = planTournament({ games: [game], players: [first, second], pairing: 'match', episodes: games, key })
  const { games: played, failed } = await rightOf(runTournament({ plans, illegalMove: { kind: 'forfeit' } }))
  expect(failed).toEqual([])
  return played.map(({ seats, returns }) => returns![seats.indexOf(first.name)]!)
}

const count = (values: readonly number[], value: number) => values.filter((each) => each === value).length

describe('scenes', () => {
  it('have the state only where nothing is hidden from the player', () => {
    expect(sceneOf(board, ticTacToe.initial, { player: 0 }).open).not.toBeNull()
    const dealt = replayGame(kuhn, [2, 0])
    expect(sceneOf(kuhn, dealt, { player: 0 }).open).toBeNull()
    const pennies = anyGame(matchingPennies)
    expect(sceneOf(pennies, pennies.initial, { player: 1 }).open).toBeNull()
    const dice = anyGame(pig())
    expect(sceneOf(dice, dice.initial, { player: 0 }).open).not.toBeNull()
    expect(() => sceneOf(board, ticTacToe.initial, { player: 1 })).toThrow(/not the turn of player 1/)
  })
})

describe('minimax', () => {
  it('never loses tic-tac-toe, draws against itself, and beats random play mostly', async () => {
    const perfect = minimaxPlayer()
    const against = await returnsOf(perfect, randomPlayer(), { game: board, games: 60 })
    expect(count(against, -1)).toBe(0)
    expect(count(against, 1)).toBeGreaterThan(45)
    const mirror = await returnsOf(perfect, minimaxPlayer({ name: 'other' }), { game: board, games: 20 })
    expect(new Set(mirror)).toEqual(new Set([0]))
  })

  it('chooses among all best moves: every opening of tic-tac-toe draws', async () => {
    const player = minimaxPlayer()
    const openings = await Promise.all(Array.from({ length: 100 }, (_, i) => chosen(player, board, [], i)))
    expect(new Set(openings.map(({ action }) => action)).size).toBe(9)
  })

  it('wins Nim from a won position with the only winning move', async () => {
    const game = anyGame(nim({ piles: [1, 2, 4] }))
    const state = game.initial
    const { action } = await chosen(minimaxPlayer(), game, [])
    expect(game.actionText(state, 0, Number(action))).toContain('3')
    const results = await returnsOf(minimaxPlayer(), minimaxPlayer({ name: 'other' }), { game, games: 6 })
    expect(results).toEqual([1, -1, 1, -1, 1, -1])
  })

  it('searches large games to a depth, with an estimate at its end', async () => {
    const game = anyGame(connectFour())
    const threat = [3, 0, 3, 1, 3, 5] // x has three in column 3
    expect((await chosen(minimaxPlayer({ depth: 2 }), game, threat)).action).toBe(3)
    expect((await chosen(minimaxPlayer({ depth: 2 }), game, [...threat, 6])).action).toBe(3) // o must block
    const likesEdges = minimaxPlayer({ depth: 1, evaluate: ({ state }) => (state.history.at(-1) === 6 ? 1 : 0) })
    expect((await chosen(likesEdges, game, [])).action).toBe(6)
  })

  it('refuses what it cannot play, and too many positions', async () => {
    const refusal = (game: Game, history: readonly number[], player = minimaxPlayer()) => {
      const state = replayGame(game, history)
      const turn = game.turn(state)
      const scene = sceneOf(game, state, { player: typeof turn === 'number' ? turn : 0 })
      return leftOf(player.move(scene, { key, gameKey: key, signal }))
    }
    expect(await refusal(kuhn, [0, 1])).toMatchObject({
      kind: 'unsupported',
      reason: expect.stringContaining('kuhn_poker'),
    })
    expect((await refusal(anyGame(pig()), [])).reason).toContain('chance moves')
    expect((await refusal(anyGame(rockPaperScissors), [])).kind).toBe('unsupported')
    expect((await refusal(anyGame(connectFour()), [], minimaxPlayer({ maxPositions: 500 }))).reason).toContain(
      'set depth',
    )
    expect(() => minimaxPlayer({ depth: 0 })).toThrow('depth must be an integer of at least 1, got 0')
  })
})

describe('MCTS', () => {
  it('beats random play in tic-tac-toe and in a game with dice', async () => {
    const results = await returnsOf(mctsPlayer({ simulations: 60 }), randomPlayer(), { game: board, games: 20 })
    expect(count(results, 1)).toBeGreaterThanOrEqual(15)
    const dice = anyGame(pig({ winScore: 20 }))
    const rolled = await returnsOf(mctsPlayer({ simulations: 60 }), randomPlayer(), { game: dice, games: 10 })
    expect(count(rolled, 1)).toBeGreaterThanOrEqual(8)
  })

  it('takes a win at once, is the same for equal keys, and refuses hidden information', async () => {
    const history = [0, 3, 1, 4]
    expect((await chosen(mctsPlayer(), board, history)).action).toBe(2)
    expect(await chosen(mctsPlayer(), board, [4], 5)).toEqual(await chosen(mctsPlayer(), board, [4], 5))
    const scene = sceneOf(kuhn, replayGame(kuhn, [0, 1]), { player: 0 })
    expect((await leftOf(mctsPlayer().move(scene, { key, gameKey: key, signal }))).kind).toBe('unsupported')
    expect(() => mctsPlayer({ simulations: 0 })).toThrow(RangeError)
  })
})

describe('CFR', () => {
  it('reaches a NashConv below 1e-3 in Kuhn poker', () => {
    const policy = solveGame(kuhn, { iterations: 1_000 })
    expect(nashConv(kuhn, [policy, policy])).toBeLessThan(1e-3)
  })

  it('finds the only equilibrium of rock-paper-scissors, where players move at once', () => {
    const game = anyGame(rockPaperScissors)
    const policy = solveGame(game, { iterations: 100 })
    const decision = { player: 0, informationState: game.informationState(game.initial, 0), legalActions: [0, 1, 2] }
    for (const probability of policy(decision)) expect(probability).toBeCloseTo(1 / 3, 6)
  })

  it('plays as a table, and refuses games that are too large', async () => {
    const player = tabularPlayer({ name: 'solved', policy: solveGame(kuhn, { iterations: 500 }) })
    const results = await returnsOf(player, randomPlayer(), { game: kuhn, games: 400 })
    expect(results.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(0)
    expect(() => solveGame(board, { maxNodes: 1000 })).toThrow('more than maxNodes = 1000')
    const lost = { player: 0, informationState: 'nowhere', legalActions: [0] }
    expect(() => solveGame(kuhn, { iterations: 1 })(lost)).toThrow("no information state 'nowhere'")
  })
})

describe('mixtures', () => {
  const always = (index: number): Player =>
    tabularPlayer({
      name: `always ${index}`,
      policy: ({ legalActions }) => legalActions.map((_, i) => (i === index ? 1 : 0)),
    })
  const parts = [
    { player: always(0), weight: 1 },
    { player: always(1), weight: 3 },
  ]

  it('draw one player for a whole game, or for each move', async () => {
    const scene = sceneOf(board, ticTacToe.initial, { player: 0 })
    const drawn = async (draw: 'game' | 'move') => {
      const moves = Array.from({ length: 40 }, (_, i) =>
        rightOf(mixturePlayer(parts, { draw }).move(scene, { key: child(key, i), gameKey: key, signal })),
      )
      return new Set((await Promise.all(moves)).map(({ action }) => action)).size
    }
    expect([await drawn('game'), await drawn('move')]).toEqual([1, 2])
  })

  it('have probabilities if they draw for each move', async () => {
    const scene = sceneOf(kuhn, replayGame(kuhn, [0, 1]), { player: 0 })
    expect(await rightOf(mixturePlayer(parts, { draw: 'move' }).probabilities!(scene, { signal }))).toEqual([
      0.25, 0.75,
    ])
    expect(mixturePlayer(parts).probabilities).toBeUndefined()
  })

  it('need weights above 0', () => {
    expect(() => mixturePlayer([])).toThrow('must not be empty')
    expect(() => mixturePlayer([{ player: randomPlayer(), weight: 0 }])).toThrow('must be above 0, got 0')
  })
})

describe('a person', () => {
  it('reads the prompt, then the reason of an illegal move, and may leave', async () => {
    const shown: string[] = []
    const answers = ['[x(9,9)]', null]
    const player = humanPlayer({
      ask: async (text) => {
        shown.push(text)
        return answers.shift() ?? null
      },
    })
    const first = await rightOf(
      player.move(sceneOf(board, ticTacToe.initial, { player: 0 }), { key, gameKey: key, signal }),
    )
    expect(first).toMatchObject({ action: 'illegal', problem: '[x(9,9)] is not a legal action' })
    const again = sceneOf(board, ticTacToe.initial, {
      player: 0,
      attempts: [{ reply: '[x(9,9)]', reason: first.problem! }],
    })
    expect((await leftOf(player.move(again, { key, gameKey: key, signal }))).kind).toBe('cancelled')
    expect(shown[0]).toContain('Your actions: [x(0,0)]')
    expect(shown[1]).toBe('Not possible: [x(9,9)] is not a legal action.')
  })
})

describe('a language model', () => {
  it('answers a prompt, keeps its reasoning, and reads its own illegal move with the reason', async () => {
    const policy = scriptedHistoryPolicy({ answers: ['Take the corner. [x(0,0)]'] })
    const player = languageModelPlayer({ policy, name: 'model', systemPrompt: 'You play well.', actions: 'hidden' })
    const attempts = [{ reply: 'pass', reason: 'there is no action in square brackets' }]
    const scene = sceneOf(board, ticTacToe.initial, { player: 0, attempts })
    const move = await rightOf(player.move(scene, { key, gameKey: key, signal }))
    expect(move).toEqual({ action: 0, text: 'Take the corner. [x(0,0)]', reasoning: 'Take the corner.' })
    const prompt = get(policy.calls()[0]!.state, 'history', 'prompt').items.get(0)!
    const texts = prompt.messages.map((each) => `${each.role}: ${textOf(each)}`).toArray()
    expect(texts[0]).toBe('system: You play well.')
    expect(texts[1]).not.toContain('Your actions')
    expect(texts.slice(2)).toEqual([
      'assistant: pass',
      'user: This move is not possible: there is no action in square brackets. Answer again with a legal action in square brackets.',
    ])
  })

  it('has the probabilities of its replies where they can be scored', async () => {
    const policy = scriptedHistoryPolicy({ answers: ['[Bet]'] })
    const player = languageModelPlayer({
      policy,
      scoreReplies: (_, replies) => {
        expect(replies).toEqual(['[Pass]', '[Bet]'])
        return TE.right([Math.log(0.3), Math.log(0.1)])
      },
    })
    const scene = sceneOf(kuhn, replayGame(kuhn, [0, 1]), { player: 0 })
    const [pass, bet] = await rightOf(player.probabilities!(scene, { signal }))
    expect([pass, bet]).toEqual([expect.closeTo(0.75, 9), expect.closeTo(0.25, 9)])
  })

  it('reports the tokens that a server counted, and a failure is not an illegal move', async () => {
    const usage = { promptTokens: 12, completionTokens: 3 }
    const act = () =>
      TE.right(
        TensorDict({ history: { response: data([message('assistant', '[Bet]')]) }, answer: data([{ usage }]) }, [1]),
      )
    const scene = sceneOf(kuhn, replayGame(kuhn, [0, 1]), { player: 0 })
    const context = { key, gameKey: key, signal }
    expect(await rightOf(languageModelPlayer({ policy: { name: 'served', act } }).move(scene, context))).toMatchObject({
      usage,
    })
    const down = {
      name: 'down',
      act: () =>
        TE.left({ _tag: 'PolicyFailure', policy: 'down', kind: 'infrastructure', reason: 'no answer' } as const),
    }
    const failed = await languageModelPlayer({ policy: down }).move(scene, context)()
    expect(failed).toEqual(
      E.left(
        playerFailure('infrastructure', 'no answer', {
          _tag: 'PolicyFailure',
          policy: 'down',
          kind: 'infrastructure',
          reason: 'no answer',
        } as never),
      ),
    )
  })
})
