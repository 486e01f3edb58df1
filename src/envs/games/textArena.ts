/** Actions as the environments of TextArena write them. */
import * as E from 'fp-ts/lib/Either.js'
import type { Game, GameState } from './game.js'
import type { ActionReader } from './gameScene.js'
import { type ActionFailure, parseAction } from './gameText.js'

/** Returns our text of an action in TextArena's brackets, or `undefined` for other text. */
type Translation = (words: readonly string[], scene: { readonly isBet: 'yes' | 'no' }) => string | undefined

/** TextArena's actions by the name of our game. Words are in small letters, without punctuation. */
const TRANSLATIONS: Readonly<Record<string, Translation>> = {
  tic_tac_toe: ([cell]) => cell,
  connect_four: ([word, column]) => (word === 'col' ? column : word),
  kuhn_poker: ([word], { isBet }) =>
    isBet === 'yes' ? { call: 'Bet', fold: 'Pass' }[word ?? ''] : { check: 'Pass', bet: 'Bet' }[word ?? ''],
  liars_dice: ([word, quantity, face]) =>
    word === 'call' ? 'Liar' : word === 'bid' ? `${quantity}-${face}` : undefined,
  matrix_pd: ([word]) => ({ cooperate: 'Cooperate', defect: 'Defect' })[word ?? ''],
  matrix_rps: ([word]) =>
    ({ rock: 'Rock', paper: 'Paper', scissors: 'Scissors', r: 'Rock', p: 'Paper', s: 'Scissors' })[word ?? ''],
  nim: ([pile, quantity]) => `pile:${Number(pile) + 1}, take:${quantity};`,
  pig: ([word]) => ({ roll: 'roll', hold: 'stop' })[word ?? ''],
}

/** Returns the words of the last square brackets of a reply. */
const wordsOf = (reply: string): readonly string[] | undefined => {
  const close = reply.lastIndexOf(']')
  const open = close === -1 ? -1 : reply.lastIndexOf('[', close)
  if (open === -1) return undefined
  return reply
    .slice(open + 1, close)
    .toLowerCase()
    .split(/[\s,:]/)
    .filter((word) => word !== '')
}

/** In Kuhn poker, returns whether there is a bet to answer. */
const betIn = <P>(game: Game<P>, state: GameState<P>): 'yes' | 'no' =>
  state.history.slice(game.players).includes(1) ? 'yes' : 'no'

/**
 * Reads an action as TextArena writes it, for the games that both have: `[4]` in tic-tac-toe, `[col 3]` in
 * Connect Four, `[Check]`, `[Bet]`, `[Call]` and `[Fold]` in Kuhn poker, `[Bid: 2, 5]` and `[Call]` in
 * liar's dice, `[0 3]` in Nim, `[roll]` and `[hold]` in pig, and the names of actions in the prisoner's
 * dilemma and rock-paper-scissors. Other games are read by `parseAction`.
 *
 * Errors   as `parseAction`.
 * Source   TextArena 0.7.4 (arXiv:2504.11442): the formats of its actions.
 *
 * @example
 * textArenaRead(kuhnPoker(), replayGame(kuhnPoker(), [2, 0, 1]), { player: 1, reply: 'I give up. [Fold]' }).right // 0
 */
export const textArenaRead = <P>(
  ...[game, state, { player, reply }]: Parameters<ActionReader<P>>
): E.Either<ActionFailure, number> => {
  const translate = TRANSLATIONS[game.name]
  const words = wordsOf(reply)
  if (translate === undefined || words === undefined) return parseAction(game, state, { player, reply })
  const text = translate(words, { isBet: betIn(game, state) })
  if (text !== undefined) {
    const read = parseAction(game, state, { player, reply: `[${text}]` })
    if (E.isRight(read)) return read
  }
  const found = reply.slice(reply.lastIndexOf('[') + 1, reply.lastIndexOf(']')).slice(0, 100)
  return E.left({ _tag: 'ActionFailure', kind: 'illegal', found, reason: `[${found}] is not a legal action` })
}
