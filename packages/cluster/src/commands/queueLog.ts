/** The queue of the flags of commands. */
import { CommandError, type QueueFlags } from 'tandem-rl/command'
import type { QueueLog } from '../queues/queueLog.js'
import { redisQueueLog } from '../queues/redisQueueLog.js'

/**
 * Milliseconds for which the first call of a queue is retried. Later calls are retried for longer:
 * a server that was there comes back.
 */
export const OPEN_MS = 3000

/** Opens the queue's log. Throws CommandError for an invalid URL. */
export const queueLog = ({ queue, queueName }: Pick<QueueFlags, 'queue' | 'queueName'>): QueueLog => {
  try {
    return redisQueueLog({ url: queue, name: queueName })
  } catch (error) {
    throw error instanceof TypeError ? new CommandError(error.message) : error
  }
}
