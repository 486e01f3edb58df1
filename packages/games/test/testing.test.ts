/** Every game of `@tandem-rl/games/rules` keeps the laws, and games with one mistake break them. */
import { checkLaws, type Law } from '@tandem-rl/testing'
import { Chess } from 'chess.js'
import { describe, expect, it } from 'vitest'
import { breakthrough } from '../src/games/breakthrough.js'
import { chess } from '../src/games/chess.js'
import { connectFour } from '../src/games/connectFour.js'
import { defineGame, type Game, type GameRules } from '../src/games/game.js'
import { hex } from '../src/games/hex.js'
import { kuhnPoker } from '../src/games/kuhnPoker.js'
import { leducPoker } from '../src/games/leducPoker.js'
import { liarsDice } from '../src/games/liarsDice.js'
import {
  battleOfTheSexes,
  matchingPennies,
  matchingPennies3,
  prisonersDilemma,
  rockPaperScissors,
  stagHunt,
} from '../src/games/matrixGames.js'
import { misere } from '../src/games/misere.js'
import { negotiation } from '../src/games/negotiation.js'
import { nim } from '../src/games/nim.js'
import { phantomTicTacToe } from '../src/games/phantomTicTacToe.js'
import { pig } from '../src/games/pig.js'
import { repeatedGame } from '../src/games/repeatedGame.js'
import { twentyQuestions, wordGuess } from '../src/games/secretGames.js'
import { ticTacToe } from '../src/games/ticTacToe.js'
import { gameLaws } from '../src/testing.js'

/** The laws of a game, under a name. */
const lawsOf = <P>(name: string, game: Game<P>): readonly [string, readonly Law[]] => [name, gameLaws(game)]

describe.each([
  lawsOf('breakthrough of 5 rows and 4 columns', breakthrough({ rows: 5, columns: 4 })),
  lawsOf('breakthrough', breakthrough({ rows: 6, columns: 5 })),
  lawsOf('Connect Four', connectFour()),
  lawsOf('Hex', hex({ rows: 4, columns: 5 })),
  lawsOf('Hex with a swap', hex({ rows: 3, columns: 3, pie: 'swap' })),
  lawsOf('Kuhn poker', kuhnPoker()),
  lawsOf('Kuhn poker of 5', kuhnPoker({ players: 5 })),
  lawsOf('Leduc poker', leducPoker()),
  lawsOf('Leduc poker of 4', leducPoker({ players: 4 })),
  lawsOf("liar's dice", liarsDice()),
  lawsOf("liar's dice of 3 with 2 dice each", liarsDice({ players: 3, dice: 2, sides: 4 })),
  lawsOf('matching pennies', matchingPennies),
  lawsOf('matching pennies of 3', matchingPennies3),
  lawsOf("prisoner's dilemma", prisonersDilemma),
  lawsOf('rock-paper-scissors', rockPaperScissors),
  lawsOf('stag hunt', stagHunt),
  lawsOf('stag hunt, three times', repeatedGame({ game: stagHunt, rounds: 3 })),
  lawsOf('pennies of 3 until chance stops', repeatedGame({ game: matchingPennies3, rounds: 9, stop: 0.25 })),
  lawsOf('Nim', nim()),
  lawsOf('Nim with two piles', nim({ piles: [2, 4], last: 'wins' })),
  lawsOf('pig', pig({ winScore: 20 })),
  lawsOf('pig of 3', pig({ players: 3, winScore: 15, horizon: 60 })),
  lawsOf('tic-tac-toe', ticTacToe),
  lawsOf('misere tic-tac-toe', misere(ticTacToe)),
  lawsOf('phantom tic-tac-toe', phantomTicTacToe),
  lawsOf('battle of the sexes', battleOfTheSexes),
  lawsOf('negotiation', negotiation()),
  lawsOf('negotiation without utterances', negotiation({ talk: 'none', items: 2 })),
  lawsOf('guessing a word', wordGuess()),
  lawsOf('twenty questions', twentyQuestions()),
  [
    'chess near a draw',
    gameLaws(chess({ library: { Chess }, start: '8/8/8/4k3/8/8/8/R3K3 w Q - 97 80' }), { numRuns: 2 }),
  ] as const,
])('%s', (_name, laws) => checkLaws(it, laws))

/**
 * Two players say 0 or 1 in turn, after a coin that only player 0 sees. Player 0 wins with equal
 * bits.
 */
