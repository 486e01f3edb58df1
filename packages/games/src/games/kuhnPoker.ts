/** Kuhn poker: one card each, one bet. */
import { checkOptions } from '@tandem-rl/base'
import { KUHN_POKER_OPTIONS } from '../optionKinds.js'
import { defineGame, equalOutcomes, type Game, type GameTurn } from './game.js'

export interface KuhnPokerOptions {
  /** From 2 to 10. Default 2. */
  readonly players?: number
}

/** The cards dealt so far, by player, and the actions after the deal. */
export interface KuhnPokerPosition {
  readonly cards: readonly number[]
  /** 0 for a pass, 1 for a bet. */
  readonly bets: readonly number[]
}

const BET = 1

/** Returns the chips that each player has paid: the ante, and the bet. */
const paidBy = ({ bets }: KuhnPokerPosition, players: number): readonly number[] =>
  Array.from({ length: players }, (_, player) => 1 + bets.filter((bet, at) => at % players === player && bet).length)

const isOver = ({ bets }: KuhnPokerPosition, players: number): boolean => {
  const first = bets.indexOf(BET)
  return bets.length === (first === -1 ? players : players + first)
}

const returnsOf = (position: KuhnPokerPosition, players: number): readonly number[] => {
  const paid = paidBy(position, players)
  const most = Math.max(...paid)
  const best = Math.max(...position.cards.filter((_, player) => paid[player] === most))
  const pot = paid.reduce((sum, each) => sum + each, 0)
  return position.cards.map((card, player) => (card === best ? pot : 0) - paid[player]!)
}

const letters = (bets: readonly number[]): string => bets.map((bet) => (bet === BET ? 'b' : 'p')).join('')

/**
 * Kuhn poker for 2 to 10 players. Each pays 1 and gets one of `players + 1` cards, 0 the lowest.
 * Action 0 passes and 1 bets 1. After a bet, everyone else calls with a bet or folds with a pass.
 * The highest card among those who paid the most wins the pot.
 *
 * Errors   throws RangeError unless `players` is a whole number from 2 to 10.
 * Source   Kuhn 1950, "A simplified two-person poker"; OpenSpiel's `kuhn_poker`: action numbers and
 *          texts are the same.
 *
 * @example
 * kuhnPoker().returns(replayGame(kuhnPoker(), [1, 2, 0, 1, 1])) // [-2, 2]
 */
export const kuhnPoker = (options: KuhnPokerOptions = {}): Game<KuhnPokerPosition> => {
  checkOptions('kuhnPoker', options, KUHN_POKER_OPTIONS)
  const { players = 2 } = options
  if (!Number.isInteger(players) || players < 2 || players > 10)
    throw new RangeError(`kuhnPoker: players must be a whole number from 2 to 10, got ${players}`)
  const turn = (position: KuhnPokerPosition): GameTurn =>
    position.cards.length < players ? 'chance' : isOver(position, players) ? 'over' : position.bets.length % players
  return defineGame<KuhnPokerPosition>({
    name: 'kuhn_poker',
    players,
    utility: 'zeroSum',
    rules:
      `${players} players pay 1 chip each and get one of ${players + 1} cards, numbered from 0. Nobody sees the cards ` +
      'of others. In turn, each may Pass or Bet 1 chip. After a bet, each other player may call it with Bet, or fold ' +
      'with Pass. Then the highest card of those who bet, or of all if nobody did, wins all chips.',
    initial: { cards: [], bets: [] },
    turn,
    legalActions: () => [0, BET],
    next: (position, action) =>
      position.cards.length < players
        ? { ...position, cards: [...position.cards, action] }
        : { ...position, bets: [...position.bets, action] },
    chance: ({ cards }) =>
      equalOutcomes(Array.from({ length: players + 1 }, (_, card) => card).filter((card) => !cards.includes(card))),
    returns: (position) => returnsOf(position, players),
    text: ({ cards, bets }) => `${cards.join(' ')}${bets.length > 0 ? ` ${letters(bets)}` : ''}`,
    actionText: (_position, actor, action) => (actor === 'chance' ? `Deal:${action}` : action === BET ? 'Bet' : 'Pass'),
    views: {
      observation: (position, player) => {
        const card = position.cards[player]
        return card === undefined ? '' : `${card}${paidBy(position, players).join('')}`
      },
      informationState: ({ cards, bets }, player) => `${cards[player] ?? ''}${letters(bets)}`,
    },
  })
}
