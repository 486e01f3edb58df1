/** Plays the games of a tournament, several at a time, and continues an interrupted one. */
import { type Clock, cancellation, checkOptions, type FileFailure } from '@tandem-rl/base'
import { harmless, liveClock } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { checkIllegalMoveRule, type IllegalMoveRule } from '../../games/illegalMove.js'
import { RUN_TOURNAMENT_OPTIONS } from '../../optionKinds.js'
import type { PlayerFailure } from '../players/player.js'
import type { TournamentLog } from './log.js'
import { type GamePlan, playGame } from './playGame.js'
import type { GameRecord, MoveRecord } from './records.js'

/** A game that has no result, because a player could not move. */
export interface FailedGame {
  readonly id: string
  readonly failure: PlayerFailure
}

/** An event of a tournament. */
export type TournamentEvent =
  /** `done` games of `total` are over, counting those of earlier sessions. */
  | { readonly type: 'start'; readonly done: number; readonly total: number }
  | { readonly type: 'game'; readonly done: number; readonly total: number; readonly record: GameRecord }
  | { readonly type: 'failed'; readonly game: FailedGame }

export interface RunTournamentOptions {
  readonly plans: readonly GamePlan[]
  readonly illegalMove: IllegalMoveRule
  /** Keeps the games, and has those of earlier sessions. Default: nothing is stored. */
  readonly log?: TournamentLog
  /** Games at a time. Default 1. */
  readonly parallel?: number
  /** The most moves of each player in a game, by the name of the game. */
  readonly maxRounds?: Readonly<Record<string, number | null>>
  /** Stops the tournament after this many failed games. Default 10. */
  readonly maxFailures?: number
  readonly signal?: AbortSignal
  readonly onEvent?: (event: TournamentEvent) => void
  readonly clock?: Clock
}

/** The result of a session. */
export interface TournamentResult {
  /** All finished games, in the order of their plans. */
  readonly games: readonly GameRecord[]
  readonly failed: readonly FailedGame[]
  readonly status: 'finished' | 'interrupted' | 'stopped'
}

/** The most times that a game is begun or continued in a session. */
const ATTEMPTS = 3

/** Returns `true` if the player wrote text, which would cost time or money to ask for again. */
const isCostly = ({ reply }: { readonly reply?: string | undefined }): boolean => reply !== undefined

/**
 * Plays all games that the log does not have. Games of players that depend on their keys alone are
 * the same in any order, with any number at a time, and after any interruption.
 *
 * A game whose player fails is continued from its last move, at most twice. Then it has no result,
 * and is played again in the next session. The tournament
 * stops early after `maxFailures` of them, and at once if a player cannot play the game at all.
 *
 * Errors   `Left(FileFailure)` if the log cannot be written. Throws RangeError for a wrong rule,
 *          and unless `parallel` is an integer of at least 1.
 */
export const runTournament = (options: RunTournamentOptions): TaskEither<FileFailure, TournamentResult> => {
  checkOptions('runTournament', options, RUN_TOURNAMENT_OPTIONS)
  return async () => {
    const { plans, illegalMove, log, parallel = 1, maxFailures = 10, clock = liveClock } = options
    const onEvent = harmless('onEvent', options.onEvent ?? (() => {}))
    checkIllegalMoveRule('runTournament, illegalMove', illegalMove)
    if (!Number.isInteger(parallel) || parallel < 1)
      throw new RangeError(`runTournament: parallel must be an integer of at least 1, got ${parallel}`)
    const work = cancellation({ signal: options.signal })
    const done = new Map((log?.contents.games ?? []).map((record) => [record.id, record]))
    const failed: FailedGame[] = []
    let broken: FileFailure | undefined
    let isStopped = false
    const total = plans.length
    let finished = plans.filter(({ id }) => done.has(id)).length
    onEvent({ type: 'start', done: finished, total })

    const store = async (written: Promise<E.Either<FileFailure, void>> | undefined): Promise<void> => {
      const result = await written
      if (result === undefined || E.isRight(result)) return
      broken ??= result.left
      work.stop()
    }
    /** Plays a game, and continues it up to twice after a failure of infrastructure. */
    const attempt = async (plan: GamePlan): Promise<E.Either<PlayerFailure, GameRecord>> => {
      const known = new Map(log?.contents.pending.get(plan.id))
      const onMove = async (decision: number, move: MoveRecord): Promise<void> => {
        known.set(decision, move)
        if (isCostly(move)) await store(log?.addMove({ id: plan.id, decision, move }))
      }
      const maxRounds = options.maxRounds?.[plan.game.name] ?? null
      const once = playGame(plan, { illegalMove, clock, signal: work.signal, maxRounds, known, onMove })
      for (let left = ATTEMPTS; ; left--) {
        const played = await once()
        const isOver = E.isRight(played) || played.left.kind !== 'infrastructure'
        if (isOver || left === 1 || work.signal.aborted) return played
      }
    }
    const play = async (plan: GamePlan): Promise<void> => {
      const played = await attempt(plan)
      if (E.isRight(played)) {
        await store(log?.addGame(played.right))
        done.set(plan.id, played.right)
        finished++
        onEvent({ type: 'game', done: finished, total, record: played.right })
        return
      }
      if (played.left.kind === 'cancelled' && work.signal.aborted) return
      const game: FailedGame = { id: plan.id, failure: played.left }
      failed.push(game)
      onEvent({ type: 'failed', game })
      if (played.left.kind !== 'infrastructure' || failed.length >= maxFailures) {
        isStopped = true
        work.stop()
      }
    }
    const open = plans.filter(({ id }) => !done.has(id))[Symbol.iterator]()
    /**
     * Plays one game after the other. Timers and signals are handled between games that never wait.
     */
    const lane = async (): Promise<void> => {
      for (const plan of open) {
        await clock.breathe()
        if (work.signal.aborted) return
        await play(plan)
      }
    }
    await Promise.all(Array.from({ length: parallel }, lane))
    work.release()
    if (broken !== undefined) return E.left(broken)
    const games = plans.flatMap(({ id }) => done.get(id) ?? [])
    const status = isStopped ? 'stopped' : games.length + failed.length < total ? 'interrupted' : 'finished'
    return E.right({ games, failed, status })
  }
}
