/** Games with the prompts and the action formats of TextArena. */
import { checkOptions, unknownName } from '@tandem-rl/base'
import { withoutThoughts } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { TEXT_ARENA_GAME_OPTIONS } from '../optionKinds.js'
import type { Game, GameState } from './game.js'
import type { GameText } from './gameEnv.js'
import type { ActionReader } from './gameScene.js'
import { type ActionFailure, parseAction } from './gameText.js'
import type { IllegalMoveRule } from './illegalMove.js'
import { TEXT_ARENA_GAMES } from './textArenaGames.js'
import { LLMObservationWrapper, notesOf } from './textArenaNotes.js'

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
 * Reads an action as TextArena writes it, for the games that both have: `[4]` in tic-tac-toe,
 * `[col 3]` in Connect Four, `[Check]`, `[Bet]`, `[Call]` and `[Fold]` in Kuhn poker, `[Bid: 2, 5]`
 * and `[Call]` in liar's dice, `[0 3]` in Nim, `[roll]` and `[hold]` in pig, and the names of
 * actions in the prisoner's dilemma and rock-paper-scissors. Other games are read by `parseAction`.
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

export interface TextArenaOptions {
  /** The words of `Wordle-v0`, as in `wordGuess`. */
  readonly words?: readonly string[]
}

/** A game with TextArena's text, for the options of `GameEnv`. */
export interface TextArenaGame {
  readonly game: Game
  readonly text: Required<GameText<unknown>>
  /** One illegal move is answered with its reason, and a second one in the same turn loses. */
  readonly illegal: IllegalMoveRule
}

const TRAIN = '-train'

/**
 * Returns a game as TextArena plays it, so that prompts published for it work: its prompts, its
 * reading of replies and its reasons of refusals are equal to the letter. A name that ends in
 * `-train` has the shorter prompts of those environments. The names are `TicTacToe-v0`,
 * `ConnectFour-v0` (`-large`), `Nim-v0` (`-medium`, `-large`), `PigDice-v0` (`-short`, `-long`),
 * `Wordle-v0`, and `KuhnPoker` for one hand (TextArena's `KuhnPoker-v0` with `max_rounds=1`).
 *
 * Differences: prompts repeat a reply as its action in brackets, and refused replies of earlier
 * turns are left out. Pig has no limit of turns, and refuses to roll when the points are enough to
 * win. Wordle knows the words of its list alone.
 *
 * Errors   throws RangeError for another name, with the nearest known one.
 * Source   TextArena 0.7.4 (arXiv:2504.11442, MIT license), from which test/golden/textArena.json
 *          was recorded.
 *
 * @example
 * GameEnv({ ...textArenaGame('TicTacToe-v0-train'), prompts: 1 }).batchSize // 1
 */
export const textArenaGame = (name: string, options: TextArenaOptions = {}): TextArenaGame => {
  checkOptions('textArenaGame', options, TEXT_ARENA_GAME_OPTIONS)
  const plain = name.endsWith(TRAIN) ? name.slice(0, -TRAIN.length) : name
  const make = Object.hasOwn(TEXT_ARENA_GAMES, plain) ? TEXT_ARENA_GAMES[plain] : undefined
  if (make === undefined) throw new RangeError(unknownName('game', plain, Object.keys(TEXT_ARENA_GAMES)))
  const rules = make(options.words)
  const wrapper = plain === name ? LLMObservationWrapper : rules.train
  return {
    game: rules.game,
    text: {
      memory: 'turn',
      prompt: ({ state, player, feedback }) => wrapper(notesOf(rules, state, { seat: player, feedback })),
      read: (_game, { position }, { player, reply: written }) => {
        const reply = withoutThoughts(written)
        const bracketed = reply.includes('[') || reply.includes(']') ? reply : `[${reply}]`
        const read = rules.read(position, { player: rules.numberOf(player), reply: bracketed })
        if (E.isRight(read)) return read
        return E.left({ _tag: 'ActionFailure', kind: 'illegal', found: reply.slice(0, 100), reason: read.left })
      },
    },
    illegal: { kind: 'retry', attempts: 1, fallback: 'forfeit' },
  }
}
