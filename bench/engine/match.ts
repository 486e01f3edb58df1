/** One workload, measured on all contestants in turns. */
import { setTimeout as pause } from 'node:timers/promises'
import { spreadOf } from '../../packages/bench/src/statistics.js'
import { type Contestant, type Player, REFERENCE, startPlayer } from './contestants.js'
import type { Figure, Outcome } from './figures.js'
import type { End, Ready } from './messages.js'
import { agree, ratioOf } from './statistics.js'
import type { Workload } from './workloads.js'

export interface MatchOptions {
  readonly contestants: readonly Contestant[]
  readonly threads: number
  readonly modules: string | undefined
  /** Rounds in which every contestant has a turn. */
  readonly rounds: number
  /** Seconds that a turn lasts, unless a single run lasts longer. */
  readonly turnSeconds: number
  /** Seconds of one run from which a contestant counts as slow: it has two turns, and none at larger sizes. */
  readonly patience: number
}

/** Runs in a turn at most: enough for a median, and the lines stay short. */
const MOST_RUNS = 200

/** Threads of a contestant that had its turn go to sleep in this time. */
const QUIET_MS = 50

const SLOW_ROUNDS = 2

interface Seat {
  readonly contestant: Contestant
  readonly player: Player
  readonly ready: Ready
  readonly turns: (readonly number[])[]
  problem?: string
}

type Played = { readonly seat: Seat; readonly end: End }

const takeTurn = async (seat: Seat, options: MatchOptions): Promise<void> => {
  const answer = await seat.player.turn(options.turnSeconds, MOST_RUNS)
  if (answer.tag === 'Failed') seat.problem = answer.problem
  else seat.turns.push(answer.seconds)
  await pause(QUIET_MS)
}

const figureOf = (workload: Workload, { seat, end }: Played, reference: Seat | undefined): Figure => {
  const { contestant, ready, turns } = seat
  const runs = turns.flat()
  const ratio = reference === undefined || reference === seat ? undefined : ratioOf(turns, reference.turns)
  return {
    tag: 'Figure',
    workload,
    contestant,
    version: ready.version,
    threads: ready.threads,
    seconds: spreadOf(runs),
    runs: runs.length,
    rounds: turns.length,
    ...(ratio === undefined ? {} : { ratio }),
    firstSeconds: ready.firstSeconds,
    peakMiB: end.peakMiB,
    value: ready.value,
    ...(end.compiles === undefined ? {} : { compiles: end.compiles }),
    ...(end.fallbacks === undefined ? {} : { fallbacks: end.fallbacks }),
  }
}

/**
 * Starts a process for each contestant, gives them turns (A B C A B C ...) and compares.
 *
 * A contestant that fails, or that does not find the number which the reference finds, gets no figure but a reason.
 */
export const playMatch = async (workload: Workload, options: MatchOptions): Promise<readonly Outcome[]> => {
  const { threads, modules } = options
  const absent = (contestant: Contestant, problem: string): Outcome => ({
    tag: 'Absent',
    workload,
    contestant,
    threads,
    problem,
  })
  const outcomes: Outcome[] = []
  const seats: Seat[] = []
  for (const contestant of options.contestants) {
    const player = await startPlayer(contestant, { workload, threads, modules })
    const { ready } = player
    if (ready.tag === 'Failed') outcomes.push(absent(contestant, ready.problem))
    else seats.push({ contestant, player, ready, turns: [] })
  }
  for (let round = 0; round < options.rounds; round++) {
    for (const seat of seats) {
      const isSlow = seat.ready.warmSeconds > options.patience
      if (seat.problem === undefined && !(isSlow && round >= SLOW_ROUNDS)) await takeTurn(seat, options)
    }
  }
  const reference = seats.find(({ contestant }) => contestant === REFERENCE)
  for (const seat of seats) {
    const end = seat.problem === undefined ? await seat.player.end() : { problem: seat.problem }
    if ('problem' in end) outcomes.push(absent(seat.contestant, end.problem))
    else if (reference !== undefined && !agree(seat.ready.value, reference.ready.value)) {
      const found = `finds ${seat.ready.value} where ${REFERENCE} finds ${reference.ready.value}`
      outcomes.push(absent(seat.contestant, `${found}: not the same work`))
    } else outcomes.push(figureOf(workload, { seat, end }, reference))
  }
  return outcomes
}