const RULES: GameRules<readonly number[]> = {
  name: 'bits',
  players: 2,
  utility: 'zeroSum',
  rules: 'Say Zero or One.',
  initial: [],
  turn: (bits) => (bits.length === 0 ? 'chance' : bits.length === 3 ? 'over' : bits.length - 1),
  legalActions: () => [0, 1],
  next: (bits, action) => [...bits, action],
  chance: () => [0, 1].map((action) => ({ action, probability: 0.5 })),
  returns: ([, first, second]) => (first === second ? [1, -1] : [-1, 1]),
  text: (bits) => bits.join(''),
  actionText: (_bits, _actor, action) => (action === 0 ? 'Zero' : 'One'),
  views: {
    observation: (bits, player) => (player === 0 ? bits : bits.slice(1)).join(''),
    informationState: (bits, player) => (player === 0 ? bits : bits.slice(1)).join(''),
  },
}

const broken = (change: Partial<GameRules<readonly number[]>>): Game<readonly number[]> =>
  defineGame({ ...RULES, ...change })

const good = defineGame(RULES)

/** The problem that a law finds: fast-check puts it into the cause of its error. */
const problemOf = (law: Law): string => {
  try {
    law.check()
    return 'none'
  } catch (error) {
    return error instanceof Error ? String(error.cause ?? error) : String(error)
  }
}

describe('a game', () => {
  checkLaws(it, gameLaws(good))

  it.each<readonly [law: string, mistake: string, problem: RegExp, game: Game<readonly number[]>]>([
    ['turns', 'a player has no action', /has no legal action/, broken({ legalActions: () => [] })],
    ['turns', 'actions in descending order', /not ascending/, broken({ legalActions: () => [1, 0] })],
    [
      'moves',
      'illegal moves are applied',
      /does not throw RangeError/,
      { ...good, apply: (state) => ({ ...state, position: [...state.position, 0] }) },
    ],
    [
      'moves',
      'a legal move throws',
      /one is too much/,
      broken({
        next: (bits, action) => {
          if (action === 1 && bits.length > 0) throw new Error('one is too much')
          return [...bits, 0]
        },
      }),
    ],
    [
      'ends',
      'no end',
      /not over after 100 moves/,
      broken({ turn: (bits) => (bits.length === 0 ? 'chance' : bits.length % 2) }),
    ],
    ['ends', 'returns of one player only', /not 2 finite numbers/, broken({ returns: () => [0] })],
    ['ends', 'returns before the end', /before the game is over/, { ...good, returns: () => [0, 0] }],
    ['sum', 'both win', /add up to 2/, broken({ returns: () => [1, 1] })],
    [
      'chance',
      'probabilities of more than 1',
      /add up to 1\.2/,
      broken({ chance: () => [0, 1].map((action) => ({ action, probability: 0.6 })) }),
    ],
    [
      'replay',
      'a history without the moves of chance',
      /gives another state/,
      { ...good, apply: (state, move) => ({ ...good.apply(state, move), history: [] }) },
    ],
    [
      'storage',
      'a position with undefined',
      /not made of JSON/,
      broken({
        initial: [undefined as never] /* wrong on purpose */,
        turn: (bits) => (bits.length === 4 ? 'over' : 0),
      }),
    ],
    [
      'storage',
      'a position that is changed',
      /object is not extensible/,
      broken({
        next: (bits, action) => {
          ;(bits as number[]).push(action) /* wrong on purpose */
          return [...bits]
        },
      }),
    ],
    ['texts', 'two actions with one text', /is not read as action 1/, broken({ actionText: () => 'Bit' })],
    [
      'views',
      'an observation with the hidden coin',
      /differ/,
      broken({ views: { observation: (bits) => bits.join(''), informationState: (bits) => bits.slice(1).join('') } }),
    ],
    [
      'recall',
      'a player forgets',
      /differ/,
      broken({
        turn: (bits) => (bits.length === 4 ? 'over' : 0),
        initial: [],
        views: { observation: () => '', informationState: (bits) => String(bits.length) },
      }),
    ],
  ])('breaks the law of %s: %s', (name, _mistake, problem, game) => {
    const law = gameLaws(game, { longest: 100 }).find((each) => each.name.startsWith(`${name}:`))!
    expect(problemOf(law)).toMatch(problem)
  })
})
