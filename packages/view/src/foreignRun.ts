/** A log of another program as a run of the viewer. */
import { describe, type Files } from '@tandem-rl/base'
import { fileTimes } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { ForeignLog } from './foreign/foreignLog.js'
import type { FoundLog } from './foreign/readers.js'
import { rolloutColumns } from './metricColumns.js'
import { heldRollouts, type RolloutLog } from './rolloutLog.js'
import type { RunLog, ViewedRun } from './viewedRun.js'

/** A log that was read, or the reason why it cannot be. */
interface OpenLog {
  readonly log: RunLog
  readonly rollouts: RolloutLog
  readonly problem: string | null
}

const NO_LOG: ForeignLog = { model: null, data: null, startedAt: null, settings: {}, turns: [] }

const open = async (files: Files, { reader, paths }: FoundLog): Promise<OpenLog> => {
  const times = await Promise.all(paths.map(fileTimes))
  const read = await reader.read(files, paths)()
  const { model, data, startedAt, settings, turns } = E.isRight(read) ? read.right : NO_LOG
  const rollouts = heldRollouts(turns)
  const rows = (await rollouts.rollouts()).map(({ row }) => row)
  return {
    rollouts,
    problem: E.isLeft(read) ? describe(read.left) : null,
    log: {
      recipe: null,
      settings: { format: reader.format, model, dataset: data, ...settings },
      parts: {},
      command: null,
      version: null,
      machine: null,
      state: 'finished',
      steps: [],
      evaluations: [],
      best: null,
      checkpoints: [],
      batches: [],
      startedAt,
      columns: rolloutColumns(rows),
      trajectoryBytes: times.reduce((sum, each) => sum + (each?.bytes ?? 0), 0),
      updatedAt:
        times
          .map((each) => each?.modified ?? '')
          .sort()
          .at(-1) || null,
    },
  }
}

/**
 * Makes a run of a log, which is read again when a file changes. A log that cannot be read is a run
 * without rollouts, and its note has the reason.
 */
export const foreignRun = (
  files: Files,
  { id, log: found }: { readonly id: string; readonly log: () => FoundLog },
): ViewedRun => {
  let state: Promise<OpenLog> | undefined
  let known = ''
  const current = async (): Promise<OpenLog> => {
    const log = found()
    const stamp = JSON.stringify([log.paths, await Promise.all(log.paths.map(fileTimes))])
    if (state === undefined || stamp !== known) {
      known = stamp
      state = open(files, log)
    }
    return state
  }
  return {
    id,
    folder: found().place,
    files,
    access: 'read',
    log: async () => (await current()).log,
    alarms: async () => [],
    note: async () => {
      const { problem } = await current()
      return { tags: [found().reader.format], ...(problem !== null && { note: `This log cannot be read: ${problem}` }) }
    },
    annotations: async () => new Map(),
    rollouts: async () => (await current()).rollouts.rollouts(),
    turns: async (rollouts) => (await current()).rollouts.turns(rollouts),
    search: async (text) => (await current()).rollouts.search(text),
  }
}
