/** Records of games: every move, with what the player wrote and what was illegal. */
import { z } from 'zod'

const illegal = z.object({ reply: z.string(), reason: z.string() })

const usage = z.object({ promptTokens: z.number(), completionTokens: z.number() })

const move = z.object({
  player: z.number(),
  action: z.number().nullable(),
  text: z.string(),
  by: z.enum(['player', 'fallback', 'forfeit']),
  illegal: z.array(illegal),
  reply: z.string().optional(),
  reasoning: z.string().optional(),
  usage: usage.optional(),
  latencyMs: z.number(),
})

/** The schema of an unfinished game's move in its log. */
export const pendingMove = z.object({ id: z.string(), decision: z.number(), move })

/** The schema of a game in its log. */
export const gameRecord = z.object({
  id: z.string(),
  game: z.string(),
  matchup: z.string(),
  episode: z.number(),
  round: z.number(),
  seats: z.array(z.string()),
  end: z.enum(['over', 'forfeit', 'truncated']),
  returns: z.array(z.number()).nullable(),
  forfeitedBy: z.number().optional(),
  moves: z.array(move),
  history: z.array(z.number()),
})

/** Readonly at every depth. */
type Frozen<T> = T extends readonly (infer E)[]
  ? readonly Frozen<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Frozen<T[K]> }
    : T

/**
 * A decision of a player.
 *
 * - `player` is the seat.
 * - `action` is `null` if the player forfeited.
 * - `by`: `fallback` if a random legal move was played in place of an illegal one.
 * - `illegal` lists the illegal moves of this turn, in order.
 * - `latencyMs` is the time of the whole turn, waits for rate limits included.
 */
export type MoveRecord = Frozen<z.infer<typeof move>>

/**
 * A move of a game that is not over. `decision` counts the moves of players in the game, from 0.
 */
export type PendingMove = Frozen<z.infer<typeof pendingMove>>

/**
 * A finished game.
 *
 * - `seats` are the names of the players, by seat.
 * - `round`: games of a round have the same players on other seats, and the same chance.
 * - `returns` is `null` for a game that was truncated by its limit of rounds.
 * - `history` has all actions, including those of chance.
 */
export type GameRecord = Frozen<z.infer<typeof gameRecord>>
