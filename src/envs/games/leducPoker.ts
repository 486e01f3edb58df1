/** Leduc poker: one private and one public card, two rounds of bets. */
import { aNumber, checkOptions } from '../../core/options.js'
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
  readonly stakes: number
  readonly raises: number
  readonly isOver: boolean
}

const nextIn = (folded: readonly boolean[], after: number): number => {
  let player = (after + 1) % folded.length
  while (folded[player]) player = (player + 1) % folded.length
  return player
}

/** The state at the start of a round of bets. */
type Opening = Pick<Betting, 'paid' | 'folded' | 'stakes'>

/** Returns the betting after the actions of one round. */
const playRound = (actions: readonly number[], raise: number, opening: Opening) => {
  const [paid, folded] = [[...opening.paid], [...opening.folded]]
  let remaining = 0
  for (const isOut of folded) if (!isOut) remaining++
  let [player, stakes, raises, calls, isClosed] = [nextIn(folded, -1), opening.stakes, 0, 0, false]
  for (const action of actions) {
    if (action === FOLD) {
      folded[player] = true
      remaining--
    } else {
      if (action === CALL) calls++
      else {
        stakes += raise
        raises++
        calls = 0
      }
      paid[player] = stakes
    }
    isClosed = remaining === 1 || calls === (raises === 0 ? remaining : remaining - 1)
    if (!isClosed) player = nextIn(folded, player)
  }
  return { player, paid, folded, stakes, raises, isClosed, isWon: remaining === 1 }
}

const computeBetting = ({ cards, publicCard, rounds }: LeducPokerPosition, players: number): Betting => {
  const opening = {
    paid: new Array<number>(players).fill(1),
    folded: new Array<boolean>(players).fill(false),
    stakes: 1,
  }
  const first = playRound(rounds[0], RAISES[0], opening)
  if (cards.length < players) return { ...first, round: 1, player: null, isOver: false }
  if (!first.isClosed || first.isWon) return { ...first, round: 1, isOver: first.isWon }
  const second = playRound(rounds[1], RAISES[1], first)
  return { ...second, round: 2, player: publicCard === null ? null : second.player, isOver: second.isClosed }
}

/** The betting of each position, by the number of players. */
const bettings = Array.from({ length: 11 }, (_, players) =>
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
  const { cards, rounds } = position
  if (cards.length < players) return { ...position, cards: [...cards, action] }
  const { round, player } = bettingOf(position, players)
  if (player === null) return { ...position, publicCard: action }
  return {
    ...position,
    rounds: round === 1 ? [[...rounds[0], action], rounds[1]] : [rounds[0], [...rounds[1], action]],
  }
}

const turnOf = (position: LeducPokerPosition, players: number): GameTurn => {
  const { isOver, player } = bettingOf(position, players)
  return isOver ? 'over' : (player ?? 'chance')
}

const legalOf = ({ stakes, paid, raises }: Betting, player: number): readonly number[] => [
  ...(stakes > paid[player]! ? [FOLD] : []),
  CALL,
  ...(raises < MOST_RAISES ? [RAISE] : []),
]

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
  checkOptions('leducPoker', options, { players: aNumber })
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
