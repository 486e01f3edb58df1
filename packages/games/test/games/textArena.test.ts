/** Replies in the format of TextArena. */
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { connectFour } from '../../src/games/connectFour.js'
import { type Game, replayGame } from '../../src/games/game.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { leducPoker } from '../../src/games/leducPoker.js'
import { liarsDice } from '../../src/games/liarsDice.js'
import { prisonersDilemma, rockPaperScissors } from '../../src/games/matrixGames.js'
import { nim } from '../../src/games/nim.js'
import { pig } from '../../src/games/pig.js'
import { textArenaRead } from '../../src/games/textArena.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const read = <P>(game: Game<P>, history: readonly number[], reply: string) => {
  const state = replayGame(game, history)
  const turn = game.turn(state)
  return textArenaRead(game, state, { player: turn === 'simultaneous' ? 0 : Number(turn), reply })
}

describe('textArenaRead', () => {
  it.each<readonly [reply: string, game: Game<never>, history: readonly number[], action: number]>([
    ['The center. [4]', ticTacToe as never, [], 4],
    ['[col 3]', connectFour() as never, [], 3],
    ['[3]', connectFour() as never, [], 3],
    ['[Check]', kuhnPoker() as never, [2, 0], 0],
    ['[bet]', kuhnPoker() as never, [2, 0], 1],
    ['[Call]', kuhnPoker() as never, [2, 0, 1], 1],
    ['[Fold]', kuhnPoker() as never, [2, 0, 1], 0],
    ['[Bid: 2, 5]', liarsDice() as never, [1, 4], 10],
    ['[Call]', liarsDice() as never, [1, 4, 8], 12],
    ['[Defect]', prisonersDilemma as never, [], 1],
    ['[p]', rockPaperScissors as never, [], 1],
    ['[1 3]', nim() as never, [], 9],
    ['[hold]', pig() as never, [], 1],
    ['[Raise]', leducPoker() as never, [0, 1], 2],
  ])('%s', (reply, game, history, action) => {
    expect(read(game, history, reply)).toEqual(E.right(action))
  })

  it.each<readonly [reply: string, history: readonly number[], kind: string]>([
    ['[Fold]', [2, 0], 'illegal'],
    ['[Check]', [2, 0, 1], 'illegal'],
    ['I check.', [2, 0], 'unreadable'],
  ])('refuses %s', (reply, history, kind) => {
    expect(read(kuhnPoker(), history, reply)).toMatchObject(E.left({ kind }))
  })
})
