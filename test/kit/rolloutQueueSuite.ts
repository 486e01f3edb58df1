/**
 * The conformance suite of logs of a shared queue: the queue on a log equals the pure one, for any
 * clients and faults.
 */
import { type Json, orThrow } from '@tandem-rl/base'
import {
  type GroupQueueState,
  groupQueue,
  openRolloutQueue,
  type QueueFailure,
  type QueueLog,
  type RolloutLease,
  type RolloutQueue,
} from '@tandem-rl/cluster'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { expect, it } from 'vitest'
import {
  addTask,
  deliverRollout,
  failRollout,
  leaseRollout,
  renewLease,
  returnRollout,
} from '../../packages/cluster/src/queues/groupQueue.js'
import { groupQueueToJson } from '../../packages/cluster/src/queues/queueJson.js'
import type { QueueRefusal, Settled } from '../../packages/cluster/src/queues/queueState.js'
import {
  dropTask,
  evictStale,
  returnTaken,
  settleGroup,
  takeGroups,
} from '../../packages/cluster/src/queues/takeGroups.js'

/** Logs of one kind. */
export interface LogSubject {
  readonly name: string
  /** A new empty log: each call of what it gives connects to it once more. */
  readonly fresh: () => () => QueueLog
  /** Runs of each law. */
  readonly runs: number
}

type Pure = GroupQueueState<Json, number>

/** The pure queue, and the clients of the shared one. */
interface Model {
  queue: Pure
  /** Leases that were given, and by which client. */
  readonly leases: { readonly lease: RolloutLease<Json>; readonly client: number }[]
  readonly ended: { readonly ticket: number; readonly how: Settled }[]
  trained: number
}

interface Real {
  readonly trainer: RolloutQueue
  readonly workers: readonly RolloutQueue[]
}

type Step = (model: Model, real: Real) => Promise<void>

const WORKERS = 2

/** Bytes by which a rollout is known. */
const bytesOf = (lease: number): Uint8Array => Uint8Array.of(1, 2, lease % 256)

const settingsOf = fc.record({
  groupSize: fc.integer({ min: 1, max: 3 }),
  capacity: fc.integer({ min: 1, max: 4 }),
  leaseMs: fc.constant(1e9),
  maxAttempts: fc.integer({ min: 1, max: 3 }),
  maxLag: fc.integer({ min: 0, max: 3 }),
  order: fc.constantFrom('completion' as const, 'task' as const),
})

/** The refusal's kind or the value: both sides must say the same. */
const said = <A>(answer: E.Either<QueueFailure | QueueRefusal, A>): unknown =>
  E.isLeft(answer) ? answer.left.kind : answer.right

/** Without what depends on the clock and the names of clients. */
const plainState = (queue: Pure): unknown =>
  JSON.parse(JSON.stringify(orThrow(groupQueueToJson(queue))), (key, value: unknown) =>
    key === 'expires' || key === 'worker' ? null : value,
  )

const checkSame = async (model: Model, real: Real): Promise<void> => {
  for (const client of [real.trainer, ...real.workers])
    expect(plainState(orThrow(await client.look()))).toEqual(plainState(model.queue))
}

const changeBy =
  (
    call: (model: Model, real: Real) => Promise<unknown>,
    pure: (model: Model) => E.Either<QueueRefusal, Pure> | undefined,
  ): Step =>
  async (model, real) => {
    const expected = pure(model)
    if (expected === undefined) return
    const found = await call(model, real)
    expect(found).toEqual(E.isLeft(expected) ? expected.left.kind : 'done')
    if (E.isRight(expected)) model.queue = expected.right
  }

const doneOr = <A>(answer: E.Either<QueueFailure | QueueRefusal, A>): unknown =>
  E.isLeft(answer) ? answer.left.kind : 'done'

const pick = <X>(list: readonly X[], at: number): X | undefined => list[at % Math.max(1, list.length)]

const add: Step = changeBy(
  async (model, { trainer }) => doneOr(await trainer.add(model.queue.nextTicket, `task ${model.queue.nextTicket}`)()),
  ({ queue }) => {
    const added = addTask<Json, number>(queue, `task ${queue.nextTicket}`)
    return E.isLeft(added) ? added : E.right(added.right[1])
  },
)

const addAgain: Step = async (model, { trainer }) => {
  if (model.queue.nextTicket === 0) return
  expect(said(await trainer.add(model.queue.nextTicket - 1, 'again')())).toBe('delivered')
}

