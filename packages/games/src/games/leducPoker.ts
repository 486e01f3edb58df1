/** Leduc poker: one private and one public card, two rounds of bets. */
import { checkOptions } from '@tandem-rl/base'
import { LEDUC_POKER_OPTIONS } from '../optionKinds.js'
import { defineGame, equalOutcomes, type Game, type GameTurn, remembered } from './game.js'

export interface LeducPokerOptions {
  /** From 2 to 10. Default 2. */
  readonly players?: number
}

/** The cards dealt so far, and the actions of both rounds. */
export interface LeducPokerPosition {
  /** By player. */
  readonly cards: readonly number[]
  readonly publicCard: number | null
  /** 0 folds, 1 calls or checks, 2 raises. */
  readonly rounds: readonly [first: readonly number[], second: readonly number[]]
}

const [FOLD, CALL, RAISE] = [0, 1, 2] as const
const ACTIONS = ['Fold', 'Call', 'Raise'] as const
const RAISES = [2, 4] as const
const MOST_RAISES = 2
const STARTING_MONEY = 100
/** Printed for a card that has not been dealt. */
const NO_CARD = -10000

/** The state of the betting after all actions. */
interface Betting {
  readonly round: 1 | 2
  /** The player who moves, or moved last if the game is over. `null` during a deal. */
  readonly player: number | null
  readonly paid: readonly number[]
  readonly folded: readonly boolean[]
  /** The players who have not folded. */
  readonly remaining: number
  readonly stakes: number
  /** Raises of this round, and calls since the last of them. */
  readonly raises: number
  readonly calls: number
  readonly isOver: boolean
}

const nextIn = (folded: readonly boolean[], after: number): number => {
  let player = (after + 1) % folded.length
  while (folded[player]) player = (player + 1) % folded.length
  return player
}

/** The betting before the cards are dealt, by the number of players. */
const DEALS = Array.from(
  { length: 11 },
  (_, players): Betting => ({
    round: 1,
    player: null,
    paid: new Array<number>(players).fill(1),
    folded: new Array<boolean>(players).fill(false),
    remaining: players,
    stakes: 1,
    raises: 0,
    calls: 0,
    isOver: false,
  }),
)

/** Returns the betting after a deal: the first player who has not folded moves. */
const afterDeal = (betting: Betting): Betting => ({ ...betting, player: nextIn(betting.folded, -1) })

/** Returns the betting after an action of the player who moves. */
const afterAction = (betting: Betting, player: number, action: number): Betting => {
  const { round, folded } = betting
  const stakes = betting.stakes + (action === RAISE ? RAISES[round - 1]! : 0)
  const remaining = betting.remaining - (action === FOLD ? 1 : 0)
  const raises = betting.raises + (action === RAISE ? 1 : 0)
  const calls = action === RAISE ? 0 : betting.calls + (action === CALL ? 1 : 0)
  const paid = action === FOLD ? betting.paid : betting.paid.with(player, stakes)
  const out = action === FOLD ? folded.with(player, true) : folded
  const isWon = remaining === 1
  if (!isWon && calls < (raises === 0 ? remaining : remaining - 1))
    return { round, player: nextIn(out, player), paid, folded: out, remaining, stakes, raises, calls, isOver: false }
  if (isWon || round === 2) return { round, player, paid, folded: out, remaining, stakes, raises, calls, isOver: true }
  return { round: 2, player: null, paid, folded: out, remaining, stakes, raises: 0, calls: 0, isOver: false }
}

const computeBetting = ({ cards, publicCard, rounds }: LeducPokerPosition, players: number): Betting => {
  let betting = DEALS[players]!
  if (cards.length === players) betting = afterDeal(betting)
  for (const action of rounds[0]) betting = afterAction(betting, betting.player!, action)
  if (publicCard !== null) betting = afterDeal(betting)
  for (const action of rounds[1]) betting = afterAction(betting, betting.player!, action)
  return betting
}

/** The betting of each position, by the number of players. */
const bettings = DEALS.map((_, players) =>
  remembered((position: LeducPokerPosition) => computeBetting(position, players)),
)

const bettingOf = (position: LeducPokerPosition, players: number): Betting => bettings[players]!(position)

/**
 * The strength of a hand: a pair of equal ranks before all others, then the higher and the lower
 * rank.
 */
const strength = (card: number, publicCard: number, players: number): number => {
  const ranks = [card, publicCard].map((each) => Math.floor(each / 2)).sort((a, b) => b - a)
  const deck = 2 * (players + 1)
  return ranks[0] === ranks[1] ? deck * deck + ranks[0]! : ranks[0]! * deck + ranks[1]!
}

const returnsOf = ({ cards, publicCard }: LeducPokerPosition, { paid, folded }: Betting): readonly number[] => {
  const pot = paid.reduce((sum, each) => sum + each, 0)
  const hands = cards.map((card, player) => {
    if (folded[player]) return -1
    return publicCard === null ? 0 : strength(card, publicCard, cards.length)
  })
  const best = Math.max(...hands)
  const winners = hands.filter((hand) => hand === best).length
  return hands.map((hand, player) => (hand === best ? pot / winners : 0) - paid[player]!)
}

const moneyOf = (position: LeducPokerPosition, betting: Betting): readonly number[] =>
  betting.isOver
    ? returnsOf(position, betting).map((each) => STARTING_MONEY + each)
    : betting.paid.map((each) => STARTING_MONEY - each)

const potOf = ({ isOver, paid }: Betting): number => (isOver ? 0 : paid.reduce((sum, each) => sum + each, 0))

const namesOf = (actions: readonly number[]): string => actions.map((action) => ACTIONS[action]).join(', ')

