/** TensorBoard files of `tandem arena`. */

import { dirname } from 'node:path'
import { describe } from '@tandem-rl/base'
import { printError } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TournamentEvent } from '../arena/matches/tournament.js'
import { gameScalars } from '../arena/session/board.js'
import { filesBelow } from '../live/files.js'
import type { RunStatus, TrackedEvent } from '../tracking/sink.js'
import { tensorBoardSink } from '../tracking/tensorBoard.js'

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

/**
 * Opens the board of a folder, or one that ignores everything for `null`. `done` games are there
 * already.
 */
export const openArenaBoard = (folder: string | null, done: number): ArenaBoard => {
  if (folder === null) return { show: () => undefined, close: async () => undefined }
  const sink = tensorBoardSink(folder, filesBelow(dirname(folder)))
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