const lease =
  (client: number): Step =>
  async (model, real) => {
    const found = await real.workers[client]!.lease()
    const expected = leaseRollout(model.queue, { worker: 'w', now: 0 })
    if (E.isLeft(expected)) {
      expect(said(found)).toBe(expected.left.kind)
      return
    }
    const [given, queue] = expected.right
    const { expires: _, ...rest } = orThrow(found)
    const { expires: __, ...wanted } = given
    expect(rest).toEqual(wanted)
    model.leases.push({ lease: given, client })
    model.queue = queue
  }

/** A delivery; the same one again changes nothing. */
const deliver =
  (at: number, policyVersion: number): Step =>
  async (model, real) => {
    const one = pick(model.leases, at)
    if (one === undefined) return
    const { ticket, place, lease: number } = one.lease
    const found = model.queue.pending.get(ticket)?.places[place]
    const isThere = found?._tag === 'Filled' && found.rollout === number
    const rollout = { ticket, place, lease: number, bytes: bytesOf(number), policyVersion }
    const answer = await real.workers[one.client]!.deliver(rollout)()
    const expected = deliverRollout(model.queue, { ticket, place, lease: number, rollout: number, policyVersion })
    expect(doneOr(answer)).toBe(isThere || E.isRight(expected) ? 'done' : expected.left.kind)
    if (E.isRight(expected)) model.queue = expected.right
  }

const fail = (at: number): Step =>
  changeBy(
    async (model, { workers }) => {
      const one = pick(model.leases, at)!
      return doneOr(await workers[one.client]!.fail(one.lease, 'the engine said no')())
    },
    (model) => {
      const one = pick(model.leases, at)
      return one && failRollout(model.queue, { ...one.lease, reason: 'the engine said no' })
    },
  )

const giveBack = (at: number): Step =>
  changeBy(
    async (model, { workers }) => {
      const one = pick(model.leases, at)!
      return doneOr(await workers[one.client]!.giveBack(one.lease)())
    },
    (model) => {
      const one = pick(model.leases, at)
      return one && returnRollout(model.queue, one.lease)
    },
  )

const renew: Step = async (model, { workers }) => {
  const gone = orThrow(await workers[0]!.renew(model.leases.map((each) => each.lease))())
  const expected = model.leases.flatMap((each) =>
    E.isLeft(renewLease(model.queue, { ...each.lease, now: 0 })) ? [each.lease.lease] : [],
  )
  expect(gone).toEqual(expected)
}

const take =
  (count: number): Step =>
  async (model, { trainer }) => {
    const taken = orThrow(await trainer.take(count)())
    const [groups, queue] = takeGroups(model.queue, count)
    expect(
      taken.map(({ ticket, task, rollouts }) => ({
        ...{ ticket, task },
        rollouts: rollouts.map(({ bytes, policyVersion }) => ({ bytes: [...bytes], policyVersion })),
      })),
    ).toEqual(
      groups.map(({ ticket, task, rollouts }) => ({
        ...{ ticket, task },
        rollouts: rollouts.map(({ rollout, policyVersion }) => ({ bytes: [...bytesOf(rollout)], policyVersion })),
      })),
    )
    model.queue = queue
  }

const settle = (ticket: number, tag: Settled['_tag']): Step => {
  const how: Settled =
    tag === 'Trained' ? { _tag: tag, step: 3 } : { _tag: tag, cause: 'filtered', reason: 'all rewards are equal' }
  return async (model, { trainer }) => {
    const expected = settleGroup(model.queue, ticket, how)
    const isAgain = model.ended.some((end) => end.ticket === ticket && end.how._tag === tag)
    const found = await trainer.settle([{ ticket, how }])()
    expect(doneOr(found)).toBe(isAgain || E.isRight(expected) ? 'done' : expected.left.kind)
    if (E.isLeft(expected)) return
    model.queue = expected.right
    model.ended.push({ ticket, how })
    if (tag === 'Trained') model.trained++
  }
}

const drop = (ticket: number): Step =>
  changeBy(
    async (_, { trainer }) => doneOr(await trainer.drop(ticket, 'cancelled', 'the run ends')()),
    ({ queue }) => dropTask(queue, ticket, { cause: 'cancelled', reason: 'the run ends' }),
  )

const evict =
  (version: number): Step =>
  async (model, { trainer }) => {
    const next = evictStale(model.queue, version)
    expect(orThrow(await trainer.evict(version)())).toBe(model.queue.pending.size - next.pending.size)
    model.queue = next
  }

/** The trainer begins anew from a checkpoint that knows everything. */
const begin: Step = async (model, { trainer }) => {
  orThrow(await trainer.begin([], model.trained)())
  model.queue = returnTaken(model.queue)
}

