/** Reader of the arena's games: `games.jsonl` of `tandem arena`. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { episodeAgents } from './agentLanes.js'
import { type ForeignReader, NO_TOKENS, readLines } from './foreignLog.js'
import type { EpisodeAgents, ViewedTurn } from './viewedTurn.js'
import { rolloutId } from './viewedTurn.js'

const moveSchema = z.looseObject({
  player: z.number().int().nonnegative(),
  text: z.string(),
  by: z.string(),
  illegal: z.array(z.looseObject({ reply: z.string(), reason: z.string() })),
  reply: z.string().optional(),
  reasoning: z.string().optional(),
})

const gameSchema = z.looseObject({
  id: z.string(),
  game: z.string(),
  matchup: z.string(),
  round: z.number(),
  seats: z.array(z.string()),
  end: z.string(),
  returns: z.array(z.number()).nullable(),
  moves: z.array(moveSchema),
})

type Game = z.infer<typeof gameSchema>

/** Returns a lane for each seat, with its moves in order. */
const lanesOf = (game: Game): EpisodeAgents | null =>
  episodeAgents(
    game.seats.map((name, seat) => ({
      name: `${name}, seat ${seat}`,
      rollout: rolloutId(placeOf(game, seat)),
      parent: null,
      link: null,
      turns: game.moves.flatMap(({ player, text }, i) => (player === seat ? [{ start: i, end: i + 1, text }] : [])),
    })),
  )

const placeOf = ({ id, round }: Game, seat: number) => ({ step: round + 1, trajectoryId: `${id}:${seat}` })

/** Converts a game: one rollout for each seat. Moves of the other players are replies. */
const turnsOf = (game: Game): readonly ViewedTurn[] => {
  const agents = lanesOf(game)
  return game.seats.flatMap((name, seat) => {
    const own = [...game.moves.keys()].filter((i) => game.moves[i]!.player === seat)
    return own.map((at, turn): ViewedTurn => {
      const { text, reply, reasoning, illegal, by } = game.moves[at]!
      const whole = `${reasoning === undefined ? '' : `<think>\n${reasoning}\n</think>\n`}${reply ?? text}`
      const others = game.moves.slice(at + 1, own[turn + 1] ?? game.moves.length)
      const isLast = turn === own.length - 1
      return {
        ...NO_TOKENS,
        ...placeOf(game, seat),
        turn,
        groupId: game.id,
        ...(turn === 0 && agents !== null && { agents: { ...agents, unit: 'turns' } }),
        query: `${game.game}: ${name} on seat ${seat} of ${game.seats.join(', ')}`,
        answer: null,
        tokens: [whole],
        length: whole.length,
        replies: [
          ...illegal.map((each) => ({ role: 'tool', text: `${each.reason}: ${each.reply}`, isError: true })),
          ...others.map((other) => ({
            role: 'user',
            text: `${game.seats[other.player] ?? other.player}: ${other.text}`,
          })),
        ],
        reward: isLast ? (game.returns?.[seat] ?? 0) : 0,
        advantage: null,
        failed: by === 'forfeit',
        stopReason: isLast && game.end === 'truncated' ? 'length' : null,
      }
    })
  })
}

const FORMAT = 'arena games'

export const arenaReader: ForeignReader = {
  format: FORMAT,
  hasName: (name) => name === 'games.jsonl',
  unit: 'file',
  read: (files, paths) =>
    pipe(
      readLines(files, paths, { format: FORMAT, schema: gameSchema }),
      TE.map((games) => ({
        model: null,
        data: [...new Set(games.map(({ game }) => game))].join(', '),
        startedAt: null,
        settings: { games: games.length },
        turns: games.flatMap(turnsOf),
      })),
    ),
}
