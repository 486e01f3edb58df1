/** TensorBoard files of `tandem arena`. */
import { dirname } from 'node:path'
import { describe } from '@tandem-rl/base'
import { printError } from '@tandem-rl/base/host'
import { filesBelow } from '@tandem-rl/host'
import type { RunStatus, Sink, TrackedEvent } from '@tandem-rl/tracking'
import * as E from 'fp-ts/lib/Either.js'
import { importGuest } from 'tandem-rl/command'
import type { TournamentEvent } from '../arena/matches/tournament.js'
import { gameScalars } from '../arena/session/board.js'

/** Takes events as they happen. */
interface ArenaBoard {
  readonly show: (event: TournamentEvent) => void
  readonly close: (status: 'finished' | 'interrupted' | 'stopped') => Promise<void>
}

const STATUS: Readonly<Record<'finished' | 'interrupted' | 'stopped', RunStatus>> = {
  finished: 'finished',
  interrupted: 'interrupted',
  stopped: 'failed',
}

/** The most events that wait to be written. */
const WAITING = 100

/** Loads what writes TensorBoard files, and returns the writer of a folder. */
export const openBoardSink = async (folder: string): Promise<Sink> => {
  const path = '@tandem-rl/tracking'
  const { tensorBoardSink } = await importGuest<typeof import('@tandem-rl/tracking')>(path, 'tensorboard_logging')
  return tensorBoardSink(folder, filesBelow(dirname(folder)))
}

/** Shows games on a board, or ignores everything for `null`. `done` games are there already. */
export const arenaBoard = (sink: Sink | null, done: number): ArenaBoard => {
  if (sink === null) return { show: () => undefined, close: async () => undefined }
  let step = done
  let waiting: TrackedEvent[] = [{ type: 'start', at: Date.now(), run: 'arena', from: done + 1, settings: {} }]
  let last = Promise.resolve()
  const flush = (): void => {
    const events = waiting
    waiting = []
    last = last.then(async () => {
      const written = await sink.write(events)()
      if (E.isLeft(written)) printError(`warning: ${describe(written.left)}\n`)
    })
  }
  return {
    show: (event) => {
      if (event.type !== 'game') return
      waiting.push(gameScalars(event.record, ++step, Date.now()))
      if (waiting.length >= WAITING) flush()
    },
    close: async (status) => {
      waiting.push({ type: 'end', at: Date.now(), step, status: STATUS[status] })
      flush()
      await last
    },
  }
}
