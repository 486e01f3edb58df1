/**
 * Options of the queue that a trainer shares with its workers. The queue itself is in
 * `@tandem-rl/cluster`.
 */
import { Option } from 'commander'
import type { AnyRun } from '../run/parts/run.js'
import { CommandError } from './failure.js'
import { importGuest } from './guest.js'
import { positiveInteger } from './options.js'
import { say } from './plan.js'

export interface QueueFlags {
  readonly queue: string
  readonly queueName: string
  readonly leaseSeconds?: number
}

export const queueOptions = (): readonly Option[] => [
  new Option('--queue <url>', 'queue of rollouts for workers: redis://HOST:PORT, rediss:// or unix:/PATH'),
  new Option('--queue-name <name>', 'name of the queue; each run needs its own').default('tandem'),
]

export const leaseOption = (): Option =>
  new Option(
    '--lease-seconds <n>',
    'seconds without a heartbeat after which the rollouts of a worker are given to others (default: 30)',
  ).argParser(positiveInteger)

/**
 * Returns a run with its rollouts played by workers. `onNotice` gets the reasons for waiting.
 *
 * Errors   throws CommandError for an invalid URL, and for a run that workers cannot play.
 */
export type QueueRun = (run: AnyRun, flags: QueueFlags, onNotice: (message: string) => void) => AnyRun

/**
 * Returns the run. With `--queue`, its rollouts are played by workers.
 *
 * Errors   rejects with CommandError as `QueueRun`, and if its package is not installed.
 */
export const withQueue = async (
  run: AnyRun,
  { queue, queueName = 'tandem', leaseSeconds }: Partial<QueueFlags>,
): Promise<AnyRun> => {
  if (queue === undefined && leaseSeconds !== undefined) throw new CommandError('--lease-seconds needs --queue')
  if (queue === undefined) return run
  const { queueRun } = await importGuest<{ readonly queueRun: QueueRun }>('@tandem-rl/cluster/command', '--queue')
  const flags = { queue, queueName, ...(leaseSeconds !== undefined && { leaseSeconds }) }
  return queueRun(run, flags, (message) => say(`${message}\n`))
}
