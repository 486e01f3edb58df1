/** Liar's dice: bids about dice of which each player sees its own. */
import { checkOptions } from '@tandem-rl/base'
import { LIARS_DICE_OPTIONS } from '../optionKinds.js'
import { requireWhole } from './boards.js'
import { defineGame, equalOutcomes, type Game, type GameTurn } from './game.js'

export interface LiarsDiceOptions {
  /** At least 2. Default 2. */
  readonly players?: number
  /** The dice of each player. Default 1. */
  readonly dice?: number
  /** The faces of a die. The highest is wild. Default 6. */
  readonly sides?: number
}

/** The faces rolled so far, player after player, and the bids. */
export interface LiarsDicePosition {
  /** From 1. */
  readonly rolls: readonly number[]
  /** Action numbers. The last possible one calls `Liar`. */
  readonly bids: readonly number[]
}

/** The complete options. */
interface Table {
  readonly players: number
  readonly dice: number
  readonly sides: number
}

const liarOf = ({ players, dice, sides }: Table): number => players * dice * sides

const bidText = (bid: number, table: Table): string =>
  bid === liarOf(table) ? 'Liar' : `${Math.floor(bid / table.sides) + 1}-${(bid % table.sides) + 1}`

/** The dice of a player: sorted once all are rolled, and -1 for those to come. */
const diceOf = ({ rolls }: LiarsDicePosition, player: number, { players, dice }: Table): string => {
  const own = rolls.slice(player * dice, (player + 1) * dice)
  const shown = rolls.length === players * dice ? [...own].sort((a, b) => a - b) : own
  return Array.from({ length: dice }, (_, i) => shown[i] ?? -1).join('')
}

const bidsText = ({ bids }: LiarsDicePosition, table: Table): string =>
  bids.map((bid) => ` ${bidText(bid, table)}`).join('')

const returnsOf = ({ rolls, bids }: LiarsDicePosition, table: Table): readonly number[] => {
  const bid = bids.at(-2)!
  const [quantity, face] = [Math.floor(bid / table.sides) + 1, (bid % table.sides) + 1]
  const matches = rolls.filter((roll) => roll === face || roll === table.sides).length
  const [caller, bidder] = [(bids.length - 1) % table.players, (bids.length - 2) % table.players]
  const [winner, loser] = matches >= quantity ? [bidder, caller] : [caller, bidder]
  return Array.from({ length: table.players }, (_, player) => (player === winner ? 1 : player === loser ? -1 : 0))
}

const turnOf = ({ rolls, bids }: LiarsDicePosition, table: Table): GameTurn => {
  if (rolls.length < table.players * table.dice) return 'chance'
  return bids.at(-1) === liarOf(table) ? 'over' : bids.length % table.players
}

const textOf = (position: LiarsDicePosition, table: Table): string => {
  const dice = Array.from({ length: table.players }, (_, player) => diceOf(position, player, table)).join(' ')
  const roller = Math.floor(position.rolls.length / table.dice)
  return turnOf(position, table) === 'chance'
    ? `${dice} - chance node, current roller is player ${roller}`
    : `${dice}${bidsText(position, table)}`
}

/**
 * Liar's dice. Each player rolls in secret and bids a number of dice with a face: `2-3` means two
 * threes. The highest face is wild. A bid must be higher than the last one, and `Liar` doubts it.
 * If the bid holds, the bidder wins 1 from the doubter; if not, the doubter from the bidder.
 *
 * Errors   throws RangeError unless the options are whole numbers of at least 1, and 2 for players.
 * Source   OpenSpiel's `liars_dice`: action numbers and texts are the same.
 *
 * @example
 * liarsDice().returns(replayGame(liarsDice(), [1, 4, 1, 4, 8, 12])) // [-1, 1]
 */
export const liarsDice = (options: LiarsDiceOptions = {}): Game<LiarsDicePosition> => {
  checkOptions('liarsDice', options, LIARS_DICE_OPTIONS)
  const { players = 2, dice = 1, sides = 6 } = options
  requireWhole('liarsDice', { players, dice, sides })
  if (players < 2) throw new RangeError(`liarsDice: players must be at least 2, got ${players}`)
  const table = { players, dice, sides }
  const outcomes = equalOutcomes(Array.from({ length: sides }, (_, face) => face))
  const view = (position: LiarsDicePosition, player: number): string =>
    `${diceOf(position, player, table)}${bidsText(position, table)}`
  return defineGame<LiarsDicePosition>({
    name: 'liars_dice',
    players,
    utility: 'zeroSum',
    rules:
      `${players} players roll ${dice} dice each, with faces 1 to ${sides}, and see only their own. In turn, each bids ` +
      'how many dice of all players show a face, as in 2-3 for two dice with a 3. ' +
      `A die with a ${sides} is wild: it counts as the face of each bid. A bid must have more dice than the last one, or as many and a higher ` +
      'face. Instead, a player may call Liar. If the last bid is true, its bidder wins and the caller loses; if not, ' +
      'the caller wins and the bidder loses.',
    initial: { rolls: [], bids: [] },
    turn: (position) => turnOf(position, table),
    legalActions: ({ bids }) => {
      const from = bids.length === 0 ? 0 : bids.at(-1)! + 1
      const to = bids.length === 0 ? liarOf(table) - 1 : liarOf(table)
      return Array.from({ length: to - from + 1 }, (_, i) => from + i)
    },
    next: (position, action) =>
      turnOf(position, table) === 'chance'
        ? { ...position, rolls: [...position.rolls, action + 1] }
        : { ...position, bids: [...position.bids, action] },
    chance: () => outcomes,
    returns: (position) => returnsOf(position, table),
    text: (position) => textOf(position, table),
    actionText: (_position, actor, action) => (actor === 'chance' ? `Roll ${action + 1}` : bidText(action, table)),
    views: { observation: view, informationState: view },
  })
}
