/** Workers and a trainer on one queue, in one process. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { fakeClock, type ScriptedState } from '@tandem-rl/testing'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { toNested } from '../../../../src/data/tensorDict/inspect.js'
import { envFailure } from '../../../../src/envs/base/env.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { manualTime } from '../../../../test/kit/manualTime.js'
import { collectorOf, groupEnvs, keyedPolicy, takeAll } from '../../../../test/kit/rollouts.js'
import type { QueueLog } from '../../src/queues/queueLog.js'
import { memoryQueueLog } from '../../src/queues/queueLog.js'
import { openRolloutQueue, type RolloutQueue } from '../../src/queues/rolloutQueue.js'
import { ledger } from '../../src/queues/takeGroups.js'
import { collectFromQueue, type QueueCollector } from '../../src/workers/queueCollector.js'
import { type RolloutWorkerOptions, runRolloutWorker, type WorkerEvent } from '../../src/workers/rolloutWorker.js'

useEngine()

const GROUPS = [
  [1, 3],
  [2, 1],
  [4, 1],
  [1, 1],
  [2, 2],
]

const SETTINGS = { groupSize: 2, capacity: 8, order: 'task' } as const

const NO = envFailure('scriptedEnv', 'no')

type Options = Partial<RolloutWorkerOptions<ScriptedState>>

const settings = { ...SETTINGS }

const openOn = async (log: QueueLog, given: Parameters<typeof openRolloutQueue>[1] = { settings }) =>
  orThrow(await openRolloutQueue({ ...log, close: () => Promise.resolve() }, given)())

/** A worker that ends on demand. */
const startWorker = async (log: QueueLog, options: Options = {}) => {
  const stop = new AbortController()
  const events: WorkerEvent[] = []
  const queue = options.queue ?? (await openOn(log))
  const running = runRolloutWorker({
    queue,
    env: (_, ticket) => groupEnvs(GROUPS)(ticket),
    policy: keyedPolicy(),
    key: keyFromSeed(1),
    signal: stop.signal,
    onRollout: (event) => events.push(event),
    ...options,
    time: { clock: fakeClock(), ...options.time },
  })()
  return {
    events,
    running,
    stop: async () => {
      stop.abort()
      return running
    },
  }
}

/** The rows of all groups, one at a time, each trained. */
const collectAll = async (
  collector: QueueCollector<ScriptedState>,
): Promise<{ readonly tickets: readonly number[]; readonly rows: readonly unknown[] }> => {
  const rows: unknown[] = []
  const tickets: number[] = []
  while (true) {
    const taken = orThrow(await collector.next(0)())
    if (taken._tag === 'End') return { tickets, rows }
    using batch = taken.batch
    rows.push(toNested(batch.value))
    tickets.push(...taken.tickets)
    collector.end(taken.tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step: rows.length } })))
    orThrow(await collector.stored(collector.position())())
  }
}

const tasksTo = (count: number) => (ticket: number) => (ticket < count ? { index: ticket } : undefined)

const collectorOn = async (queue: RolloutQueue, tasks = GROUPS.length): Promise<QueueCollector<ScriptedState>> =>
  orThrow(await collectFromQueue<ScriptedState>({ queue, tasks: tasksTo(tasks), groups: 1 })())

