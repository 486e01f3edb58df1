/** Games as text for language models: prompts, and actions read from replies. */
import { checkOptions } from '@tandem-rl/base'
import { type Message, textOf, withoutThoughts } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { GAME_PROMPT_OPTIONS } from '../optionKinds.js'
import type { Game, GameState } from './game.js'

export interface GamePromptOptions {
  /**
   * `listed` names the legal actions. `hidden` does not, so that a player who guesses loses.
   * Default `listed`.
   */
  readonly actions?: 'listed' | 'hidden'
}

/** A reply without a legal action. */
export interface ActionFailure {
  readonly _tag: 'ActionFailure'
  /** `unreadable`: there is no action in brackets. `illegal`: the action is not legal now. */
  readonly kind: 'unreadable' | 'illegal'
  /** The reply, or the action in brackets. At most 100 characters. */
  readonly found: string
  /** A sentence to show to the player. */
  readonly reason: string
}

const LONGEST = 100

/** The observation of a player and its legal actions. */
const sightOf = <P>(
  where: string,
  { game, state, player }: { readonly game: Game<P>; readonly state: GameState<P>; readonly player: number },
  options: GamePromptOptions,
): readonly string[] => {
  const actions = game.legalActions(state, player)
  if (actions.length === 0) throw new RangeError(`${where}: it is not the turn of player ${player}`)
  const listed = actions.map((action) => `[${game.actionText(state, player, action)}]`).join(', ')
  return [
    game.observation(state, player).trimEnd(),
    ...(options.actions === 'hidden' ? [] : [`Your actions: ${listed}.`]),
  ]
}

/**
 * Returns what a language model reads before it moves: the rules, what the player sees, and the
 * format of the answer.
 *
 * Errors   throws RangeError if it is not the player's turn.
 *
 * @example
 * gamePrompt(matchingPennies, matchingPennies.initial, { player: 1 }).includes('Your actions: [Heads], [Tails].') // true
 */
export const gamePrompt = <P>(
  game: Game<P>,
  state: GameState<P>,
  { player, ...options }: GamePromptOptions & { readonly player: number },
): string => {
  checkOptions('gamePrompt', options, GAME_PROMPT_OPTIONS)
  return [
    game.rules,
    `You are player ${player}. You see:`,
    ...sightOf('gamePrompt', { game, state, player }, options),
    'Think first. Then write your action in square brackets, once, at the end of your answer.',
  ].join('\n')
}

/**
 * Returns what a language model reads before a later move of a game: what the player sees now,
 * without the rules.
 *
 * Errors   throws RangeError if it is not the player's turn.
 *
 * @example
 * nextGamePrompt(matchingPennies, matchingPennies.initial, { player: 1 }).includes('Your actions: [Heads], [Tails].') // true
 */
export const nextGamePrompt = <P>(
  game: Game<P>,
  state: GameState<P>,
  { player, ...options }: GamePromptOptions & { readonly player: number },
): string => ['You see:', ...sightOf('nextGamePrompt', { game, state, player }, options)].join('\n')

/** Ignores case and white space. */
const plain = (text: string): string => text.replace(/\s/g, '').toLowerCase()

/** The text of the last square brackets, which may contain others. */
const lastBracket = (reply: string): string | undefined => {
  const close = reply.lastIndexOf(']')
  let depth = 0
  for (let at = close; at >= 0; at--) {
    if (reply[at] === ']') depth++
    if (reply[at] === '[' && --depth === 0) return reply.slice(at + 1, close)
  }
  const open = close === -1 ? -1 : reply.lastIndexOf('[', close)
  return open === -1 ? undefined : reply.slice(open + 1, close)
}

/**
 * Returns the text of a reply from which an action is read. If the reply was cut off, it ends with
 * the last closed bracket, because what follows is unfinished.
 */
export const playableText = (reply: Message): string => {
  const text = textOf(reply)
  return reply.isComplete ? text : text.slice(0, text.lastIndexOf(']') + 1)
}

/**
 * Reads the action of a player from a reply: the text or the number in the last square brackets
 * outside of its thoughts, in any case and spacing. A reply that is nothing but the action needs no
 * brackets. An action that is only mentioned in other prose does not count.
 *
 * Errors   `Left(ActionFailure)` for a reply without an action and for an illegal action.
 * Cost     linear in the length of the reply.
 *
 * @example
 * parseAction(ticTacToe, ticTacToe.initial, { player: 0, reply: 'The center: [X(1, 1)]' }).right // 4
 */
export const parseAction = <P>(
  game: Game<P>,
  state: GameState<P>,
  { player, reply }: { readonly player: number; readonly reply: string },
): E.Either<ActionFailure, number> => {
  const answer = withoutThoughts(reply)
  const bracketed = lastBracket(answer)
  const found = (bracketed ?? answer).trim()
  const legal = game.legalActions(state, player)
  const asText = legal.find((action) => plain(game.actionText(state, player, action)) === plain(found))
  const action = asText ?? legal.find((each) => String(each) === found)
  if (action !== undefined) return E.right(action)
  const shown = found.slice(0, LONGEST)
  return E.left(
    bracketed === undefined
      ? { _tag: 'ActionFailure', kind: 'unreadable', found: shown, reason: 'there is no action in square brackets' }
      : { _tag: 'ActionFailure', kind: 'illegal', found: shown, reason: `[${shown}] is not a legal action` },
  )
}
