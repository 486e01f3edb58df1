/** Negotiation: two players divide a pool of items that are worth something else to each. */
import { checkOptions, child, keyFromSeed, refuse, uniformInteger } from '@tandem-rl/base'
import { NEGOTIATION_OPTIONS } from '../optionKinds.js'
import { defineGame, equalOutcomes, type Game, type GameTurn } from './game.js'

/** A negotiation: the items, their values for each player, and the number of proposals. */
export interface NegotiationDeal {
  readonly maxSteps: number
  /** The number of each item, from 0 to 5. */
  readonly pool: readonly number[]
  /** The value of one of each item for each player, from 0 to 10. */
  readonly values: readonly [first: readonly number[], second: readonly number[]]
}

export interface NegotiationOptions {
  /** The number of items. Default 3. */
  readonly items?: number
  /**
   * `symbols`: each proposal comes with an utterance. `none`: proposals only. Default `symbols`.
   */
  readonly talk?: 'symbols' | 'none'
  /** The symbols of an utterance, and their number. Default 5 and 3. */
  readonly symbols?: number
  readonly utteranceLength?: number
  /** The deals that chance draws from. Default: 100 deals of random pools and values. */
  readonly deals?: readonly NegotiationDeal[]
}

/** The deal, once it is drawn, and what was said. */
export interface NegotiationPosition {
  readonly deal: NegotiationDeal | null
  /** The share that the player who proposes would get. */
  readonly proposals: readonly (readonly number[])[]
  readonly utterances: readonly (readonly number[])[]
  readonly agreed: 'yes' | 'no'
}

const [MOST_ITEMS, MOST_VALUE, DEALS] = [5, 10, 100]

/** The complete options. */
type Table = Required<NegotiationOptions>

/** The digits of a number, the first of which counts most. */
const digits = (value: number, length: number, base: number): readonly number[] =>
  Array.from({ length }, (_, i) => Math.floor(value / base ** (length - 1 - i)) % base)

const numberOf = (own: readonly number[], base: number): number => own.reduce((sum, digit) => sum * base + digit, 0)

const randomDeal = (index: number, items: number): NegotiationDeal => {
  const key = child(child(keyFromSeed(0), 'negotiation'), index)
  const valuesOf = (player: number): readonly number[] => {
    const values = Array.from({ length: items }, (_, i) =>
      uniformInteger(child(key, `values ${player}`), MOST_VALUE + 1, i),
    )
    return values.some((value) => value > 0) ? values : values.map(() => 1)
  }
  return {
    maxSteps: 4 + uniformInteger(child(key, 'steps'), 7),
    pool: Array.from({ length: items }, (_, i) => uniformInteger(child(key, 'pool'), MOST_ITEMS + 1, i)),
    values: [valuesOf(0), valuesOf(1)],
  }
}

const isUtterance = ({ proposals, utterances, agreed }: NegotiationPosition, { talk }: Table): boolean =>
  talk === 'symbols' && proposals.length + (agreed === 'yes' ? 1 : 0) > utterances.length

/** The player who speaks or spoke last: both parts of a turn are of one player. */
const speakerOf = (position: NegotiationPosition, table: Table): number => {
  const turns = position.proposals.length + (position.agreed === 'yes' ? 1 : 0)
  return (isUtterance(position, table) ? turns - 1 : turns) % 2
}

const turnOf = (position: NegotiationPosition, table: Table): GameTurn => {
  const { deal, proposals, utterances, agreed } = position
  if (deal === null) return 'chance'
  const isComplete = table.talk === 'none' || utterances.length === proposals.length + (agreed === 'yes' ? 1 : 0)
  const isOver = (agreed === 'yes' || proposals.length >= deal.maxSteps) && isComplete
  return isOver ? 'over' : speakerOf(position, table)
}

const returnsOf = ({ deal, proposals, agreed }: NegotiationPosition): readonly number[] => {
  if (agreed === 'no' || deal === null) return [0, 0]
  const proposer = (proposals.length + 1) % 2
  const share = proposals.at(-1)!
  return deal.values.map((values, player) =>
    values.reduce((sum, value, i) => sum + value * (player === proposer ? share[i]! : deal.pool[i]! - share[i]!), 0),
  )
}

/** The action of an agreement. Utterances have the numbers after it. */
const agreementOf = ({ items }: Table): number => (MOST_ITEMS + 1) ** items

const proposalsOf = (pool: readonly number[]): readonly number[] =>
  pool
    .reduce<readonly (readonly number[])[]>(
      (all, count) => all.flatMap((before) => Array.from({ length: count + 1 }, (_, n) => [...before, n])),
      [[]],
    )
    .map((share) => numberOf(share, MOST_ITEMS + 1))

const legalOf = (position: NegotiationPosition, table: Table): readonly number[] => {
  const agreement = agreementOf(table)
  if (isUtterance(position, table))
    return Array.from({ length: table.symbols ** table.utteranceLength }, (_, i) => agreement + 1 + i)
  return [...proposalsOf(position.deal!.pool), ...(position.proposals.length > 0 ? [agreement] : [])]
}

const actionText = (action: number, table: Table): string => {
  const agreement = agreementOf(table)
  if (action === agreement) return 'Proposal: Agreement reached!'
  if (action < agreement) return `Proposal: [${digits(action, table.items, MOST_ITEMS + 1).join(', ')}]`
  return `, Utterance: [${digits(action - agreement - 1, table.utteranceLength, table.symbols).join(', ')}]`
}

const heading = ({ maxSteps, pool }: NegotiationDeal): readonly string[] => [
  `Max steps: ${maxSteps}`,
  `Item pool: ${pool.join(' ')}`,
]

