/** Nim: take objects from one of several piles. */
import { checkOptions } from '@tandem-rl/base'
import { NIM_OPTIONS } from '../optionKinds.js'
import { winnerReturns } from './boards.js'
import { defineGame, type Game } from './game.js'

export interface NimOptions {
  /** The objects of each pile. Default 1, 3, 5, 7. */
  readonly piles?: readonly number[]
  /** The result of the player who takes the last object. Default `loses`. */
  readonly last?: 'loses' | 'wins'
}

/** The piles that are left, and who moves. */
export interface NimPosition {
  readonly piles: readonly number[]
  readonly player: number
}

const isEmpty = (piles: readonly number[]): boolean => piles.every((pile) => pile === 0)

/**
 * Nim. Action `(take - 1) * piles + pile` takes objects from a pile. By default, who takes the last
 * object loses 1 to the other.
 *
 * Errors   throws RangeError unless `piles` has at least one number, and all are whole and at least
 *          1.
 * Source   OpenSpiel's `nim`: action numbers and texts are the same.
 *
 * @example
 * nim({ piles: [2] }).returns(replayGame(nim({ piles: [2] }), [0, 0])) // [1, -1]
 */
export const nim = (options: NimOptions = {}): Game<NimPosition> => {
  checkOptions('nim', options, NIM_OPTIONS)
  const { piles: sizes = [1, 3, 5, 7], last = 'loses' } = options
  if (sizes.length === 0 || sizes.some((size) => !Number.isInteger(size) || size < 1))
    throw new RangeError(`nim: piles must be whole numbers of at least 1, got ${JSON.stringify(sizes)}`)
  const pileOf = (action: number): number => action % sizes.length
  const takeOf = (action: number): number => Math.floor(action / sizes.length) + 1
  return defineGame<NimPosition>({
    name: 'nim',
    players: 2,
    utility: 'zeroSum',
    rules:
      `Two players take objects from ${sizes.length} piles in turn, at least one of them, and all from one pile. ` +
      `The player who takes the last object ${last}. "pile:2, take:3;" takes three objects from the second pile.`,
    initial: { piles: sizes, player: 0 },
    turn: ({ piles, player }) => (isEmpty(piles) ? 'over' : player),
    legalActions: ({ piles }) => {
      const legal: number[] = []
      const most = Math.max(...piles)
      for (let take = 1; take <= most; take++)
        for (const [pile, size] of piles.entries()) if (take <= size) legal.push((take - 1) * sizes.length + pile)
      return legal
    },
    next: ({ piles, player }, action) => ({
      piles: piles.with(pileOf(action), piles[pileOf(action)]! - takeOf(action)),
      player: 1 - player,
    }),
    returns: ({ player }) => winnerReturns(last === 'loses' ? player : 1 - player),
    text: ({ piles, player }) => `(${player}): ${piles.join(' ')}`,
    actionText: (_position, _actor, action) => `pile:${pileOf(action) + 1}, take:${takeOf(action)};`,
    views: 'open',
  })
}
