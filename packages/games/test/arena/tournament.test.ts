/** Tournaments: seats, shared chance, illegal moves, failures, and what an interruption leaves. */
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, uniform } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { logPaths, openTournamentLog } from '../../src/arena/matches/log.js'
import { type Pairing, planTournament } from '../../src/arena/matches/plan.js'
import type { GameRecord } from '../../src/arena/matches/records.js'
import { runTournament, type TournamentEvent } from '../../src/arena/matches/tournament.js'
import { minimaxPlayer } from '../../src/arena/players/minimax.js'
import { anyGame, type Player, playerFailure } from '../../src/arena/players/player.js'
import { randomPlayer } from '../../src/arena/players/simple.js'
import { chess } from '../../src/games/chess.js'
import type { Game } from '../../src/games/game.js'
import type { IllegalMoveRule } from '../../src/games/illegalMove.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { matchingPennies3, prisonersDilemma } from '../../src/games/matrixGames.js'
import { ticTacToe } from '../../src/games/ticTacToe.js'

const key = keyFromSeed(11)
const board = anyGame(ticTacToe)
const kuhn = anyGame(kuhnPoker())
const forfeit: IllegalMoveRule = { kind: 'forfeit' }
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'arena-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const plan = (
  game: Game,
  players: readonly Player[],
  more: { readonly episodes?: number; readonly pairing?: Pairing } = {},
) => planTournament({ games: [game], players, pairing: 'match', episodes: 4, key, ...more })

const [a, b, c] = [randomPlayer('a'), randomPlayer('b'), randomPlayer('c')]

/** Writes text, so that its moves are stored as they are made. A third of them is illegal. */
const writer = (name: string, asked: string[] = []): Player => ({
  name,
  move: ({ legalActions, actionTexts, attempts }, { key }) => {
    asked.push(name)
    const at = Math.floor(uniform(key, 1) * legalActions.length)
    return uniform(key) < 1 / 3
      ? TE.right({ action: 'illegal', text: `no move ${attempts.length}`, problem: 'there is no action' })
      : TE.right({ action: legalActions[at]!, text: `I choose [${actionTexts[at]}]`, reasoning: 'I choose' })
  },
})

const withoutTimes = (games: readonly GameRecord[]) =>
  games.map((game) => ({ ...game, moves: game.moves.map((move) => ({ ...move, latencyMs: 0 })) }))

describe('plans', () => {
  it('balance seats and share chance within a round and between matchups', () => {
    const plans = plan(kuhn, [a, b, c], { pairing: 'roundRobin' })
    expect(plans.map(({ seats }) => seats.map(({ name }) => name).join(''))).toEqual([
      ...['ab', 'ba', 'ab', 'ba'],
      ...['ac', 'ca', 'ac', 'ca'],
      ...['bc', 'cb', 'bc', 'cb'],
    ])
    expect(plans.map(({ round }) => round)).toEqual([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1])
    const keys = plans.map(({ chanceKey }) => JSON.stringify(chanceKey))
    expect(new Set(keys).size).toBe(2)
    expect(keys[0]).toBe(keys[1])
    expect(keys[0]).not.toBe(keys[2])
    expect(new Set(plans.map(({ playKey }) => JSON.stringify(playKey))).size).toBe(12)
  })

  it('of a gauntlet let the first player meet all others', () => {
    expect(plan(board, [a, b, c], { pairing: 'gauntlet', episodes: 1 }).map(({ matchup }) => matchup)).toEqual([
      'a / b',
      'a / c',
    ])
  })

  it('rotate three players over three seats', () => {
    const plans = plan(anyGame(matchingPennies3), [a, b, c], { episodes: 3 })
    expect(plans.map(({ seats }) => seats.map(({ name }) => name).join(''))).toEqual(['abc', 'bca', 'cab'])
  })

  it('refuse equal names, and too many or too few players', () => {
    expect(() => plan(board, [a, a])).toThrow("two players are named 'a'")
    expect(() => plan(board, [a, b, c])).toThrow('tic_tac_toe has 2 seats, and there are 3 players')
    expect(() => plan(board, [a], { pairing: 'roundRobin' })).toThrow('needs 2 players, got 1')
    expect(() => plan(board, [a, b], { episodes: 0 })).toThrow(RangeError)
  })
})

