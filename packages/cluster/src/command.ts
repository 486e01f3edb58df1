/**
 * For those who start training from the command line: `tandem train` opens the queue of its flag
 * `--queue` here.
 *
 * @module
 */
import { CommandError, type QueueRun } from 'tandem-rl/command'
import { OPEN_MS, queueLog } from './commands/queueLog.js'
import { queuedRun } from './queuedRun.js'

/** Returns the run with its rollouts played by workers. */
export const queueRun: QueueRun = (run, { leaseSeconds, ...flags }, onNotice) => {
  try {
    return queuedRun(run, {
      log: queueLog(flags),
      openMs: OPEN_MS,
      onNotice,
      ...(leaseSeconds !== undefined && { leaseMs: 1000 * leaseSeconds }),
    })
  } catch (error) {
    throw error instanceof RangeError ? new CommandError(`--queue: ${error.message}`) : error
  }
}
