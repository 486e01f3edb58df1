/** The messages of TextArena to the players of a game, and the prompts that its wrappers make. */
import type * as E from 'fp-ts/lib/Either.js'
import type { Game, GameActor, GameState } from './game.js'
import { replayGame } from './game.js'

/** A message to a player: `ObservationType` of TextArena, as far as its wrappers use it. */
export interface Note {
  readonly kind: 'prompt' | 'action' | 'told' | 'board' | 'admin'
  readonly text: string
  /** The player who is the sender. Without it, the game is. */
  readonly from?: number
}

/** A move of a game. */
export interface Step<P> {
  readonly before: P
  readonly actor: GameActor
  readonly action: number
  readonly after: P
}

/** A game as TextArena plays it. Players have TextArena's numbers. */
export interface TextArenaRules<P> {
  readonly game: Game<P>
  /** TextArena's number of a seat. */
  readonly numberOf: (seat: number) => number
  readonly prompt: (player: number) => string
  /** The messages to a player after its prompt, up to the first move of a player. */
  readonly opening: (position: P, player: number) => readonly Note[]
  /** The messages to a player after a move, which is the last of those since the first turn. */
  readonly after: (step: Step<P>, player: number, moves: readonly Step<P>[]) => readonly Note[]
  /** The messages to a player whose action is refused. */
  readonly refused: (position: P, refusal: { readonly player: number; readonly reason: string }) => readonly Note[]
  /** Returns the action of a reply in brackets, or the reason of its refusal. */
  readonly read: (position: P, turn: { readonly player: number; readonly reply: string }) => E.Either<string, number>
  /** The wrapper of the environments whose names end in `-train`. */
  readonly train: TextArenaWrapper
}

export const action = (from: number, text: string): Note => ({ kind: 'action', text, from })
export const reported = (text: string): Note => ({ kind: 'told', text })
export const board = (text: string): Note => ({ kind: 'board', text })
export const refusalOf = (who: string, reason: string): Note => ({
  kind: 'admin',
  text: `${who} attempted an invalid move. Reason: ${reason} Please resubmit a valid move and remember to follow the game rules to avoid penalties.`,
})

/** The moves of a game after the first turn of a player begins. */
const stepsOf = <P>(game: Game<P>, { history }: GameState<P>): readonly Step<P>[] => {
  const states = [...history.keys(), history.length].map((length) => replayGame(game, history.slice(0, length)))
  const first = states.findIndex((state) => game.turn(state) !== 'chance')
  return history.slice(first).map((move, i) => {
    const before = states[first + i]!
    const actor = game.turn(before) as GameActor // no game here has simultaneous moves
    return { before: before.position, actor, action: move, after: states[first + i + 1]!.position }
  })
}

/** Returns all messages to a seat so far. */
export const notesOf = <P>(
  { game, ...rules }: TextArenaRules<P>,
  state: GameState<P>,
  { seat, feedback }: { readonly seat: number; readonly feedback: string | null },
): readonly Note[] => {
  const player = rules.numberOf(seat)
  const steps = stepsOf(game, state)
  const start = steps[0]?.before ?? state.position
  return [
    { kind: 'prompt', text: rules.prompt(player) },
    ...rules.opening(start, player),
    ...steps.flatMap((step, at) => rules.after(step, player, steps.slice(0, at + 1))),
    ...(feedback === null ? [] : rules.refused(state.position, { player, reason: feedback })),
  ]
}

/** Makes one prompt of messages, as the wrapper of that name does. */
export type TextArenaWrapper = (notes: readonly Note[]) => string

const lastOf = (notes: readonly Note[], kind: Note['kind']): string =>
  notes.findLast((note) => note.kind === kind)?.text ?? ''

const isFromGame = ({ kind }: Note): boolean => kind !== 'action' && kind !== 'admin'

export const LLMObservationWrapper: TextArenaWrapper = (notes) =>
  notes.map(({ from, text }) => `\n[${from === undefined ? 'GAME' : `Player ${from}`}] ${text}`).join('')

export const GameBoardObservationWrapper: TextArenaWrapper = (notes) =>
  `${lastOf(notes, 'prompt')}\n\n${lastOf(notes, 'board')}`

export const GameMessagesObservationWrapper: TextArenaWrapper = (notes) =>
  notes
    .filter(isFromGame)
    .map(({ text }) => `\n ${text}`)
    .join('')

export const GameMessagesAndCurrentBoardObservationWrapper: TextArenaWrapper = (notes) => {
  const messages = notes.filter(({ kind }) => kind === 'told').map(({ text }) => `\n${text}`)
  return `${lastOf(notes, 'prompt')}\n\n${messages.join('').trim()}\n\n${lastOf(notes, 'board')}`
}