describe('games', () => {
  it('deal the same cards to the seats of a round, whoever sits there', async () => {
    const { games } = await rightOf(
      runTournament({ plans: plan(kuhn, [a, b], { episodes: 20 }), illegalMove: forfeit }),
    )
    const dealt = games.map(({ history }) => history.slice(0, 2).join())
    for (let i = 0; i < 20; i += 2) expect(dealt[i]).toBe(dealt[i + 1])
    expect(new Set(dealt).size).toBeGreaterThan(3)
  })

  it('have one move of each player where they move at once, and a result in games that are not zero-sum', async () => {
    const { games } = await rightOf(
      runTournament({ plans: plan(anyGame(prisonersDilemma), [a, b]), illegalMove: forfeit }),
    )
    for (const { moves, returns } of games) {
      expect(moves.map(({ player }) => player)).toEqual([0, 1])
      expect(returns).toHaveLength(2)
    }
  })

  it('are of any game, such as chess, whose rules are a package', async () => {
    const plans = plan(anyGame(chess({ library: await import('chess.js') })), [a, b], { episodes: 1 })
    const { games } = await rightOf(runTournament({ plans, illegalMove: forfeit, maxRounds: { chess: 2 } }))
    expect(games[0]!.moves).toHaveLength(4)
    expect(games[0]).toMatchObject({ game: 'chess', end: 'truncated' })
  })

  it('are truncated at a limit of rounds, without a result', async () => {
    const options = { plans: plan(board, [a, b]), illegalMove: forfeit, maxRounds: { tic_tac_toe: 2 } }
    const { games } = await rightOf(runTournament(options))
    for (const game of games) expect(game).toMatchObject({ end: 'truncated', returns: null, moves: { length: 4 } })
  })
})

describe('illegal moves', () => {
  const wrong: Player = {
    name: 'wrong',
    move: ({ attempts }) => TE.right({ action: 'illegal', text: `try ${attempts.length}`, problem: 'no action' }),
  }
  const played = async (illegalMove: IllegalMoveRule, player = wrong) =>
    (await rightOf(runTournament({ plans: plan(board, [player, b], { episodes: 2 }), illegalMove }))).games

  it('forfeit the game, and the player loses on both seats', async () => {
    const games = await played(forfeit)
    expect(games.map(({ returns, end, forfeitedBy }) => [returns, end, forfeitedBy])).toEqual([
      [[-1, 1], 'forfeit', 0],
      [[1, -1], 'forfeit', 1],
    ])
    expect(games[0]!.moves[0]).toMatchObject({
      action: null,
      by: 'forfeit',
      illegal: [{ reply: 'try 0', reason: 'no action' }],
    })
  })

  it('are tried again as often as the rule allows, and then replaced by a random move that is marked', async () => {
    const [game] = await played({ kind: 'retry', attempts: 2, fallback: 'random' })
    const own = game!.moves.filter(({ player }) => player === 0)
    expect(game!.end).toBe('over')
    for (const move of own) {
      expect(move.by).toBe('fallback')
      expect(move.illegal.map(({ reply }) => reply)).toEqual(['try 0', 'try 1', 'try 2'])
    }
    for (const move of game!.moves.filter(({ player }) => player === 1))
      expect(move).toMatchObject({ by: 'player', illegal: [] })
  })

  it('include numbers that are not legal actions, whatever the player claims', async () => {
    const cheat: Player = { name: 'cheat', move: () => TE.right({ action: 0 }) }
    const games = await played({ kind: 'random' }, cheat)
    const reasons = games.flatMap(({ moves }) => moves.flatMap(({ illegal }) => illegal.map(({ reason }) => reason)))
    expect(new Set(reasons)).toEqual(new Set(['0 is not a legal action']))
  })
})

describe('a player that fails', () => {
  it('is asked again from the last move of its game, at most twice', async () => {
    const shaky = (failures: number): { readonly player: Player; readonly asked: () => number } => {
      let asked = 0
      const move: Player['move'] = (scene, context) =>
        asked++ < failures ? TE.left(playerFailure('infrastructure', 'too many requests')) : a!.move(scene, context)
      return { player: { name: 'shaky', move }, asked: () => asked }
    }
    const run = async (failures: number) => {
      const { player, asked } = shaky(failures)
      const plans = plan(board, [player, b!], { episodes: 1 })
      const result = await rightOf(runTournament({ plans, illegalMove: forfeit }))
      return { ...result, asked: asked() }
    }
    const [steady, twice, thrice] = [await run(0), await run(2), await run(3)]
    expect(withoutTimes(twice.games)).toEqual(withoutTimes(steady.games))
    expect(twice.asked).toBe(steady.asked + 2)
    expect([thrice.games, thrice.failed.length, thrice.asked]).toEqual([[], 1, 3])
  })

  it('costs its game, which is played again later; the others go on', async () => {
    let isDown = true
    const flaky: Player = {
      name: 'flaky',
      move: (scene, context) =>
        isDown && uniform(context.gameKey) < 0.5
          ? TE.left(playerFailure('infrastructure', 'no answer'))
          : a!.move(scene, context),
    }
    const plans = plan(board, [flaky, b], { episodes: 8 })
    const at = join(folder, 'flaky')
    const first = await rightOf(
      runTournament({ plans, illegalMove: forfeit, log: await rightOf(openTournamentLog(at, liveFiles)) }),
    )
    expect(first.failed.length).toBeGreaterThan(0)
    expect(first.games.length + first.failed.length).toBe(8)
    expect(first.status).toBe('finished')
    isDown = false
    const second = await rightOf(
      runTournament({ plans, illegalMove: forfeit, log: await rightOf(openTournamentLog(at, liveFiles)) }),
    )
    expect([second.games.length, second.failed.length]).toEqual([8, 0])
  })

  it('stops the tournament after a number of failures, and at once if it cannot play the game', async () => {
    const down: Player = { name: 'down', move: () => TE.left(playerFailure('infrastructure', 'no answer')) }
    const many = await rightOf(
      runTournament({ plans: plan(board, [down, b], { episodes: 50 }), illegalMove: forfeit, maxFailures: 3 }),
    )
    expect([many.status, many.failed.length]).toEqual(['stopped', 3])
    const unable = await rightOf(runTournament({ plans: plan(kuhn, [minimaxPlayer(), b]), illegalMove: forfeit }))
    expect([unable.status, unable.failed.length, unable.failed[0]!.failure.kind]).toEqual(['stopped', 1, 'unsupported'])
  })
})

