/** Notices of a trainer that waits for workers. */
import { countOf } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { LeaseQueue } from '../queues/queueEvents.js'
import type { RolloutQueue } from '../queues/rolloutQueue.js'
import type { OverdueWorker } from '../queues/takeGroups.js'

/** Time without any event after which missing workers are reported, first and then again. */
const NO_WORKER_MS = 10_000
const REPEATED_MS = 60_000

const secondsText = (ms: number): string => `${Math.round(ms / 1000)} s`

const overdueText = ({ worker, rollouts, sinceMs }: OverdueWorker, leaseMs: number): string =>
  `worker '${worker}' has ${countOf(rollouts, 'rollout')} and has sent no heartbeat for ${secondsText(sinceMs)}; ` +
  `after ${secondsText(leaseMs)} other workers play them`

/**
 * Makes the function that reports what the trainer waits for: a worker with overdue heartbeats once
 * until the next one arrives, and missing workers every minute. Its second argument is the time
 * without any event.
 *
 * Effects  reads the queue while rollouts are leased, and calls `onNotice`.
 */
export const waitNotices = (
  queue: Pick<RolloutQueue, 'overdueWorkers'>,
  onNotice: (message: string) => void,
): ((state: LeaseQueue, quietMs: number) => Promise<void>) => {
  let reported: ReadonlySet<string> = new Set()
  let nextMs = NO_WORKER_MS

  /** Reports overdue workers. Returns the number of rollouts whose leases have expired. */
  const reportOverdue = async (leaseMs: number): Promise<number> => {
    const found = await queue.overdueWorkers(leaseMs / 2)()
    if (E.isLeft(found)) return 0 // the next call of the queue fails as well, and is reported
    for (const each of found.right) if (!reported.has(each.worker)) onNotice(overdueText(each, leaseMs))
    reported = new Set(found.right.map(({ worker }) => worker))
    const expired = found.right.filter(({ sinceMs }) => sinceMs >= leaseMs)
    return expired.reduce((sum, { rollouts }) => sum + rollouts, 0)
  }

  return async ({ pending, settings: { leaseMs } }, quietMs) => {
    const places = [...pending.values()].flatMap((group) => group.places)
    const leased = places.filter(({ _tag }) => _tag === 'Leased').length
    const expired = leased > 0 ? await reportOverdue(leaseMs) : 0
    if (quietMs === 0) nextMs = NO_WORKER_MS
    const open = expired + places.filter(({ _tag }) => _tag === 'Open').length
    if (expired < leased || open === 0 || quietMs < nextMs) return
    nextMs = quietMs + REPEATED_MS
    onNotice(`no worker has taken one of ${countOf(open, 'rollout')} for ${secondsText(quietMs)}: start a worker`)
  }
}