const command = (name: string, step: Step): fc.AsyncCommand<Model, Real> => ({
  check: () => true,
  run: async (model, real) => {
    await step(model, real)
    await checkSame(model, real)
  },
  toString: () => name,
})

const at = fc.nat({ max: 20 })
const ticket = fc.nat({ max: 8 })

const commands = [
  fc.constant(command('add', add)),
  fc.constant(command('add', add)),
  fc.constant(command('addAgain', addAgain)),
  fc.nat({ max: WORKERS - 1 }).map((n) => command(`lease(${n})`, lease(n))),
  fc.nat({ max: WORKERS - 1 }).map((n) => command(`lease(${n})`, lease(n))),
  fc.tuple(at, fc.nat({ max: 3 })).map(([i, v]) => command(`deliver(${i}, ${v})`, deliver(i, v))),
  fc.tuple(at, fc.nat({ max: 3 })).map(([i, v]) => command(`deliver(${i}, ${v})`, deliver(i, v))),
  at.map((i) => command(`fail(${i})`, fail(i))),
  at.map((i) => command(`giveBack(${i})`, giveBack(i))),
  fc.constant(command('renew', renew)),
  fc.integer({ min: 0, max: 3 }).map((n) => command(`take(${n})`, take(n))),
  ticket.map((n) => command(`train(${n})`, settle(n, 'Trained'))),
  ticket.map((n) => command(`filter(${n})`, settle(n, 'Dropped'))),
  ticket.map((n) => command(`drop(${n})`, drop(n))),
  fc.nat({ max: 6 }).map((n) => command(`evict(${n})`, evict(n))),
  fc.constant(command('begin', begin)),
]

/** Registers the tests for one kind of log. */
export const rolloutQueueSuite = ({ name, fresh, runs }: LogSubject): void => {
  it(`law: a queue on ${name} answers and becomes what the pure queue does, for all of its clients`, async () => {
    await fc.assert(
      fc.asyncProperty(
        settingsOf,
        fc.commands(commands, { maxCommands: 40, size: 'max' }),
        async (settings, sequence) => {
          const connect = fresh()
          const open = async (): Promise<RolloutQueue> =>
            orThrow(await openRolloutQueue(connect(), { settings, snapshotEvery: 7 })())
          const real: Real = {
            trainer: await open(),
            workers: await Promise.all(Array.from({ length: WORKERS }, open)),
          }
          try {
            orThrow(await real.trainer.begin([], 0)())
            const model = { queue: groupQueue<Json, number>(settings), leases: [], ended: [], trained: 0 }
            await fc.asyncModelRun(() => ({ model, real }), sequence)
          } finally {
            for (const client of [real.trainer, ...real.workers]) await client.close()
          }
        },
      ),
      { numRuns: runs },
    )
  })

  it(`two clients that open a queue on ${name} at the same time share it, and one with other settings is told`, async () => {
    const connect = fresh()
    const settings = { groupSize: 1, capacity: 2 }
    const opened = await Promise.all([1, 2, 3].map(() => openRolloutQueue(connect(), { settings })()))
    const [one, two] = opened.map(orThrow)
    orThrow(await one!.begin([], 0)())
    orThrow(await one!.add(0, { index: 7 })())
    expect(orThrow(await two!.lease())).toMatchObject({ ticket: 0, place: 0, task: { index: 7 }, attempt: 1 })
    const other = connect()
    const found = await openRolloutQueue(other, { settings: { groupSize: 2, capacity: 2 } })()
    expect(found).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueFailure', kind: 'other' } })
    await other.close()
    for (const each of opened.map(orThrow)) await each.close()
  })

  it(`a client of ${name} without settings needs a queue that is there`, async () => {
    const log = fresh()()
    const found = await openRolloutQueue(log)()
    expect(found).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueFailure', kind: 'absent' } })
    await log.close()
  })

  it(`whoever waits for a change on ${name} goes on when somebody else changes something`, async () => {
    const connect = fresh()
    const settings = { groupSize: 1, capacity: 2 }
    const trainer = orThrow(await openRolloutQueue(connect(), { settings })())
    const worker = orThrow(await openRolloutQueue(connect())())
    orThrow(await trainer.begin([], 0)())
    expect(said(await worker.lease())).toBe('empty')
    const changed = worker.changed(250_000)()
    orThrow(await trainer.add(0, null)())
    expect(orThrow(await changed)).toBe('changed')
    expect(orThrow(await worker.lease()).ticket).toBe(0)
    await trainer.close()
    await worker.close()
  })
}