const valuesLine = ({ values }: NegotiationDeal, player: number): string =>
  `Agent ${player} util vec: ${values[player]!.join(' ')}`

const turnLines = (position: NegotiationPosition, player: number, table: Table): readonly string[] => [
  `Current player: ${player}`,
  `Turn Type: ${isUtterance(position, table) ? 'Utterance' : 'Proposal'}`,
]

const offerLines = ({ proposals, utterances, agreed }: NegotiationPosition): readonly string[] => [
  ...proposals.map((share, i) => {
    const reply = utterances[i]
    return `Player ${i % 2} proposes: [${share.join(', ')}]${reply === undefined ? '' : ` utters: [${reply.join(', ')}]`}`
  }),
  ...(agreed === 'yes' ? ['Agreement reached!'] : []),
]

const textOf = (position: NegotiationPosition, table: Table): string => {
  const { deal } = position
  if (deal === null) return 'Initial chance node'
  const lines = [...heading(deal), valuesLine(deal, 0), valuesLine(deal, 1)]
  return `${[...lines, ...turnLines(position, speakerOf(position, table), table), ...offerLines(position)].join('\n')}\n`
}

const NO_OBSERVATION = 'ChanceNode -- no observation'

const observationOf = (position: NegotiationPosition, player: number, table: Table): string => {
  const { deal, proposals, utterances } = position
  if (deal === null) return NO_OBSERVATION
  const turn = turnOf(position, table)
  const [proposal, utterance] = [proposals.at(-1), utterances.at(-1)]
  return `${[
    ...heading(deal),
    valuesLine(deal, player),
    ...turnLines(position, turn === 'over' ? -4 : Number(turn), table),
    ...(proposal === undefined ? [] : [`Most recent proposal: [${proposal.join(', ')}]`]),
    ...(utterance === undefined ? [] : [`Most recent utterance: [${utterance.join(', ')}]`]),
  ].join('\n')}\n`
}

const nextOf = (position: NegotiationPosition, action: number, table: Table): NegotiationPosition => {
  if (position.deal === null) return { ...position, deal: table.deals[action]! }
  const agreement = agreementOf(table)
  if (action === agreement) return { ...position, agreed: 'yes' }
  return action < agreement
    ? { ...position, proposals: [...position.proposals, digits(action, table.items, MOST_ITEMS + 1)] }
    : {
        ...position,
        utterances: [...position.utterances, digits(action - agreement - 1, table.utteranceLength, table.symbols)],
      }
}

const tableOf = (options: NegotiationOptions): Table => {
  checkOptions('negotiation', options, NEGOTIATION_OPTIONS)
  const { items = 3, talk = 'symbols', symbols = 5, utteranceLength = 3 } = options
  const counts = { items, symbols, utteranceLength }
  refuse('negotiation', [
    ...Object.entries(counts).map(
      ([name, n]) =>
        !(Number.isInteger(n) && n >= 1 && n <= 6) && `${name} must be a whole number from 1 to 6, got ${n}`,
    ),
    options.deals?.length === 0 && 'deals must not be empty',
    options.deals?.some(({ pool }) => pool.length !== items || pool.some((n) => !(n >= 0 && n <= MOST_ITEMS))) ===
      true && `the pool of a deal must have ${items} numbers from 0 to ${MOST_ITEMS}`,
  ])
  const { deals = Array.from({ length: DEALS }, (_, index) => randomDeal(index, items)) } = options
  return { items, talk, symbols, utteranceLength, deals }
}

/**
 * Negotiation. Chance draws a pool of items and what they are worth to each player. In turn,
 * players propose what they would take, with an utterance of symbols, or accept the last proposal.
 * Without agreement both get 0.
 *
 * Errors   throws RangeError for counts that are not whole numbers from 1 to 6, and pools that do
 *          not fit.
 * Source   Cao et al. 2018, "Emergent communication through negotiation"; OpenSpiel's
 *          `negotiation`: action numbers and texts are the same. OpenSpiel draws each deal within
 *          the game; here chance draws one of a list.
 *
 * @example
 * negotiation({ talk: 'none' }).utility // 'generalSum'
 */
export const negotiation = (options: NegotiationOptions = {}): Game<NegotiationPosition> => {
  const table = tableOf(options)
  return defineGame<NegotiationPosition>({
    name: 'negotiation',
    players: 2,
    utility: 'generalSum',
    rules:
      `Two players divide a pool of ${table.items} kinds of items. Each item is worth something to you, and something ` +
      'else to the other player. In turn, propose how many of each kind you take, as in "Proposal: [1, 0, 2]"; the other ' +
      'player gets the rest. "Proposal: Agreement reached!" accepts the last proposal of the other player. If there is ' +
      `no agreement after the last step, nobody gets anything.${
        table.talk === 'none'
          ? ''
          : ' After each proposal you say symbols without a fixed meaning, as in ", Utterance: [0, 2]".'
      }`,
    initial: { deal: null, proposals: [], utterances: [], agreed: 'no' },
    turn: (position) => turnOf(position, table),
    legalActions: (position) => legalOf(position, table),
    next: (position, action) => nextOf(position, action, table),
    chance: () => equalOutcomes(table.deals.map((_, index) => index)),
    returns: returnsOf,
    text: (position) => textOf(position, table),
    actionText: (_position, actor, action) =>
      actor === 'chance' ? `chance outcome ${action}` : actionText(action, table),
    views: {
      observation: (position, player) => observationOf(position, player, table),
      informationState: (position, player) => {
        const { deal } = position
        if (deal === null) return NO_OBSERVATION
        return [...heading(deal), valuesLine(deal, player), ...offerLines(position)].join('\n')
      },
    },
  })
}
