/** The rules of our games against OpenSpiel's playthrough files, replayed to the last line. */
import { readdirSync } from 'node:fs'
import { Chess } from 'chess.js'
import { describe, expect, it } from 'vitest'
import {
  type PlaythroughOptions,
  type PlaythroughResult,
  playthroughProblems,
} from '../../../../test/kit/playthrough.js'
import { breakthrough } from '../../src/games/breakthrough.js'
import { chess } from '../../src/games/chess.js'
import { connectFour } from '../../src/games/connectFour.js'
import type { Game } from '../../src/games/game.js'
import { hex } from '../../src/games/hex.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { leducPoker } from '../../src/games/leducPoker.js'
import { liarsDice } from '../../src/games/liarsDice.js'
import {
  battleOfTheSexes,
  biasedRockPaperScissors,
  chicken,
  coordination,
  type MatrixPosition,
  matchingPennies,
  matchingPennies3,
  prisonersDilemma,
  rockPaperScissors,
  rockPaperScissorsWater,
  shapleysGame,
  stagHunt,
} from '../../src/games/matrixGames.js'
import { misere } from '../../src/games/misere.js'
import { negotiation } from '../../src/games/negotiation.js'
import { nim } from '../../src/games/nim.js'
import { phantomTicTacToe } from '../../src/games/phantomTicTacToe.js'
import { pig } from '../../src/games/pig.js'
import { type RepeatedGameOptions, repeatedGame } from '../../src/games/repeatedGame.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const replayed =
  <P>(game: Game<P>, options: PlaythroughOptions<P> = {}) =>
  (file: string): PlaythroughResult =>
    playthroughProblems(file, game, options)

/** Repeated games pay each round. At the end, the sum must be what the game returns. */
const rounds = (stage: Game<MatrixPosition>, options: Omit<RepeatedGameOptions, 'game'>) =>
  replayed(repeatedGame({ game: stage, ...options }), {
    scores: ({ position: { played } }) => {
      const paid = played.map((joint) => stage.returns(stage.apply(stage.initial, joint)))
      const returns = [0, 1].map((player) => paid.reduce((sum, each) => sum + each[player]!, 0))
      return { rewards: paid.at(-1) ?? [0, 0], returns }
    },
  })

/** The deal that OpenSpiel draws with `rng_seed=100`. */
const DEAL = {
  maxSteps: 4,
  pool: [0, 1, 4],
  values: [
    [2, 9, 4],
    [1, 9, 6],
  ],
} as const

/** The replay of each file, and how many moves it has. */
const FILES: Readonly<Record<string, readonly [replay: (file: string) => PlaythroughResult, moves: number]>> = {
  'breakthrough.txt': [replayed(breakthrough()), 38],
  'chess.txt': [replayed(chess({ library: { Chess } })), 359],
  'connect_four.txt': [replayed(connectFour()), 17],
  'connect_four_start_at.txt': [replayed(connectFour(), { start: [4, 3, 3, 2, 0, 4, 4, 4, 4, 0] }), 13],
  'hex(board_size=5).txt': [replayed(hex({ rows: 5, columns: 5 })), 21],
  'hex(board_size=4,swap=True).txt': [replayed(hex({ rows: 4, columns: 4, pie: 'swap' })), 17],
  'kuhn_poker_2p.txt': [replayed(kuhnPoker()), 4],
  'kuhn_poker_3p.txt': [replayed(kuhnPoker({ players: 3 })), 8],
  'leduc_poker_1540482260.txt': [replayed(leducPoker()), 4],
  'leduc_poker_3977671846.txt': [replayed(leducPoker()), 8],
  'leduc_poker_3p.txt': [replayed(leducPoker({ players: 3 })), 10],
  'leduc_poker_773740114.txt': [replayed(leducPoker()), 4],
  'liars_dice.txt': [replayed(liarsDice()), 6],
  'matching_pennies_3p.txt': [replayed(matchingPennies3), 1],
  'matrix_bos.txt': [replayed(battleOfTheSexes), 1],
  'matrix_brps.txt': [replayed(biasedRockPaperScissors), 1],
  'matrix_cd.txt': [replayed(chicken), 1],
  'matrix_coordination.txt': [replayed(coordination), 1],
  'matrix_mp.txt': [replayed(matchingPennies), 1],
  'matrix_pd.txt': [replayed(prisonersDilemma), 1],
  'matrix_rps.txt': [replayed(rockPaperScissors), 1],
  'matrix_rpsw.txt': [replayed(rockPaperScissorsWater), 1],
  'matrix_sh.txt': [replayed(stagHunt), 1],
  'matrix_shapleys_game.txt': [replayed(shapleysGame), 1],
  'misere(game=kuhn_poker()).txt': [replayed(misere(kuhnPoker())), 5],
  'misere(game=pig(players=3,horizon=20,winscore=6)).txt': [
    replayed(misere(pig({ players: 3, horizon: 20, winScore: 5 }))),
    13,
  ],
  'misere(game=tic_tac_toe()).txt': [replayed(misere(ticTacToe)), 8],
  'negotiation(rng_seed=100,utterance_dim=2,num_symbols=3).txt': [
    replayed(negotiation({ symbols: 3, utteranceLength: 2, deals: [DEAL] })),
    9,
  ],
  'nim.txt': [replayed(nim()), 6],
  'phantom_ttt.txt': [replayed(phantomTicTacToe), 11],
  'pig_3p.txt': [replayed(pig({ players: 3, horizon: 10, winScore: 10 })), 13],
  'pig_4p.txt': [replayed(pig({ players: 4, horizon: 10, winScore: 8 })), 16],
  'pig_5p.txt': [replayed(pig({ players: 5, horizon: 100, winScore: 16 })), 39],
  'repeated_game(stage_game=matrix_pd(),num_repetitions=8,recall=2).txt': [
    rounds(prisonersDilemma, { rounds: 8, recall: 2 }),
    8,
  ],
  'repeated_game(stage_game=matrix_rps(),num_repetitions=10).txt': [rounds(rockPaperScissors, { rounds: 10 }), 10],
  'tic_tac_toe.txt': [replayed(ticTacToe), 7],
}

describe("OpenSpiel's playthroughs", () => {
  it.each(Object.entries(FILES))('%s: every line is the same', (file, [replay, moves]) => {
    const result = replay(file)
    expect(result.problems.slice(0, 5)).toEqual([])
    expect(result.moves).toBe(moves)
    expect(result.compared).toBeGreaterThan(20)
  })

  it('are all replayed', () => {
    expect(Object.keys(FILES).sort()).toEqual(readdirSync('test/golden/openspiel').sort())
  })

  it('show a wrong rule', () => {
    const wrong = { ...ticTacToe, actionText: () => 'x(0,0)' }
    expect(playthroughProblems('tic_tac_toe.txt', wrong).problems.length).toBeGreaterThan(5)
  })
})
