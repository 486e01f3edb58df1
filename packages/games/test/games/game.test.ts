/** Games: refused calls, chance from keys, text for language models. */
import { child, keyFromSeed } from '@tandem-rl/base'
import { message } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { breakthrough } from '../../src/games/breakthrough.js'
import { connectFour } from '../../src/games/connectFour.js'
import { defineGame, drawChance, type GameRules, replayGame } from '../../src/games/game.js'
import { gamePrompt, parseAction, playableText } from '../../src/games/gameText.js'
import { hex } from '../../src/games/hex.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { leducPoker } from '../../src/games/leducPoker.js'
import { liarsDice } from '../../src/games/liarsDice.js'
import { matchingPennies, matrixGame } from '../../src/games/matrixGames.js'
import { nim } from '../../src/games/nim.js'
import { pig } from '../../src/games/pig.js'
import { repeatedGame } from '../../src/games/repeatedGame.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

describe('calls that are refused', () => {
  it.each<readonly [name: string, call: () => unknown, message: RegExp]>([
    ['a cell that is taken', () => replayGame(ticTacToe, [4, 4]), /4 is not a legal move; the turn is '1'/],
    ['a move after the end', () => replayGame(ticTacToe, [0, 3, 1, 4, 2, 5]), /the turn is 'over'/],
    ['one action where all move', () => matchingPennies.apply(matchingPennies.initial, 0), /'simultaneous'/],
    ['half of a simultaneous move', () => replayGame(matchingPennies, [0]), /'simultaneous'/],
    ['a card dealt twice', () => replayGame(kuhnPoker(), [1, 1]), /the turn is 'chance'/],
    ['a player that does not exist', () => ticTacToe.legalActions(ticTacToe.initial, 2), /from 0 to 1, got 2/],
    ['returns before the end', () => ticTacToe.returns(ticTacToe.initial), /before the game is over/],
    [
      'chance where a player moves',
      () => drawChance(ticTacToe, ticTacToe.initial, keyFromSeed(1)),
      /not the turn of chance/,
    ],
    [
      'a prompt for the wrong player',
      () => gamePrompt(ticTacToe, ticTacToe.initial, { player: 1 }),
      /not the turn of player 1/,
    ],
    ['no player', () => defineGame({ ...RULES, players: 0 }), /players must be/],
    ['Kuhn poker of 11', () => kuhnPoker({ players: 11 }), /from 2 to 10, got 11/],
    ['Leduc poker of 1', () => leducPoker({ players: 1 }), /from 2 to 10, got 1/],
    ['half a column', () => connectFour({ columns: 6.5 }), /columns must be a whole number/],
    ['pig for one', () => pig({ players: 1 }), /players must be at least 2/],
    ["liar's dice for one", () => liarsDice({ players: 1 }), /players must be at least 2/],
    ['an empty pile', () => nim({ piles: [1, 0] }), /piles must be whole numbers/],
    ['a board of 27 columns', () => hex({ columns: 27 }), /columns must be a whole number from 1 to 26/],
    ['a board of one row', () => breakthrough({ rows: 1 }), /rows must be a whole number from 2 to 9/],
    [
      'a matrix with holes',
      () => matrixGame({ name: 'm', actions: [['A', 'B'], ['A']], payoffs: [[1, 1]] }),
      /must have 2 rows/,
    ],
    [
      'no rounds',
      () => repeatedGame({ game: matchingPennies, rounds: 0 }),
      /rounds must be a whole number of at least 1/,
    ],
    ['a certain stop', () => repeatedGame({ game: matchingPennies, rounds: 2, stop: 1 }), /stop must be .* below 1/],
  ])('%s', (_name, call, message) => {
    expect(call).toThrow(RangeError)
    expect(call).toThrow(message)
  })
})

const RULES: GameRules<number> = {
  name: 'one',
  players: 1,
  utility: 'generalSum',
  rules: '',
  initial: 0,
  turn: () => 'over',
  legalActions: () => [],
  next: () => 0,
  returns: () => [0],
  text: () => '',
  actionText: () => '',
  views: 'open',
}

describe('chance', () => {
  it('draws equal actions from equal keys, and each outcome with its probability', () => {
    const game = kuhnPoker()
    const draws = Array.from({ length: 3000 }, (_, i) => drawChance(game, game.initial, child(keyFromSeed(1), i)))
    expect(draws).toEqual(
      Array.from({ length: 3000 }, (_, i) => drawChance(game, game.initial, child(keyFromSeed(1), i))),
    )
    for (const card of [0, 1, 2]) {
      const share = draws.filter((each) => each === card).length / 3000
      expect(Math.abs(share - 1 / 3)).toBeLessThan(0.04)
    }
  })
})

describe('text for language models', () => {
  const dealt = replayGame(kuhnPoker(), [1, 2])

  it('shows the rules, the view of the player and the actions, and not the cards of others', () => {
    const prompt = gamePrompt(kuhnPoker(), dealt, { player: 0 })
    expect(prompt).toContain('You are player 0')
    expect(prompt).toContain('Your actions: [Pass], [Bet].')
    expect(gamePrompt(kuhnPoker(), replayGame(kuhnPoker(), [1, 0]), { player: 0 })).toBe(prompt)
    expect(gamePrompt(kuhnPoker(), dealt, { player: 0, actions: 'hidden' })).not.toContain('Your actions')
  })

  it.each([
    ['My card is weak. [Pass]', 0],
    ['[Pass] is weak, so I play [ BET ]', 1],
    ['bet', 1],
    ['[1]', 1],
  ])('reads the action of %j', (reply, action) => {
    expect(parseAction(kuhnPoker(), dealt, { player: 0, reply })).toEqual(E.right(action))
  })

  it.each([
    ['I would bet here.', 'unreadable', 'I would bet here.'],
    ['', 'unreadable', ''],
    ['I fold. [Fold]', 'illegal', 'Fold'],
    ['[Bet] or not [2]', 'illegal', '2'],
    [`[${'9'.repeat(200)}]`, 'illegal', '9'.repeat(100)],
    [']bet', 'unreadable', ']bet'],
  ])('returns a failure for %j', (reply, kind, found) => {
    const result = parseAction(kuhnPoker(), dealt, { player: 0, reply })
    expect(result).toMatchObject(E.left({ _tag: 'ActionFailure', kind, found }))
  })

  it.each([
    ['bet', '', 'unreadable'],
    ['[Pass] is weak, so I play bet', '[Pass]', 0],
    ['I play [Bet] bec', 'I play [Bet]', 1],
    ['I play [Be', '', 'unreadable'],
  ])('takes a closed bracket of %j, a reply that was cut off, and no bare action', (reply, playable, read) => {
    const text = playableText(message('assistant', reply, { isComplete: false }))
    expect(text).toBe(playable)
    const found = parseAction(kuhnPoker(), dealt, { player: 0, reply: text })
    expect(E.isRight(found) ? found.right : found.left.kind).toBe(read)
    expect(playableText(message('assistant', reply))).toBe(reply)
  })

  it('reads long replies in linear time', () => {
    for (const piece of ['[', ']', '[]', ' ', '[Bet', 'a'])
      expect(E.isLeft(parseAction(kuhnPoker(), dealt, { player: 0, reply: piece.repeat(200_000) }))).toBe(true)
  })
})