const textOf = (position: LeducPokerPosition, players: number): string => {
  const betting = bettingOf(position, players)
  const { cards, publicCard, rounds } = position
  const more = players > 2 ? ' [...]' : ''
  const shown = Array.from({ length: players }, (_, player) => cards[player] ?? NO_CARD)
  return [
    `Round: ${betting.round}`,
    `Player: ${betting.player ?? -1}`,
    `Pot: ${potOf(betting)}`,
    `Money (player_0 player_1${more}): ${moneyOf(position, betting).join(' ')}`,
    `Cards (public player_0 player_1${more}): ${[publicCard ?? NO_CARD, ...shown].join(' ')} `,
    `Round 1 sequence: ${namesOf(rounds[0])}`,
    `Round 2 sequence: ${namesOf(rounds[1])}`,
    '',
  ].join('\n')
}

const viewOf = (position: LeducPokerPosition, player: number, players: number): string => {
  const betting = bettingOf(position, players)
  const parts = [
    `Observer: ${player}`,
    `Private: ${position.cards[player] ?? NO_CARD}`,
    `Round ${betting.round}`,
    `Player: ${betting.player ?? -1}`,
    `Pot: ${potOf(betting)}`,
    `Money: ${moneyOf(position, betting).join(' ')}`,
    ...(position.publicCard === null ? [] : [`Public: ${position.publicCard}`]),
  ]
  return parts.map((part) => `[${part}]`).join('')
}

const nextOf = (position: LeducPokerPosition, action: number, players: number): LeducPokerPosition => {
  const { publicCard } = position
  const betting = bettingOf(position, players)
  const { known } = bettings[players]!
  if (position.cards.length < players) {
    const cards = [...position.cards, action]
    const { rounds } = position
    return known({ cards, publicCard, rounds }, cards.length === players ? afterDeal(betting) : betting)
  }
  const { cards, rounds } = position
  if (betting.player === null) return known({ cards, publicCard: action, rounds }, afterDeal(betting))
  const [first, second] = rounds
  return known(
    { cards, publicCard, rounds: betting.round === 1 ? [[...first, action], second] : [first, [...second, action]] },
    afterAction(betting, betting.player, action),
  )
}

const turnOf = (position: LeducPokerPosition, players: number): GameTurn => {
  const { isOver, player } = bettingOf(position, players)
  return isOver ? 'over' : (player ?? 'chance')
}

const [FREE, FREE_LAST, CALLED, CALLED_LAST] = [[CALL, RAISE], [CALL], [FOLD, CALL, RAISE], [FOLD, CALL]] as const

const legalOf = ({ stakes, paid, raises }: Betting, player: number): readonly number[] => {
  const mayRaise = raises < MOST_RAISES
  if (stakes > paid[player]!) return mayRaise ? CALLED : CALLED_LAST
  return mayRaise ? FREE : FREE_LAST
}

/**
 * Leduc poker for 2 to 10 players. The deck has two cards of each of `players + 1` ranks. Each
 * player pays 1 and gets a card. After a round of bets, one card is dealt face up, and a second
 * round follows. Action 0 folds, 1 calls or checks, 2 raises by 2 in the first round and by 4 in
 * the second. A pair with the public card wins, then the highest card. Equal hands share the pot.
 *
 * Errors   throws RangeError unless `players` is a whole number from 2 to 10.
 * Source   Southey et al. 2005, "Bayes' bluff"; OpenSpiel's `leduc_poker`: action numbers and texts
 *          are the same.
 *
 * @example
 * leducPoker().returns(replayGame(leducPoker(), [0, 3, 2, 0])) // [1, -1]
 */
export const leducPoker = (options: LeducPokerOptions = {}): Game<LeducPokerPosition> => {
  checkOptions('leducPoker', options, LEDUC_POKER_OPTIONS)
  const { players = 2 } = options
  if (!Number.isInteger(players) || players < 2 || players > 10)
    throw new RangeError(`leducPoker: players must be a whole number from 2 to 10, got ${players}`)
  const deck = Array.from({ length: 2 * (players + 1) }, (_, card) => card)
  return defineGame<LeducPokerPosition>({
    name: 'leduc_poker',
    players,
    utility: 'zeroSum',
    rules:
      `${players} players pay 1 chip each and get one card of a deck of ${deck.length}, numbered from 0. Cards 0 and 1 ` +
      'have the lowest rank, 2 and 3 the next one, and so on. Nobody sees the cards of others. In turn, each may Call ' +
      '(or check), Raise, or Fold if there is a bet to call. A raise is 2 chips in the first round and 4 in the second, ' +
      'with at most two raises in a round. After the first round, a card is dealt that all see. In the end, a card ' +
      'with the rank of the public one wins, then the highest rank. Equal ranks share the chips.',
    initial: { cards: [], publicCard: null, rounds: [[], []] },
    turn: (position) => turnOf(position, players),
    legalActions: (position, player) => legalOf(bettingOf(position, players), player),
    next: (position, action) => nextOf(position, action, players),
    chance: ({ cards }) => equalOutcomes(deck.filter((card) => !cards.includes(card))),
    returns: (position) => returnsOf(position, bettingOf(position, players)),
    text: (position) => textOf(position, players),
    actionText: (_position, actor, action) => (actor === 'chance' ? `Chance outcome:${action}` : ACTIONS[action]!),
    views: {
      observation: (position, player) =>
        `${viewOf(position, player, players)}[Ante: ${bettingOf(position, players).paid.join(' ')}]`,
      informationState: (position, player) =>
        `${viewOf(position, player, players)}[Round1: ${position.rounds[0].join(' ')}][Round2: ${position.rounds[1].join(' ')}]`,
    },
  })
}
