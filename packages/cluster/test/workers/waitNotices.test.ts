/** Notices of a trainer that waits for workers. */
import { orThrow } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { addTask, groupQueue, leaseRollout, renewLease } from '../../src/queues/groupQueue.js'
import type { LeaseQueue } from '../../src/queues/queueEvents.js'
import { overdueWorkers } from '../../src/queues/takeGroups.js'
import { waitNotices } from '../../src/workers/waitNotices.js'

const added: LeaseQueue = orThrow(addTask(groupQueue<null, number>({ groupSize: 2, capacity: 1 }), null))[1]

const leasedBy = (worker: string, queue: LeaseQueue, now: number): LeaseQueue =>
  orThrow(leaseRollout(queue, { worker, now }))[1]

/** Reports states of a queue at times, without an event since a time. */
const noticesOf = async (looks: readonly (readonly [state: LeaseQueue, now: number, quietMs: number])[]) => {
  const notices: string[] = []
  let at = looks[0]!
  const report = waitNotices(
    { overdueWorkers: (afterMs) => TE.fromIO(() => overdueWorkers(at[0], { now: at[1], afterMs })) },
    (message) => notices.push(`${at[1] / 1000} s: ${message}`),
  )
  for (const look of looks) {
    at = look
    await report(look[0], look[2])
  }
  return notices
}

const OVERDUE = "worker 'a' has 1 rollout and has sent no heartbeat for 15 s; after 30 s other workers play them"

describe('a trainer that waits', () => {
  it('reports after 10 s that no worker has taken a rollout, and then every minute', async () => {
    const seconds = [0, 5, 10, 15, 65, 70, 75, 130]
    expect(await noticesOf(seconds.map((s) => [added, 1000 * s, 1000 * s]))).toEqual([
      '10 s: no worker has taken one of 2 rollouts for 10 s: start a worker',
      '70 s: no worker has taken one of 2 rollouts for 70 s: start a worker',
      '130 s: no worker has taken one of 2 rollouts for 130 s: start a worker',
    ])
  })

  it('reports a worker without heartbeats once, and again after its next heartbeat', async () => {
    const one = leasedBy('a', added, 0)
    const { lease } = one.pending.get(0)!.places[0] as { readonly lease: number } // it is leased
    const renewed = orThrow(renewLease(one, { ticket: 0, place: 0, lease, now: 20_000 }))
    expect(
      await noticesOf([
        [one, 5000, 5000],
        [one, 15_000, 15_000],
        [one, 20_000, 20_000],
        [renewed, 21_000, 0],
        [renewed, 35_000, 14_000],
      ]),
    ).toEqual([`15 s: ${OVERDUE}`, `35 s: ${OVERDUE}`])
  })

  it('reports missing workers once the leases of the last one have expired, and never while one works', async () => {
    const one = leasedBy('a', added, 0)
    const two = leasedBy('b', leasedBy('a', added, 0), 20_000)
    expect(await noticesOf([15_000, 29_000, 30_000].map((ms) => [one, ms, ms]))).toEqual([
      `15 s: ${OVERDUE}`,
      '30 s: no worker has taken one of 2 rollouts for 30 s: start a worker',
    ])
    expect(await noticesOf([15_000, 30_000, 34_000].map((ms) => [two, ms, ms]))).toEqual([`15 s: ${OVERDUE}`])
  })

  it('is quiet while all rollouts are delivered', async () => {
    const empty = groupQueue<null, number>({ groupSize: 2, capacity: 1 })
    expect(await noticesOf([[empty, 0, 600_000]])).toEqual([])
  })
})
