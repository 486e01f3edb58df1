/** Options of the queue that a trainer shares with its workers. */
import { Option } from 'commander'
import { redisQueueLog } from '../collectors/queues/redisQueueLog.js'
import { CommandError } from './failure.js'
import { positiveInteger } from './options.js'

export interface QueueFlags {
  readonly queue: string
  readonly queueName: string
}

/**
 * Milliseconds for which the first call of a queue is retried. Later calls are retried for longer:
 * a server that was there comes back.
 */
export const OPEN_MS = 3000

export const queueOptions = (): readonly Option[] => [
  new Option('--queue <url>', 'queue of rollouts for workers: redis://HOST:PORT, rediss:// or unix:/PATH'),
  new Option('--queue-name <name>', 'name of the queue; each run needs its own').default('tandem'),
]

export const leaseOption = (): Option =>
  new Option(
    '--lease-seconds <n>',
    'seconds without a heartbeat after which the rollouts of a worker are given to others (default: 30)',
  ).argParser(positiveInteger)

/** Opens the queue's log. Throws CommandError for an invalid URL. */
export const queueLog = ({ queue, queueName }: QueueFlags): ReturnType<typeof redisQueueLog> => {
  try {
    return redisQueueLog({ url: queue, name: queueName })
  } catch (error) {
    throw error instanceof TypeError ? new CommandError(error.message) : error
  }
}
