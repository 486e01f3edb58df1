/** Run folders that are written from outside, for runs of other trainers. */
import { type FileFailure, type Files, type Json, type Locks, orThrow } from '@tandem-rl/base'
import { filesBelow, liveLocks } from '@tandem-rl/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { startNow } from './machineRecord.js'
import { createRun, type RunFailure, runLock, runPaths } from './runFolder.js'

/** A run folder that is open for writing. */
export interface RunWriter {
  /** Appends records to metrics.jsonl. Quantities that the trainer did not log may be absent. */
  readonly append: (records: readonly object[]) => TE.TaskEither<FileFailure, void>
  /** Writes the status of the run, such as `finished`. */
  readonly finish: (status: string) => TE.TaskEither<FileFailure, void>
  /** Releases the folder. */
  readonly release: () => Promise<void>
}

/**
 * Creates the folder of a run that another trainer makes.
 *
 * Errors   `Left(RunFolderFailure)` if the folder already holds a run. Nothing is overwritten.
 */
export const createRunFolder = (
  folder: string,
  { recipe, settings }: { readonly recipe: string; readonly settings: Readonly<Record<string, Json>> },
  files: Files = filesBelow(folder),
): TE.TaskEither<RunFailure, void> => {
  const config = { format: 2, recipe: { name: recipe, file: null }, settings, run: {}, start: startNow() } as const
  return TE.map(() => undefined)(createRun(files, folder, config))
}

/**
 * Opens a run folder for writing. The first call of `append` empties its metrics. While the folder
 * is open, the run counts as running.
 *
 * Errors   rejects with FailureError if another process writes to the folder.
 */
export const writeRun = async (
  folder: string,
  { files = filesBelow(folder), locks = liveLocks }: { readonly files?: Files; readonly locks?: Locks } = {},
): Promise<RunWriter> => {
  const { metrics, summary } = runPaths(folder)
  const { release } = orThrow(await locks.take(runLock(folder))())
  let isEmpty = false
  const emptied = async (): Promise<void> => {
    if (!isEmpty) orThrow(await files.write(metrics, '')())
    isEmpty = true
  }
  return {
    append: (records) => async () => {
      await emptied()
      return files.append(metrics, records.map((record) => `${JSON.stringify(record)}\n`).join(''))()
    },
    finish: (status) => files.write(summary, `${JSON.stringify({ status })}\n`),
    release,
  }
}
