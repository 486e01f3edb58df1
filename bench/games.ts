/**
 * Measures games of random moves per second, against OpenSpiel's Python on the same machine.
 *
 * `npm run bench -- games --games 100000 --rounds 5 --python VENV/bin/python`, with `open_spiel`
 * installed there. Rounds of both alternate, so that load on the machine slows both. `--clock
 * processor` counts the time of the processor alone, for a machine with other work.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { median } from '@tandem-rl/base'
import {
  breakthrough,
  connectFour,
  type Game,
  hex,
  kuhnPoker,
  leducPoker,
  liarsDice,
  nim,
  pig,
  playersOf,
  rockPaperScissors,
  ticTacToe,
} from '@tandem-rl/games/rules'
import { Command, Option } from 'commander'
import { ownPeer } from './shared/peers.js'

/** OpenSpiel's name of each game, ours, and the share of `--games` that is played. */
const GAMES: readonly (readonly [name: string, game: Game<never>, share: number])[] = [
  ['tic_tac_toe', ticTacToe as never, 1],
  ['connect_four', connectFour() as never, 0.2],
  ['kuhn_poker', kuhnPoker() as never, 1],
  ['leduc_poker', leducPoker() as never, 1],
  ['liars_dice', liarsDice() as never, 1],
  ['matrix_rps', rockPaperScissors as never, 1],
  ['nim', nim() as never, 1],
  ['pig(winscore=20)', pig({ winScore: 20 }) as never, 0.2],
  ['hex(board_size=5)', hex({ rows: 5, columns: 5 }) as never, 0.2],
  ['breakthrough(rows=6,columns=6)', breakthrough({ rows: 6, columns: 6 }) as never, 0.1],
]

/** A generator of numbers from 0 to 1 (mulberry32), as cheap as Python's. */
const generator = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const playOne = (game: Game<never>, random: () => number): readonly number[] => {
  const oneOf = (actions: readonly number[]): number => actions[Math.floor(random() * actions.length)]!
  let state = game.initial
  for (;;) {
    const turn = game.turn(state)
    if (turn === 'over') return game.returns(state)
    if (turn === 'simultaneous')
      state = game.apply(
        state,
        playersOf(game).map((player) => oneOf(game.legalActions(state, player))),
      )
    else if (turn === 'chance') {
      const outcomes = game.chance(state)
      let [rest, at] = [random(), 0]
      for (; at < outcomes.length - 1; at++) {
        rest -= outcomes[at]!.probability
        if (rest < 0) break
      }
      state = game.apply(state, outcomes[at]!.action)
    } else state = game.apply(state, oneOf(game.legalActions(state, turn)))
  }
}

/** Milliseconds since a fixed time: of the wall, or that this process has computed. */
const CLOCKS = {
  wall: () => performance.now(),
  processor: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  },
}

type ClockName = keyof typeof CLOCKS

const ours = (game: Game<never>, count: number, clock: ClockName): number => {
  const random = generator(1)
  const now = CLOCKS[clock]
  const started = now()
  for (let i = 0; i < count; i++) playOne(game, random)
  return (now() - started) / 1000
}

/** Starts OpenSpiel. Each call plays games of a name and returns the seconds. */
const openSpiel = (python: string, clock: ClockName) => {
  const child = spawn(python, [ownPeer('games.py'), clock], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  return {
    play: async (name: string, count: number): Promise<number> => {
      const line = once(lines, 'line')
      child.stdin.write(`${name} ${count}\n`)
      return Number((await line)[0])
    },
    close: () => child.stdin.end(),
  }
}

const shown = (rates: readonly number[]): string => {
  const sorted = rates.toSorted((a, b) => a - b)
  return `${Math.round(median(rates))} (${Math.round(sorted[0]!)} to ${Math.round(sorted.at(-1)!)})`
}

interface Flags {
  readonly games: string
  readonly rounds: string
  readonly clock: ClockName
  readonly python?: string
}

const main = async ({ games, rounds, clock, python }: Flags): Promise<void> => {
  const peer = python === undefined ? undefined : openSpiel(python, clock)
  console.log(`games per second of ${clock} time: median (lowest to highest)`)
  for (const [name, game, share] of GAMES) {
    const count = Math.max(1, Math.round(Number(games) * share))
    const [own, others]: [number[], number[]] = [[], []]
    ours(game, Math.ceil(count / 10), clock) // warm-up
    for (let round = 0; round < Number(rounds); round++) {
      own.push(count / ours(game, count, clock))
      if (peer !== undefined) others.push(count / (await peer.play(name, count)))
    }
    const ratio =
      peer === undefined ? '' : `, OpenSpiel ${shown(others)}, ratio ${(median(own) / median(others)).toFixed(2)}`
    console.log(`${name}: ${shown(own)}${ratio}`)
  }
  peer?.close()
}

await new Command()
  .option('--games <count>', 'games of each round', '100000')
  .option('--rounds <count>', 'rounds of each side', '5')
  .addOption(new Option('--clock <name>', 'what is measured').choices(Object.keys(CLOCKS)).default('wall'))
  .option('--python <path>', 'a Python with open_spiel')
  .action(main)
  .parseAsync()
