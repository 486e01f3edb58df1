/**
 * For those who sample on several machines: a shared queue of rollouts in Redis or in memory, the
 * trainer's side of it as a run or as a collector, and the workers.
 *
 * @module
 */
export { type QueuedOptions, queuedRun } from './queuedRun.js'
export { groupQueue, type RolloutLease } from './queues/groupQueue.js'
export type { TaskEnd } from './queues/queueEvents.js'
export {
  type ChangedQueue,
  type LogRead,
  type LogRecord,
  type LogSnapshot,
  memoryQueueLog,
  type QueueFailure,
  type QueueLog,
  type RolloutBytes,
} from './queues/queueLog.js'
export type { DropCause, GroupQueueSettings, GroupQueueState } from './queues/queueState.js'
export { type RedisQueueLogOptions, redisQueueLog } from './queues/redisQueueLog.js'
export {
  type FinishedRollout,
  openRolloutQueue,
  type QueueProblem,
  type RolloutQueue,
  type RolloutQueueOptions,
  type TakenRollouts,
  type TrainerQueue,
  type WorkerQueue,
} from './queues/rolloutQueue.js'
export { type Ledger, ledger, type TaskOutcome, taskOutcome } from './queues/takeGroups.js'
export {
  collectFromQueue,
  type QueueBatch,
  type QueueCollector,
  type QueueCollectorOptions,
  type QueueEnd,
  type QueuePosition,
} from './workers/queueCollector.js'
export {
  type RolloutWorkerOptions,
  runRolloutWorker,
  type WorkerEvent,
  type WorkerLimits,
  type WorkerReport,
  type WorkerStopped,
} from './workers/rolloutWorker.js'
