/** The rules of our games against OpenSpiel's playthrough files, replayed to the last line. */
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { breakthrough } from '../../../src/envs/games/breakthrough.js'
import { connectFour } from '../../../src/envs/games/connectFour.js'
import type { Game } from '../../../src/envs/games/game.js'
import { hex } from '../../../src/envs/games/hex.js'
import { kuhnPoker } from '../../../src/envs/games/kuhnPoker.js'
import { leducPoker } from '../../../src/envs/games/leducPoker.js'
import { liarsDice } from '../../../src/envs/games/liarsDice.js'
import {
  matchingPennies,
  matchingPennies3,
  prisonersDilemma,
  rockPaperScissors,
  stagHunt,
} from '../../../src/envs/games/matrixGames.js'
import { nim } from '../../../src/envs/games/nim.js'
import { pig } from '../../../src/envs/games/pig.js'
import { ticTacToe } from '../../../src/envs/games/ticTacToe.js'
import { type PlaythroughOptions, type PlaythroughResult, playthroughProblems } from '../../kit/playthrough.js'

const replayed =
  <P>(game: Game<P>, options: PlaythroughOptions = {}) =>
  (file: string): PlaythroughResult =>
    playthroughProblems(file, game, options)

/** The replay of each file, and how many moves it has. */
const FILES: Readonly<Record<string, readonly [replay: (file: string) => PlaythroughResult, moves: number]>> = {
  'breakthrough.txt': [replayed(breakthrough()), 38],
  'connect_four.txt': [replayed(connectFour()), 17],
  'connect_four_start_at.txt': [replayed(connectFour(), { start: [4, 3, 3, 2, 0, 4, 4, 4, 4, 0] }), 13],
  'hex(board_size=5).txt': [replayed(hex({ rows: 5, columns: 5 })), 21],
  'kuhn_poker_2p.txt': [replayed(kuhnPoker()), 4],
  'kuhn_poker_3p.txt': [replayed(kuhnPoker({ players: 3 })), 8],
  'leduc_poker_1540482260.txt': [replayed(leducPoker()), 4],
  'leduc_poker_3977671846.txt': [replayed(leducPoker()), 8],
  'leduc_poker_3p.txt': [replayed(leducPoker({ players: 3 })), 10],
  'leduc_poker_773740114.txt': [replayed(leducPoker()), 4],
  'liars_dice.txt': [replayed(liarsDice()), 6],
  'matching_pennies_3p.txt': [replayed(matchingPennies3), 1],
  'matrix_mp.txt': [replayed(matchingPennies), 1],
  'matrix_pd.txt': [replayed(prisonersDilemma), 1],
  'matrix_rps.txt': [replayed(rockPaperScissors), 1],
  'matrix_sh.txt': [replayed(stagHunt), 1],
  'nim.txt': [replayed(nim()), 6],
  'pig_3p.txt': [replayed(pig({ players: 3, horizon: 10, winScore: 10 })), 13],
  'pig_4p.txt': [replayed(pig({ players: 4, horizon: 10, winScore: 8 })), 16],
  'pig_5p.txt': [replayed(pig({ players: 5, horizon: 100, winScore: 16 })), 39],
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