describe('rollout workers', () => {
  it('law: two workers bring what one collector plays, bit by bit', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log)
    const workers = [await startWorker(log), await startWorker(log, { limits: { slots: 1 } })]
    const { tickets, rows } = await collectAll(await collectorOn(queue))
    const alone = await takeAll(collectorOf(GROUPS, { order: 'drawn' }).begin())
    expect(tickets).toEqual([0, 1, 2, 3, 4])
    expect(rows).toEqual(alone.batches.map((batch) => batch.rows))
    const reports = (await Promise.all(workers.map((worker) => worker.stop()))).map(orThrow)
    expect(reports.reduce((sum, { delivered }) => sum + delivered, 0)).toBe(10)
    expect(ledger(orThrow(await queue.look()))).toMatchObject({ drawn: 5, trained: 5 })
    expect(orThrow(await log.rolloutNames())).toEqual([])
  })

  it('stops at a task that it must not play, and returns its leases, so that others play it', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log)
    const other = await startWorker(log, { refusal: () => 'its rows are others' })
    const collecting = collectAll(await collectorOn(queue))
    expect(await other.running).toMatchObject({ left: { _tag: 'WorkerStopped', reason: 'its rows are others' } })
    expect(other.events.every(({ _tag }) => _tag === 'Returned')).toBe(true)
    const worker = await startWorker(log)
    expect((await collecting).tickets).toEqual([0, 1, 2, 3, 4])
    expect(orThrow(await worker.stop()).failed).toBe(0)
  })

  it('a rollout that fails is tried again, and its group is dropped when it was tried as often as it may be', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log, { settings: { ...settings, maxAttempts: 2 } })
    const time = manualTime()
    const worker = await startWorker(log, {
      queue: await openOn(log, {}),
      env: (_, ticket) => {
        const env = groupEnvs(GROUPS)(ticket)
        return ticket === 1 ? { ...env, step: () => TE.left(NO) } : env
      },
      limits: { pauseMs: 1 },
      time: { timers: time },
    })
    const { tickets } = await collectAll(await collectorOn(queue, 3))
    expect(tickets).toEqual([0, 2])
    expect(ledger(orThrow(await queue.look()))).toMatchObject({ drawn: 3, trained: 2, dropped: { failed: 1 } })
    expect(orThrow(await worker.stop()).failed).toBeGreaterThanOrEqual(2)
  })

  it('a worker that is stopped returns its leases, and the attempts do not count', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log)
    orThrow(await queue.begin([], 0)())
    orThrow(await queue.add(0, null)())
    let asked = 0
    let bothAsked = (): void => {}
    const hang = new Promise<void>((go) => {
      bothAsked = go
    })
    const worker = await startWorker(log, {
      policy: {
        ...keyedPolicy(),
        act: () => () => {
          if (++asked === 2) bothAsked()
          return new Promise(() => {})
        },
      },
    })
    await hang
    expect(ledger(orThrow(await queue.look()))).toMatchObject({ leased: 1 })
    expect(orThrow(await worker.stop())).toMatchObject({ delivered: 0, returned: 2 })
    const { places } = orThrow(await queue.look()).pending.get(0)!
    expect(places).toEqual([
      { _tag: 'Open', attempts: 0 },
      { _tag: 'Open', attempts: 0 },
    ])
  })

  it('a worker keeps its leases with a heartbeat, and calls off what was given to somebody else', async () => {
    const clock = fakeClock()
    const log = memoryQueueLog({ clock })
    const own = { settings: { groupSize: 1, capacity: 1, leaseMs: 900, maxAttempts: 9 } }
    const queue = await openOn(log, own)
    orThrow(await queue.begin([], 0)())
    orThrow(await queue.add(0, null)())
    const time = manualTime()
    let off = (): void => {}
    const calledOff = new Promise<void>((go) => {
      off = go
    })
    const worker = await startWorker(log, {
      queue: await openOn(log, own),
      time: { timers: time },
      policy: {
        ...keyedPolicy(),
        act:
          (_, __, { signal } = {}) =>
          () => {
            signal!.addEventListener('abort', off)
            return new Promise(() => {})
          },
      },
    })
    const expires = async (): Promise<number> => {
      const place = orThrow(await queue.look()).pending.get(0)?.places[0]
      return place?._tag === 'Leased' ? place.expires : 0
    }
    await expect.poll(expires).toBe(900)
    clock.advance(300)
    await expect.poll(() => time.waits()).toContain(300)
    time.pass(300)
    await expect.poll(expires).toBe(1200)
    clock.advance(1000)
    const other = await openOn(log, own)
    expect(orThrow(await other.lease())).toMatchObject({ ticket: 0, attempt: 2 })
    await expect.poll(() => time.waits()).toContain(300)
    time.pass(300)
    await calledOff
    expect(orThrow(await worker.stop())).toEqual({ delivered: 0, failed: 0, late: 0, returned: 0 })
    expect(orThrow(await queue.look()).pending.get(0)!.places[0]).toMatchObject({ _tag: 'Leased', attempts: 2 })
  })

  it('a rollout that is not over in its time has failed', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log, { settings: { groupSize: 1, capacity: 1, maxAttempts: 1 } })
    orThrow(await queue.begin([], 0)())
    orThrow(await queue.add(0, null)())
    const time = manualTime()
    const worker = await startWorker(log, {
      queue: await openOn(log, {}),
      time: { timers: time },
      limits: { deadlineMs: 77_000 },
      policy: { ...keyedPolicy(), act: () => () => new Promise(() => {}) },
    })
    await expect.poll(() => time.waits()).toContain(77_000)
    time.pass(77_000)
    await expect.poll(() => worker.events).toMatchObject([{ _tag: 'Failed', reason: 'not finished within 77000 ms' }])
    expect(ledger(orThrow(await queue.look()))).toMatchObject({ drawn: 1, dropped: { failed: 1 } })
    expect(orThrow(await worker.stop())).toMatchObject({ failed: 1 })
  })

  it('a worker whose rollouts all fail stops with the reason', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log, { settings: { groupSize: 1, capacity: 8, maxAttempts: 99 } })
    orThrow(await queue.begin([], 0)())
    orThrow(await queue.add(0, null)())
    const worker = await startWorker(log, {
      queue: await openOn(log, {}),
      time: { timers: manualTime() },
      limits: { failuresInRow: 3, pauseMs: 1, slots: 1 },
      env: () => {
        throw new TypeError('no such task')
      },
    })
    expect(await worker.running).toMatchObject({
      _tag: 'Left',
      left: {
        _tag: 'WorkerStopped',
        reason: expect.stringMatching(
          /^3 rollouts in a row failed, the last one because: TypeError: no such task \(at .*rolloutWorker\.test\.ts:\d+:\d+\)$/,
        ),
        report: { failed: 3 },
      },
    })
    expect(ledger(orThrow(await queue.look()))).toMatchObject({ drawn: 1, queued: 1 })
  })

  it('a queue that cannot be used ends the work', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log)
    const broken = {
      ...log,
      append: () => () => Promise.resolve(E.left({ _tag: 'QueueFailure', kind: 'refused', reason: 'no' } as const)),
    }
    orThrow(await queue.begin([], 0)())
    orThrow(await queue.add(0, null)())
    const worker = await startWorker(log, { queue: await openOn(broken) })
    expect(await worker.running).toMatchObject({
      _tag: 'Left',
      left: { _tag: 'WorkerStopped', reason: 'the queue cannot be used', cause: { kind: 'refused' } },
    })
  })

  it('limits that make no sense are refused, all at once', async () => {
    const log = memoryQueueLog()
    const queue = await openOn(log)
    const limits = { slots: 0, maxTurns: 0.5, tokenBudget: 0, deadlineMs: 0, failuresInRow: 0, pauseMs: -1 }
    const env = (): never => {
      throw new Error('not asked')
    }
    await expect(
      runRolloutWorker({ queue, env, policy: keyedPolicy(), key: keyFromSeed(1), limits })(),
    ).rejects.toThrow(
      'runRolloutWorker: slots must be an integer of at least 1, got 0; maxTurns must be an integer of at least 1, got 0.5; failuresInRow must be an integer of at least 1, got 0; tokenBudget must be an integer of at least 1, got 0; deadlineMs must be above 0, got 0; pauseMs must be at least 0, got -1',
    )
  })
})