describe('a tournament', () => {
  const rule: IllegalMoveRule = { kind: 'retry', attempts: 1, fallback: 'random' }
  const plansOf = (asked?: string[]) => plan(board, [writer('x', asked), writer('y', asked)], { episodes: 6 })

  it('is the same with any number of games at a time', async () => {
    const one = await rightOf(runTournament({ plans: plansOf(), illegalMove: rule }))
    const many = await rightOf(runTournament({ plans: plansOf(), illegalMove: rule, parallel: 4 }))
    expect(withoutTimes(many.games)).toEqual(withoutTimes(one.games))
    await expect(rightOf(runTournament({ plans: [], illegalMove: rule, parallel: 0 }))).rejects.toThrow(
      'parallel must be',
    )
  })

  it('continues after an interruption at any move, repeats no move, and ends as without it', async () => {
    const asked: string[] = []
    const whole = await rightOf(runTournament({ plans: plansOf(asked), illegalMove: rule }))
    const all = asked.length
    for (const stopAt of [1, 7, 20, all - 6]) {
      const at = join(folder, `stopped-${stopAt}`)
      const stop = new AbortController()
      const before: string[] = []
      const counted = plansOf(before).map((each) => ({
        ...each,
        seats: each.seats.map(
          (player): Player => ({
            ...player,
            move: (scene, context) => {
              if (before.length >= stopAt) stop.abort()
              return player.move(scene, context)
            },
          }),
        ),
      }))
      const options = { illegalMove: rule, parallel: 2 }
      const log = await rightOf(openTournamentLog(at, liveFiles))
      const first = await rightOf(runTournament({ ...options, plans: counted, log, signal: stop.signal }))
      expect(first.status).toBe('interrupted')
      const after: string[] = []
      const second = await rightOf(
        runTournament({ ...options, plans: plansOf(after), log: await rightOf(openTournamentLog(at, liveFiles)) }),
      )
      expect(withoutTimes(second.games)).toEqual(withoutTimes(whole.games))
      expect(before.length + after.length).toBeLessThanOrEqual(all + 4) // turns with a retry under way are asked anew
    }
  })

  it('resumes after a kill in the middle of a line, and refuses a damaged log', async () => {
    const at = join(folder, 'torn')
    const whole = await rightOf(
      runTournament({ plans: plansOf(), illegalMove: rule, log: await rightOf(openTournamentLog(at, liveFiles)) }),
    )
    const { games, pending } = logPaths(at)
    const lines = (await readFile(games, 'utf8')).split('\n')
    await writeFile(games, `${lines.slice(0, 2).join('\n')}\n${lines[2]!.slice(0, 40)}`)
    await appendFile(pending, '{"id":"tic')
    const events: TournamentEvent[] = []
    const log = await rightOf(openTournamentLog(at, liveFiles))
    const again = await rightOf(
      runTournament({ plans: plansOf(), illegalMove: rule, log, onEvent: (event) => events.push(event) }),
    )
    expect(withoutTimes(again.games)).toEqual(withoutTimes(whole.games))
    expect(events[0]).toEqual({ type: 'start', done: 2, total: 6 })
    expect(events.at(-1)).toMatchObject({ type: 'game', done: 6, total: 6 })
    await writeFile(games, `${lines[0]}\n{"id":1}\n`)
    expect(await leftOf(openTournamentLog(at, liveFiles))).toMatchObject({
      _tag: 'FormatFailure',
      where: expect.stringContaining('line 2'),
    })
  })

  it('fails if its log cannot be written', async () => {
    const log = await rightOf(openTournamentLog(join(folder, 'full'), liveFiles))
    const full = {
      ...log,
      addGame: async () => ({ _tag: 'Left', left: { _tag: 'FileFailure', reason: 'no space' } }) as never,
    }
    expect((await leftOf(runTournament({ plans: plansOf(), illegalMove: rule, log: full }))).reason).toBe('no space')
  })
})
