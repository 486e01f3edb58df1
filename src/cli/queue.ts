/** The queue that a trainer and its workers share. */
import { Option } from 'commander'
import { redisQueueLog } from '../collectors/queues/redisQueueLog.js'
import { CommandError } from './failure.js'

export interface QueueFlags {
  readonly queue: string
  readonly queueName: string
}

export const queueOptions = (): readonly Option[] => [
  new Option('--queue <url>', 'queue that workers play rollouts from: redis://HOST:PORT, rediss:// or unix:/PATH'),
  new Option('--queue-name <name>', 'name of the queue: another one for each run').default('tandem'),
]

/** Errors: throws CommandError for an address that is none. */
export const queueLog = ({ queue, queueName }: QueueFlags): ReturnType<typeof redisQueueLog> => {
  try {
    return redisQueueLog({ url: queue, name: queueName })
  } catch (error) {
    throw error instanceof TypeError ? new CommandError(error.message) : error
  }
}
